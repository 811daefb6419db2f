#!/usr/bin/env bash
# How fast a catalogue comes in: `lastunit import` of new SKUs against plain COPY of the same rows and their ledger entries
# into tables with the same columns, constraints and indexes. Medians; wanted: at least 0.3 times as fast.
#
#   tests/bench/import.sh [ROWS=200000] [ROUNDS=3]        called by `make bench`
set -euo pipefail
rows=${ROWS:-200000} rounds=${ROUNDS:-3}
here=$(cd "$(dirname "$0")" && pwd)
binary=${LASTUNIT_BIN:-$here/../../build/lastunit}
work=$(mktemp -d /tmp/lastunit-bench-XXXXXX)
chmod 711 "$work"
dev=
cleanup() {
	if [ -n "$dev" ]; then
		kill "$dev" 2>/dev/null || true
		wait "$dev" 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap cleanup EXIT

"$binary" dev --data "$work/data" --listen 127.0.0.1:0 --no-demo --ephemeral >"$work/dev.log" 2>&1 &
dev=$!
for _ in $(seq 600); do grep -q '^ready ' "$work/dev.log" && break; kill -0 "$dev" || { cat "$work/dev.log"; exit 1; }; sleep 0.1; done
set -a; . "$work/data/dev.env"; set +a
sql() { psql -qXAt -v ON_ERROR_STOP=1 "$LASTUNIT_DATABASE_URL" "$@"; }
seconds() { local from to; from=$(date +%s.%N); "$@" >"$work/out" 2>&1 || { cat "$work/out" >&2; exit 1; }; to=$(date +%s.%N); awk -v a="$from" -v b="$to" 'BEGIN { printf "%.3f\n", b - a }'; }
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

plain_copy() {
	sql <<SQL
BEGIN;
\\copy bench.sku (code, on_hand, writer) FROM '$work/sku.tsv'
\\copy bench.ledger (sku_id, version, on_hand_delta, reserved_delta, on_hand_after, reserved_after, kind, channel) FROM '$work/ledger.tsv'
COMMIT;
SQL
}

for round in $(seq "$rounds"); do
	awk -v n="$rows" -v r="$round" 'BEGIN { print "sku,on_hand"; for (i = 1; i <= n; i++) printf "R%d-%07d,%d\n", r, i, i % 100 }' >"$work/in.csv"
	awk -v n="$rows" 'BEGIN { for (i = 1; i <= n; i++) printf "C-%07d\t%d\t00000000-0000-4000-8000-000000000000\n", i, i % 100 }' >"$work/sku.tsv"
	awk -v n="$rows" 'BEGIN { for (i = 1; i <= n; i++) printf "%d\t1\t%d\t0\t%d\t0\t11\t7\n", i, i % 100, i % 100 }' >"$work/ledger.tsv"
	sql -c 'DROP SCHEMA IF EXISTS bench CASCADE; CREATE SCHEMA bench;
	        CREATE TABLE bench.sku (LIKE lastunit.sku INCLUDING ALL); CREATE TABLE bench.ledger (LIKE lastunit.ledger INCLUDING ALL)' 2>/dev/null
	seconds plain_copy >>"$work/copy"
	seconds "$binary" import "$work/in.csv" >>"$work/import"
done
awk -v n="$rows" -v copy="$(median <"$work/copy")" -v ours="$(median <"$work/import")" 'BEGIN {
	r = copy / ours
	printf "%d new SKUs with their ledger, medians of '"$rounds"'\n  plain COPY       %8.0f rows/s\n  lastunit import  %8.0f rows/s\n", n, n / copy, n / ours
	printf "import against plain COPY  %5.2fx   wanted 0.3x   %s\n", r, (r >= 0.3 ? "ok" : "MISSED"); exit(r < 0.3) }'
