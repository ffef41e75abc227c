#!/usr/bin/env bash
# Record Storm: every entry of settings.json through its executor of windowed bolts, in one process.
set -euo pipefail
cd "$(dirname "$0")"

mvn -q -B -T1 compile dependency:build-classpath
rm -rf ../recorded/storm
version=$(sed -n 's:.*<storm.version>\(.*\)</storm.version>.*:\1:p' pom.xml)
nice -n 10 "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Xmx512m -Dlog4j2.level=WARN \
    -cp "target/classes:$(cat target/classpath)" engines.Recorder ../recorded "$version"
