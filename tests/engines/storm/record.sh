#!/usr/bin/env bash
# Record Storm through its executor of windowed bolts.
exec "$(dirname "$0")/../common/record.sh" storm "$@"
