#!/usr/bin/env bash
# Record an engine whose recorder is one program, in one process. `record.sh <engine>` records every
# entry of settings.json and the random cases; `record.sh <engine> random <cases> <to>` records every
# line of a file of cases, and writes lines.
set -euo pipefail
engine=$1
cd "$(dirname "$0")/../$engine"

mvn -q -B -T1 compile dependency:build-classpath
version=$(sed -n "s:.*<$engine.version>\(.*\)</$engine.version>.*:\1:p" pom.xml)
recorder=(nice -n 10 "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Xmx512m
    -cp "target/classes:$(cat target/classpath)" engines.Recorder)
if [ "${2:-}" = random ]; then
    "${recorder[@]}" "$3" "$4" "$version"
    exit
fi
rm -rf "../recorded/$engine"
"${recorder[@]}" settings.json "../recorded/$engine" "$version"
"${recorder[@]}" "../recorded/random/$engine.jsonl.gz" "../recorded/random/$engine.jsonl.gz" "$version"
