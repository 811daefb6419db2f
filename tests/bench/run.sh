#!/usr/bin/env bash
# The benchmark: everything in one run, side by side, on one machine; medians of several rounds; ratios.
#
#   make bench [ROUNDS=5] [SECONDS_EACH=5] [CLIENTS=64]
#
# (a) checkouts over HTTP on one hot SKU   against pgbench: BEGIN, SELECT … FOR UPDATE, UPDATE, INSERT ledger, COMMIT;
#                                          and against the same sale and entry as one CTE statement, at its best number of clients
# (b) the same over 10,000 SKUs            against the same transaction
# (c) single availability hits over HTTP   against redis-benchmark GET of the same cells, no pipelining, over TCP as HTTP is
# (d) look-ups of 100 SKUs                 against (c), and against redis-benchmark MGET of 100 of those cells, in SKUs per second
# (e) carts of two lines over 100 SKUs     against the pessimistic row of `lastunit race`
# (f) one client alone: a checkout         against the transaction of (a), in time
# (g) one SKU sold with the cache          against the same build without a Redis, each on a database of its own
# (h) the hot SKU sold by two instances    against one
# (i) one client alone: a hit              against redis-benchmark GET, in time
# (j) hits while the hot SKU is sold       against the same connections without the sales
#
# The database is the private one of `lastunit dev`, fsync on. GET over the unix socket, which the service uses and no client
# of it could, is shown too. Beside each figure stands the CPU time that each process used: what limits it. A million SKUs, a long ledger and an old transaction: large.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
rounds=${ROUNDS:-5}

# --- the service, its catalogue, and the tables that pgbench works on ------------------------------------------------------
start_dev
catalogue 1 "$skus" "$db" "$redis"
sql <<SQL
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
cat >"$work/cte.sql" <<SQL
WITH sale AS (UPDATE bench.stock SET on_hand = on_hand - 1, version = version + 1 WHERE id = 1 AND on_hand >= 1 RETURNING id, version, on_hand)
INSERT INTO bench.ledger (stock_id, version, delta, on_hand_after) SELECT id, version, -1, on_hand FROM sale;
SQL

# The same build with and without a cache, each on a new database of one SKU in the same cluster. And a second instance beside
# the first.
# twin NAME REDIS: its key is in $work/NAME.key.
twin() {
	local twin_db="${db%/*}/bench_$1"
	sql -c "CREATE DATABASE bench_$1"
	"$binary" migrate --database-url "$twin_db" >/dev/null 2>&1
	catalogue 1 1 "$twin_db" "$2"
	env -u LASTUNIT_REDIS_URL "$binary" key create --database-url "$twin_db" --principal bench --scopes read,sell 2>/dev/null | grep -o 'lu_[A-Za-z0-9_]*' | head -1 >"$work/$1.key"
	start_serve "$1" "$twin_db" "$2"
}
twin uncached ""
twin cached "$redis"
start_serve second "$db" "$redis"

# --- measuring ---------------------------------------------------------------------------------------------------------------
# redis_run tcp|unix REQUESTS CELLS: GET of one cell, MGET of many, drawn anew each time as wrk draws SKUs; in cells per second.
redis_run() {
	local cell cells="" command=GET where=(-s "$redis_socket") i
	[ "$1" = unix ] || where=(-h 127.0.0.1 -p "$redis_port")
	shift
	cell=$(redis-cli -s "$redis_socket" --scan --pattern 'lu:*:BENCH-*' | head -1)
	for ((i = 0; i < $2; i++)); do cells+=" ${cell%BENCH-*}BENCH-__rand_int__"; done
	[ "$2" -eq 1 ] || command=MGET
	# shellcheck disable=SC2086
	redis-benchmark "${where[@]}" -c "$clients" -n "$1" -r "$skus" --csv $command $cells 2>/dev/null |
		awk -F'","|"' -v cells="$2" 'END { print $3 * cells, $6, $8 }'
}
# SELECT … FOR UPDATE of both rows in one order, as the race sells carts of two among 100 SKUs.
race_run() {
	"$binary" race --database-url "$db" --strategy pessimistic --workload carts --buyers "$clients" --run-ms $((seconds * 1000)) \
		--no-timeline --no-caches --json 2>/dev/null | awk -v buyers="$clients" 'BEGIN { RS = "}" }
		function value(name) { return match($0, "\"" name "\": *[0-9.]+") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0 : "" }
		value("buyers") == buyers && value("sales_per_s") { print value("sales_per_s"), value("p50_ms"), value("p99_ms"); exit }'
}
hits_run() { wrk_run "$url" "$here/lookup.lua" 1 "$skus" "$key"; }
many_run() { wrk_run "$url" "$here/lookup.lua" 100 "$skus" "$key" | awk '{ print $1 * 100, $2, $3 }'; }
# Hits on all SKUs, beside a quarter as many clients who sell one of them, or who do not.
beside_sales() {
	local sale=true
	if [ "$1" = selling ]; then
		clients=$((clients / 4)) checkouts "$url" "$key" 1 >/dev/null & sale="wait $!"
	fi
	hits_run; $sale
}
# Half of the clients at each; the sum, the mean of the medians, the worse p99.
two_instances() {
	local half=$((clients / 2)) other
	other=$(cat "$work/second.url")
	{ clients=$half checkouts "$other" "$key" 1 & clients=$half checkouts "$url" "$key" 1; wait; } |
		awk '{ r += $1; p50 += $2 / 2; if ($3 > p99) p99 = $3 } END { print r, p50, p99 }'
}

