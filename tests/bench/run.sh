#!/usr/bin/env bash
# The benchmark: everything in one run, side by side, on one machine; medians of several rounds; ratios.
#
#   make bench [ROUNDS=5] [SECONDS_EACH=5] [CLIENTS=64]
#
# (a) checkouts over HTTP on one hot SKU   against pgbench: BEGIN, SELECT … FOR UPDATE, UPDATE, INSERT ledger, COMMIT
# (b) the same over 10,000 SKUs            against the same
# (c) single availability hits over HTTP   against redis-benchmark GET of one of those cells, no pipelining
# (d) look-ups of 100 SKUs                 against (c), in SKUs per second
#
# A round measures everything once, so that a noisy moment falls on both sides. The database is the private one of
# `lastunit dev`, fsync on. Beside each figure stands the CPU time that each process used: what limits it.
set -euo pipefail
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-5} clients=${CLIENTS:-64} skus=10000
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
say() { printf '%s\n' "$*"; }
die() { printf 'bench: %s\n' "$*" >&2; exit 1; }

pg_bin=$(pg_config --bindir 2>/dev/null || true)
[ -x "$pg_bin/pgbench" ] || pg_bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
for tool in wrk redis-benchmark redis-cli curl; do command -v "$tool" >/dev/null || die "$tool is missing (make deps)"; done

