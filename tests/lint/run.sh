#!/bin/sh
# Every lint, all of them even if one fails. usage: run.sh [BINARY]
cd "$(dirname "$0")/../.." || exit 2
failed=
sh tests/lint/layers.sh . || failed="$failed layers"
sh tests/lint/tables.sh . "${1:-build/lastunit}" || failed="$failed tables"
sh tests/lint/invariants.sh . || failed="$failed invariants"
sh tests/lint/columns.sh . || failed="$failed columns"
sh tests/lint/format.sh || failed="$failed format"
sh tests/lint/kinds.sh || failed="$failed kinds"
if [ -n "$failed" ]; then
	echo "lint: failed:$failed"
	exit 1
fi
echo "lint: ok"
