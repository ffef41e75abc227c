#!/usr/bin/env bash
# Record Flink: every entry of settings.json, one job after the other in one process, then those of
# joins.json and the random cases. With `random <cases> <to>`, record every line of a file of cases, and
# write lines.
set -euo pipefail
cd "$(dirname "$0")"

mvn -q -B -T1 compile dependency:build-classpath
# Rows are copied through Kryo, which looks into classes that Java keeps to itself.
recorder=(nice -n 10 "${JAVA_HOME:+$JAVA_HOME/bin/}java"
    --add-opens java.base/java.util=ALL-UNNAMED --add-opens java.base/java.lang=ALL-UNNAMED
    -cp "target/classes:$(cat target/classpath)" engines.Recorder)
if [ "${1:-}" = random ]; then
    "${recorder[@]}" "$2" "$3"
    exit
fi
rm -rf ../recorded/flink ../recorded/flink-joins
"${recorder[@]}" settings.json ../recorded/flink
"${recorder[@]}" joins.json ../recorded/flink-joins
"${recorder[@]}" ../recorded/random/flink.jsonl.gz ../recorded/random/flink.jsonl.gz
