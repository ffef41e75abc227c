#!/usr/bin/env bash
# Record Kafka Streams: every entry of driver.json and joins.json and the random cases through
# TopologyTestDriver, then those of broker.json through a broker of its own on 127.0.0.1. With
# `random <cases> <to>`, record every line of a file of cases through TopologyTestDriver, and write lines.
set -euo pipefail
cd "$(dirname "$0")"

mvn -q -B -T1 compile dependency:build-classpath
classpath="target/classes:$(cat target/classpath)"
# In memory if possible: the driver commits, and syncs its files, after every event.
work=$(TMPDIR=$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}") mktemp -d)
broker=
trap '[ -z "$broker" ] || { kill "$broker" && wait "$broker" || true; }; rm -rf "$work"' EXIT
java=(nice -n 10 "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Djava.io.tmpdir="$work" -cp "$classpath")

if [ "${1:-}" = random ]; then
    "${java[@]}" engines.Recorder "$2" "$3"
    exit
fi
rm -rf ../recorded/kafka-driver ../recorded/kafka-joins ../recorded/kafka-broker
"${java[@]}" engines.Recorder driver.json ../recorded/kafka-driver
"${java[@]}" engines.Recorder joins.json ../recorded/kafka-joins
"${java[@]}" engines.Recorder ../recorded/random/kafka.jsonl.gz ../recorded/random/kafka.jsonl.gz

{ cat server.properties; echo "log.dirs=$work/logs"; } > "$work/server.properties"
"${java[@]}" kafka.tools.StorageTool format -t "$("${java[@]}" kafka.tools.StorageTool random-uuid)" -c "$work/server.properties"
"${java[@]}" kafka.Kafka "$work/server.properties" &
broker=$!
"${java[@]}" engines.Broker ../recorded 127.0.0.1:19092
