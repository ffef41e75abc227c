#!/usr/bin/env bash
# Record Kafka Streams: every entry of driver.json and joins.json through TopologyTestDriver, then those of
# broker.json through a broker of its own on 127.0.0.1.
set -euo pipefail
cd "$(dirname "$0")"

mvn -q -B -T1 compile dependency:build-classpath
classpath="target/classes:$(cat target/classpath)"
# In memory where that is possible: the driver commits, and syncs its files, after every event.
work=$(TMPDIR=$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}") mktemp -d)
broker=
trap '[ -z "$broker" ] || { kill "$broker" && wait "$broker" || true; }; rm -rf "$work"' EXIT
java=(nice -n 10 "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Djava.io.tmpdir="$work" -cp "$classpath")

rm -rf ../recorded/kafka-driver ../recorded/kafka-joins ../recorded/kafka-broker
"${java[@]}" engines.Driver ../recorded
"${java[@]}" engines.Joins ../recorded

{ cat server.properties; echo "log.dirs=$work/logs"; } > "$work/server.properties"
"${java[@]}" kafka.tools.StorageTool format -t "$("${java[@]}" kafka.tools.StorageTool random-uuid)" -c "$work/server.properties"
"${java[@]}" kafka.Kafka "$work/server.properties" &
broker=$!
"${java[@]}" engines.Broker ../recorded 127.0.0.1:19092