# --- the service, its catalogue, and the table that pgbench works on -------------------------------------------------
"$binary" dev --data "$work/data" --listen 127.0.0.1:0 --no-demo --ephemeral >"$work/dev.log" 2>&1 &
dev=$!
for _ in $(seq 600); do grep -q '^ready ' "$work/dev.log" && break; kill -0 "$dev" || { cat "$work/dev.log"; die "dev ended"; }; sleep 0.1; done
set -a; . "$work/data/dev.env"; set +a
url=$LASTUNIT_URL key=$LASTUNIT_KEY_ADMIN db=$LASTUNIT_DATABASE_URL
redis_socket=${LASTUNIT_REDIS_URL#unix://}; redis_socket=${redis_socket%%\?*}
{ echo sku,on_hand; for i in $(seq $skus); do printf 'BENCH-%05d,900000000\n' "$i"; done; } >"$work/catalogue.csv"
"$binary" import "$work/catalogue.csv" --database-url "$db" --redis-url "$LASTUNIT_REDIS_URL" >"$work/import.log" 2>&1 || { cat "$work/import.log"; die "import failed"; }
"$pg_bin/psql" -qX "$db" <<SQL
CREATE SCHEMA bench;
CREATE TABLE bench.stock (id int PRIMARY KEY, on_hand bigint NOT NULL, version bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);
CREATE TABLE bench.ledger (stock_id int, version bigint, delta bigint, on_hand_after bigint, at timestamptz DEFAULT clock_timestamp(), PRIMARY KEY (stock_id, version));
INSERT INTO bench.stock SELECT i, 900000000 FROM generate_series(1, $skus) i;
VACUUM ANALYZE bench.stock;
SQL
for_update() {
	cat <<SQL
$1
BEGIN;
SELECT on_hand, version FROM bench.stock WHERE id = :id FOR UPDATE \\gset
UPDATE bench.stock SET on_hand = on_hand - 1, version = version + 1 WHERE id = :id;
INSERT INTO bench.ledger (stock_id, version, delta, on_hand_after) VALUES (:id, :version + 1, -1, :on_hand - 1);
COMMIT;
SQL
}
for_update '\set id 1' >"$work/hot.sql"
for_update "\\set id random(1, $skus)" >"$work/wide.sql"

# --- measuring ---------------------------------------------------------------------------------------------------------------
children() { local pid; for pid in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do echo "$pid"; children "$pid"; done; }
# CPU seconds used so far by the processes of dev, by name; short-lived backends of pgbench are counted by PostgreSQL's parent.
cpu() {
	local pid
	for pid in $(children "$dev"); do
		awk -v hz="$(getconf CLK_TCK)" '{ match($0, /\(.*\)/); name = substr($0, RSTART + 1, RLENGTH - 2); $0 = substr($0, RSTART + RLENGTH + 1); print name, ($12 + $13 + $14 + $15) / hz }' "/proc/$pid/stat" 2>/dev/null || true
	done | awk '{ n = ($1 ~ /^redis/) ? "redis" : ($1 ~ /^postgres/) ? "postgres" : ($1 ~ /^lastunit/) ? "serve" : $1; t[n] += $2 } END { printf "serve=%.2f postgres=%.2f redis=%.2f\n", t["serve"], t["postgres"], t["redis"] }'
}
# measure NAME COMMAND…: the command prints one number (per second) and its p50 and p99 in ms.
measure() {
	local name=$1 before after line; shift
	before=$(cpu); line=$("$@"); after=$(cpu)
	printf '%s %s %s %s\n' "$name" "$line" "$before" "$after" >>"$work/samples"
}
to_ms='function ms(v) { return v ~ /us$/ ? v / 1000 : v ~ /ms$/ ? v + 0 : v * 1000 }'
wrk_run() { # script args…
	wrk -t2 -c"$clients" -d"${seconds}s" --latency -s "$1" "$url" -- "${@:2}" >"$work/wrk.out"
	grep -q 'Non-2xx' "$work/wrk.out" && { cat "$work/wrk.out" >&2; die "wrk met refusals"; }
	awk "$to_ms"' /^ *50%/ { p50 = ms($2) } /^ *99%/ { p99 = ms($2) } /^Requests\/sec/ { r = $2 } END { print r, p50, p99 }' "$work/wrk.out"
}
pgbench_run() {
	"$pg_bin/pgbench" -n -M prepared -c "$clients" -j 2 -T "$seconds" -f "$1" -l --log-prefix="$work/pgb" "$db" >"$work/pgb.out" 2>"$work/pgb.err" || { cat "$work/pgb.err" >&2; die "pgbench failed"; }
	local tps; tps=$(awk '/^tps/ { print $3 }' "$work/pgb.out")
	cat "$work"/pgb.[0-9]* | awk '{ print $3 / 1000 }' | sort -n | awk -v tps="$tps" '{ v[NR] = $1 } END { print tps, v[int(NR * .5) + 1], v[int(NR * .99) + 1] }'
	rm -f "$work"/pgb.[0-9]*
}
redis_run() {
	local cell; cell=$(redis-cli -s "$redis_socket" --scan --pattern 'lu:*:BENCH-00001' | head -1)
	redis-benchmark -s "$redis_socket" -c "$clients" -n $((seconds * 60000)) --csv GET "${cell:-missing}" 2>/dev/null |
		awk -F'","|"' 'END { print $3, $6, $8 }'
}
hits_run() { wrk_run "$here/lookup.lua" 1 $skus "$key"; }
many_run() { wrk_run "$here/lookup.lua" 100 $skus "$key" | awk '{ print $1 * 100, $2, $3 }'; }

# Warm: the epoch is open, every cell is filled.
for _ in $(seq 100); do curl -fsS "$url/readyz" | grep -q '"lease": *true' && break; sleep 0.1; done
seconds=2 many_run >/dev/null; seconds=3 many_run >/dev/null

for round in $(seq "$rounds"); do
	printf 'round %s of %s\n' "$round" "$rounds" >&2
	measure a_pgbench pgbench_run "$work/hot.sql"
	measure a_lastunit wrk_run "$here/checkout.lua" 1 "$key"
	measure b_pgbench pgbench_run "$work/wide.sql"
	measure b_lastunit wrk_run "$here/checkout.lua" $skus "$key"
	seconds=2 many_run >/dev/null
	measure c_redis redis_run
	measure c_lastunit hits_run
	measure d_lastunit many_run
done

# --- the table ----------------------------------------------------------------------------------------------------------------
median() { # name column
	awk -v n="$1" -v c="$2" '$1 == n { print $c }' "$work/samples" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
cpu_share() { # name: CPU seconds per wall second of each process, medians
	awk -v n="$1" -v s="$seconds" '$1 == n { split("5 6 7", b, " "); for (i = 1; i <= 3; i++) { split($(4 + i), x, "="); split($(7 + i), y, "="); d[i] += (y[2] - x[2]) / s; name[i] = x[1] } k++ } END { for (i = 1; i <= 3; i++) printf "%s %.0f%%  ", name[i], 100 * d[i] / k }' "$work/samples"
}
row() { printf '%-46s %10.0f %8.2f %8.2f   %s\n' "$2" "$(median "$1" 2)" "$(median "$1" 3)" "$(median "$1" 4)" "$(cpu_share "$1")"; }
verdicts=0
ratio() { # label, measured, against, times, wanted
	awk -v l="$1" -v a="$(median "$2" 2)" -v b="$(median "$3" 2)" -v w="$4" 'BEGIN { r = a / b; printf "%-46s %9.2fx   wanted %sx   %s\n", l, r, w, (r >= w ? "ok" : "MISSED"); exit (r < w) }' || verdicts=1
}
say
say "$clients clients, $rounds rounds of ${seconds} s, $(nproc) cores shared by load and servers, fsync on; medians"
say
printf '%-46s %10s %8s %8s   %s\n' "" "per s" "p50 ms" "p99 ms" "CPU per wall second (of $(nproc)00%)"
row a_pgbench "(a) pgbench FOR UPDATE, one row"
row a_lastunit "(a) checkouts over HTTP, one SKU"
row b_pgbench "(b) pgbench FOR UPDATE, $skus rows"
row b_lastunit "(b) checkouts over HTTP, $skus SKUs"
row c_redis "(c) redis-benchmark GET"
row c_lastunit "(c) availability hits over HTTP"
row d_lastunit "(d) look-ups of 100, in SKUs"
say
ratio "(a) hot SKU against FOR UPDATE" a_lastunit a_pgbench 10
ratio "(b) $skus SKUs against FOR UPDATE" b_lastunit b_pgbench 1.5
ratio "(c) hits against redis-benchmark GET" c_lastunit c_redis 0.5
ratio "(d) 100-SKU look-ups against (c)" d_lastunit c_lastunit 5
exit $verdicts
