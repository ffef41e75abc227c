#!/usr/bin/env bash
# Record Beam through the direct runner, one pipeline after the other.
exec "$(dirname "$0")/../common/record.sh" beam "$@"
