#!/usr/bin/env bash
# Record Beam through the direct runner, one pipeline after the other in one process: every entry of
# settings.json, and the random cases; or, with `random <cases> <to>`, every line of a file of cases, to
# lines.
set -euo pipefail
cd "$(dirname "$0")"

mvn -q -B -T1 compile dependency:build-classpath
version=$(sed -n 's:.*<beam.version>\(.*\)</beam.version>.*:\1:p' pom.xml)
recorder=(nice -n 10 "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Xmx512m
    -cp "target/classes:$(cat target/classpath)" engines.Recorder)
if [ "${1:-}" = random ]; then
    "${recorder[@]}" "$2" "$3" "$version"
    exit
fi
rm -rf ../recorded/beam
"${recorder[@]}" settings.json ../recorded/beam "$version"
"${recorder[@]}" ../recorded/random/beam.jsonl.gz ../recorded/random/beam.jsonl.gz "$version"