# Over TCP, too: a port that is free.
redis_port=$(for port in $(shuf -i 20000-32000 -n 50); do [ "$(redis-cli -s "$redis_socket" CONFIG SET bind 127.0.0.1 port "$port")" = OK ] && echo "$port" && break; done)
[ -n "$redis_port" ] || die "Redis takes no port"

# Warm: the epoch is open, every cell is filled.
await_lease
seconds=2 many_run >/dev/null; seconds=3 many_run >/dev/null

for round in $(seq "$rounds"); do
	printf 'round %s of %s\n' "$round" "$rounds" >&2
	sql -c 'CHECKPOINT' # the WAL files of the round before are free
	measure a_pgbench pgbench_run "$work/hot.sql"
	measure a_lastunit checkouts "$url" "$key" 1
	for n in 1 10 64; do clients=$n measure "a_cte_$n" pgbench_run "$work/cte.sql"; done
	for twin in uncached cached; do measure "g_$twin" checkouts "$(cat "$work/$twin.url")" "$(cat "$work/$twin.key")" 1; done
	measure h_one checkouts "$url" "$key" 1
	measure h_two two_instances
	measure b_pgbench pgbench_run "$work/wide.sql"
	measure b_lastunit checkouts "$url" "$key" "$skus"
	measure e_race race_run
	measure e_lastunit checkouts "$url" "$key" 100 2
	clients=1 measure f_pgbench pgbench_run "$work/hot.sql"
	clients=1 measure f_lastunit checkouts "$url" "$key" 1
	seconds=2 many_run >/dev/null
	measure c_unix redis_run unix $((seconds * 60000)) 1
	measure c_redis redis_run tcp $((seconds * 50000)) 1
	measure c_lastunit hits_run
	measure d_redis redis_run tcp $((seconds * 12000)) 100
	measure d_lastunit many_run
	clients=1 measure i_unix redis_run unix $((seconds * 20000)) 1
	clients=1 measure i_redis redis_run tcp $((seconds * 15000)) 1
	clients=1 measure i_lastunit hits_run
	measure j_quiet beside_sales quiet
	measure j_selling beside_sales selling
done

# --- the table ----------------------------------------------------------------------------------------------------------------
best_cte=$(for n in 1 10 64; do echo "$(median a_cte_$n 2) a_cte_$n"; done | sort -g | awk 'END { print $2 }')
say
say "$clients clients, $rounds rounds of ${seconds} s, $(nproc) cores shared by load and servers, fsync on; medians"
say
head_row
row a_pgbench "(a) pgbench FOR UPDATE, one row"
for n in 1 10 64; do row "a_cte_$n" "(a) pgbench, one CTE statement, $n clients"; done
row a_lastunit "(a) checkouts over HTTP, one SKU"
row b_pgbench "(b) pgbench FOR UPDATE, $skus rows"
row b_lastunit "(b) checkouts over HTTP, $skus SKUs"
row c_unix "(c) redis-benchmark GET over a unix socket"
row c_redis "(c) redis-benchmark GET"
row c_lastunit "(c) availability hits over HTTP"
row d_redis "(d) redis-benchmark MGET of 100, in cells"
row d_lastunit "(d) look-ups of 100, in SKUs"
row e_race "(e) the race, pessimistic, two of 100 rows"
row e_lastunit "(e) carts of two lines over HTTP, 100 SKUs"
row f_pgbench "(f) pgbench FOR UPDATE, one client"
row f_lastunit "(f) checkouts over HTTP, one client"
row g_uncached "(g) checkouts over HTTP, one SKU, no cache"
row g_cached "(g) the same with it"
row h_one "(h) checkouts over HTTP, one SKU, one instance"
row h_two "(h) checkouts over HTTP, one SKU, two instances"
row i_unix "(i) redis-benchmark GET over a unix socket, one"
row i_redis "(i) redis-benchmark GET, one client"
row i_lastunit "(i) availability hits over HTTP, one client"
row j_quiet "(j) availability hits over HTTP"
row j_selling "(j) the same while one SKU is sold"
say "CPU of the race: of 1, 8 and $clients buyers, one after another."
say
rate "(a) hot SKU against FOR UPDATE" a_lastunit a_pgbench 20
rate "(a) hot SKU against the best CTE (${best_cte##*_} clients)" a_lastunit "$best_cte" 5
wanted "(a) its p99 against FOR UPDATE's p50" "$(median a_lastunit 4)" "$(median a_pgbench 3)" "at most" 1
rate "(b) $skus SKUs against FOR UPDATE" b_lastunit b_pgbench 2.5
rate "(c) hits against redis-benchmark GET" c_lastunit c_redis 0.7
wanted "(c) p99 of a hit against its p50" "$(median c_lastunit 4)" "$(median c_lastunit 3)" "at most" 3
rate "(d) 100-SKU look-ups against (c)" d_lastunit c_lastunit 5
rate "(d) the same against MGET" d_lastunit d_redis 0.6
rate "(e) two-line carts against the pessimistic race" e_lastunit e_race 8
wanted "(f) time of a checkout against the bare transaction" "$(median f_pgbench 2)" "$(median f_lastunit 2)" "at most" 1.6
rate "(g) with the cache against without" g_cached g_uncached 0.88
rate "(h) two instances against one" h_two h_one 0.95
wanted "(i) time of a hit against a GET" "$(median i_redis 2)" "$(median i_lastunit 2)" "at most" 2
rate "(j) hits while one SKU is sold against without" j_selling j_quiet 0.8
exit $verdicts
