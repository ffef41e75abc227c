#!/usr/bin/env bash
# Record Samza: every entry of settings.json through its window operator, in one process.
set -euo pipefail
cd "$(dirname "$0")"

mvn -q -B -T1 compile dependency:build-classpath
rm -rf ../recorded/samza
version=$(sed -n 's:.*<samza.version>\(.*\)</samza.version>.*:\1:p' pom.xml)
nice -n 10 "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Xmx512m \
    -cp "target/classes:$(cat target/classpath)" engines.Recorder ../recorded "$version"
