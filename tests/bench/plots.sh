#!/bin/sh
# The two plots of the README, measured anew: `lastunit race` with a hot SKU, on a PostgreSQL of its own with fsync on.
#
#   make plots [RUN_MS=2000]
#
# On a machine that does nothing else. They are committed as they come out: tests/bench/plots/race-{sales,oversold}.svg.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
binary=${LASTUNIT_BIN:-$here/../../build/lastunit}
work=$(mktemp -d /tmp/lastunit-plots-XXXXXX)
chmod 711 "$work"
dev=
trap '[ -z "$dev" ] || { kill "$dev"; wait "$dev" || true; }; rm -rf "$work"' EXIT

"$binary" dev --data "$work/data" --listen 127.0.0.1:0 --no-demo --ephemeral >"$work/log" 2>&1 &
dev=$!
until grep -q '^ready ' "$work/log"; do
	kill -0 "$dev" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
	sleep 0.1
done
set -a
. "$work/data/dev.env"
set +a
"$binary" race --workload hot --no-caches --run-ms "${RUN_MS:-2000}" --svg "$here/plots"
