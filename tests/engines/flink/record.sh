#!/usr/bin/env bash
# Record Flink: every entry of settings.json, one job after the other in one process; then those of
# joins.json.
set -euo pipefail
cd "$(dirname "$0")"

mvn -q -B -T1 compile dependency:build-classpath
rm -rf ../recorded/flink ../recorded/flink-joins
# Rows are copied through Kryo, which looks into classes that Java keeps to itself.
java=(nice -n 10 "${JAVA_HOME:+$JAVA_HOME/bin/}java"
    --add-opens java.base/java.util=ALL-UNNAMED --add-opens java.base/java.lang=ALL-UNNAMED
    -cp "target/classes:$(cat target/classpath)")
"${java[@]}" engines.Recorder ../recorded
"${java[@]}" engines.Joins ../recorded
