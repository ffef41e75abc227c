#!/usr/bin/env bash
# Record Beam: every entry of settings.json through the direct runner, in one process.
set -euo pipefail
cd "$(dirname "$0")"

mvn -q -B -T1 compile dependency:build-classpath
rm -rf ../recorded/beam
version=$(sed -n 's:.*<beam.version>\(.*\)</beam.version>.*:\1:p' pom.xml)
nice -n 10 "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Xmx512m \
    -cp "target/classes:$(cat target/classpath)" engines.Recorder ../recorded "$version"
