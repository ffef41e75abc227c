#!/usr/bin/env bash
# Record Samza through its window operator.
exec "$(dirname "$0")/../common/record.sh" samza "$@"
