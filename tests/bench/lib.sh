# What the benchmarks share: a service of their own, measurements in rounds, a table of medians, ratios with what is
# wanted of them. Sourced by run.sh and large.sh.
#
# A sample is one line of $work/samples: name, per second, p50 ms, p99 ms, then the CPU seconds that the processes of the
# service had used before and after. A round measures everything once, so that a noisy moment falls on both sides.

clients=${CLIENTS:-64} seconds=${SECONDS_EACH:-5} skus=${SKUS:-10000}
binary=${LASTUNIT_BIN:-$here/../../build/lastunit}
work=$(mktemp -d /tmp/lastunit-bench-XXXXXX)
chmod 711 "$work"
started=() # what has to be ended: `lastunit dev` first, then the instances beside it
verdicts=0

cleanup() {
	local pid
	for pid in $(printf '%s\n' "${started[@]}" | tac); do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	rm -rf "$work"
}
trap cleanup EXIT
say() { printf '%s\n' "$*"; }
die() { printf 'bench: %s\n' "$*" >&2; exit 1; }

pg_bin=$(pg_config --bindir 2>/dev/null || true)
[ -x "$pg_bin/pgbench" ] || pg_bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
for tool in wrk redis-benchmark redis-cli curl; do command -v "$tool" >/dev/null || die "$tool is missing (make deps)"; done

# --- what is measured ----------------------------------------------------------------------------------------------------

# ready LOG: waits until what was started last serves, and prints its address.
ready() {
	local _
	for _ in $(seq 600); do
		grep -q '^ready ' "$1" && { awk '/^ready / { print $2 }' "$1"; return; }
		kill -0 "${started[-1]}" || { cat "$1" >&2; die "it ended"; }
		sleep 0.1
	done
	die "not ready in a minute"
}
# A server that has run for a while uses its WAL files again. One that is new makes each of them, 16 MiB of zeros, and no
# COMMIT returns meanwhile: 20 to 40 ms, every second or two. So a gibibyte of them is made before anything is measured.
recycle_wal() {
	sql -c "ALTER SYSTEM SET min_wal_size = '1GB'" -c "ALTER SYSTEM SET max_wal_size = '4GB'" -c 'SELECT pg_reload_conf()' \
		-c "SELECT count(pg_logical_emit_message(false, 'bench', repeat('x', 8000000))) FROM generate_series(1, 128)" -c 'CHECKPOINT' >/dev/null
}
# start_dev: PostgreSQL, Redis and one instance; sets url, key, db, redis.
start_dev() {
	"$binary" dev --data "$work/data" --listen 127.0.0.1:0 --no-demo --ephemeral >"$work/dev.log" 2>&1 &
	started+=($!)
	ready "$work/dev.log" >/dev/null
	set -a; . "$work/data/dev.env"; set +a
	url=$LASTUNIT_URL key=$LASTUNIT_KEY_ADMIN db=$LASTUNIT_DATABASE_URL redis=$LASTUNIT_REDIS_URL
	redis_socket=${redis#unix://}; redis_socket=${redis_socket%%\?*}
	recycle_wal
}
# start_serve NAME DATABASE REDIS: one more instance; its address is in $work/NAME.url.
start_serve() {
	env -u LASTUNIT_REDIS_URL "$binary" serve --database-url "$2" ${3:+--redis-url "$3"} --listen 127.0.0.1:0 >"$work/$1.log" 2>&1 &
	started+=($!)
	ready "$work/$1.log" >"$work/$1.url"
}
# catalogue FROM TO DATABASE REDIS: SKUs named as redis-benchmark writes numbers.
catalogue() {
	{ echo sku,on_hand; seq -f 'BENCH-%012.0f,900000000' "$1" "$2"; } >"$work/catalogue.csv"
	env -u LASTUNIT_REDIS_URL "$binary" import "$work/catalogue.csv" --database-url "$3" ${4:+--redis-url "$4"} >"$work/import.log" 2>&1 ||
		{ cat "$work/import.log" >&2; die "import failed"; }
}
await_lease() { local _; for _ in $(seq 150); do curl -fsS "$url/readyz" | grep -q '"lease": *true' && return; sleep 0.1; done; die "no lease"; }
sql() { "$pg_bin/psql" -qXAt -v ON_ERROR_STOP=1 "$db" "$@"; }

# --- measuring -------------------------------------------------------------------------------------------------------------

descendants() { local pid; for pid in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do echo "$pid"; descendants "$pid"; done; }
# CPU seconds used so far, by name; short-lived backends of pgbench are counted by PostgreSQL's parent.
cpu() {
	local pid
	for pid in $(descendants "${started[0]}") "${started[@]:1}"; do
		awk -v hz="$(getconf CLK_TCK)" '{ match($0, /\(.*\)/); name = substr($0, RSTART + 1, RLENGTH - 2); $0 = substr($0, RSTART + RLENGTH + 1); print name, ($12 + $13 + $14 + $15) / hz }' "/proc/$pid/stat" 2>/dev/null || true
	done | awk '{ n = ($1 ~ /^redis/) ? "redis" : ($1 ~ /^postgres/) ? "postgres" : "serve"; t[n] += $2 } END { printf "serve=%.2f postgres=%.2f redis=%.2f\n", t["serve"], t["postgres"], t["redis"] }'
}
# measure NAME COMMAND…: the command prints one number (per second) and its p50 and p99 in ms.
measure() {
	local name=$1 before after line; shift
	before=$(cpu); line=$("$@"); after=$(cpu)
	grep 'serve ended' "$work/dev.log" && die "the service fell while $name was measured" # `lastunit dev` starts it again
	printf '%s %s %s %s\n' "$name" "$line" "$before" "$after" >>"$work/samples"
}
to_ms='function ms(v) { return v ~ /us$/ ? v / 1000 : v ~ /ms$/ ? v + 0 : v * 1000 }'
wrk_run() { # url, script, its arguments…
	local threads=$((clients > 1 ? 2 : 1)) out; out=$(mktemp "$work/wrk-XXXXXX")
	wrk -t$threads -c"$clients" -d"${seconds}s" --latency -s "$2" "$1" -- "${@:3}" >"$out"
	grep -q 'Non-2xx' "$out" && { cat "$out" >&2; die "wrk met refusals"; }
	awk "$to_ms"' /^ *50%/ { p50 = ms($2) } /^ *99%/ { p99 = ms($2) } /^Requests\/sec/ { r = $2 } END { print r, p50, p99 }' "$out"
}
# checkouts URL KEY SKUS [LINES]: carts of that many lines, each under a key of its own.
checkouts() { wrk_run "$1" "$here/checkout.lua" "$3" "$2" "${4:-1}"; }
pgbench_run() { # script
	"$pg_bin/pgbench" -n -M prepared -c "$clients" -j $((clients > 1 ? 2 : 1)) -T "$seconds" -f "$1" -l --log-prefix="$work/pgb" "$db" >"$work/pgb.out" 2>"$work/pgb.err" || { cat "$work/pgb.err" >&2; die "pgbench failed"; }
	local tps; tps=$(awk '/^tps/ { print $3 }' "$work/pgb.out")
	cat "$work"/pgb.[0-9]* | awk '{ print $3 / 1000 }' | sort -n | awk -v tps="$tps" '{ v[NR] = $1 } END { print tps, v[int(NR * .5) + 1], v[int(NR * .99) + 1] }'
	rm -f "$work"/pgb.[0-9]*
}

# --- the table --------------------------------------------------------------------------------------------------------------

median() { # name column
	awk -v n="$1" -v c="$2" '$1 == n { print $c }' "$work/samples" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
cpu_share() { # name: CPU seconds per wall second of each process
	awk -v n="$1" -v s="$seconds" '$1 == n { for (i = 1; i <= 3; i++) { split($(4 + i), x, "="); split($(7 + i), y, "="); d[i] += (y[2] - x[2]) / s; name[i] = x[1] } k++ } END { for (i = 1; i <= 3; i++) printf "%s %.0f%%  ", name[i], 100 * d[i] / k }' "$work/samples"
}
head_row() { printf '%-50s %10s %8s %8s   %s\n' "" "per s" "p50 ms" "p99 ms" "CPU per wall second (of $(nproc)00%)"; }
row() { printf '%-50s %10.0f %8.2f %8.2f   %s\n' "$2" "$(median "$1" 2)" "$(median "$1" 3)" "$(median "$1" 4)" "$(cpu_share "$1")"; }
# wanted LABEL VALUE AGAINST RELATION TIMES: VALUE / AGAINST is wanted to be "at least" or "at most" TIMES.
wanted() {
	awk -v l="$1" -v a="$2" -v b="$3" -v rel="$4" -v w="$5" 'BEGIN { r = a / b; ok = rel == "at least" ? r >= w : r <= w
		printf "%-50s %9.2fx   wanted %s %sx   %s\n", l, r, rel, w, (ok ? "ok" : "MISSED"); exit !ok }' || verdicts=1
}
# rate LABEL A B TIMES: A runs at least TIMES as often as B.
rate() { wanted "$1" "$(median "$2" 2)" "$(median "$3" 2)" "at least" "$4"; }
