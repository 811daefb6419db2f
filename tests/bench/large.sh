#!/usr/bin/env bash
# The benchmark of what has grown: the same service with few SKUs and with many, with a short ledger and a long one, and
# while a stranger leaves a transaction open. Its first figures are those that the later ones are compared with.
#
#   make bench-large [MANY=1000000] [ENTRIES=20000000] [STRANGER=60] [ROUNDS=3] [SECONDS_EACH=5] [CLIENTS=64]
#
# (a) 1,000 SKUs: checkouts on one hot SKU, checkouts over all, availability hits over all
# (b) the same with a million SKUs                        each at least 0.9 times (a)
# (c) the same with 20,000,000 entries in the ledger      each at least 0.9 times (b)
# (d) the hot SKU while a transaction with a snapshot has been open for a minute: how far it falls, what `status` says of it,
#     and that it is over when the stranger has gone
#
# Takes about ten minutes and 8 GB under /tmp.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
rounds=${ROUNDS:-3} few=1000 many=${MANY:-1000000} entries=${ENTRIES:-20000000} stranger_s=${STRANGER:-60}

# The first change of a page after a checkpoint writes all of it to the WAL: until most have had theirs, that is measured.
settle() { seconds=$((seconds * 3)) checkouts "$url" "$key" "$1" >/dev/null; }
# round PREFIX SKUS
round() {
	measure "$1_hot" checkouts "$url" "$key" 1
	measure "$1_wide" checkouts "$url" "$key" "$2"
	seconds=2 wrk_run "$url" "$here/lookup.lua" 100 "$2" "$key" >/dev/null # what was sold is cached again
	measure "$1_hits" wrk_run "$url" "$here/lookup.lua" 1 "$2" "$key"
}
# Every cell is filled, 500 at a call.
warm() {
	await_lease
	seq "$1" | awk '{ printf "%s\"BENCH-%012d\"%s", NR % 500 == 1 ? "{\"skus\":[" : ",", $1, NR % 500 ? "" : "]}\n" } END { if (NR % 500) print "]}" }' >"$work/warm"
	split -l 100 --filter='while read -r body; do printf "next\nurl = %s/v1/availability\nheader = \"Authorization: Bearer %s\"\nheader = \"Content-Type: application/json\"\noutput = /dev/null\ndata = \"%s\"\n" '"$url $key"' "${body//\"/\\\"}"; done | curl -fsS -K -' "$work/warm"
}
three() { # label prefix prefix: ratios of the three figures
	rate "$1, hot SKU" "$2_hot" "$3_hot" 0.9
	rate "$1, all SKUs" "$2_wide" "$3_wide" 0.9
	rate "$1, hits" "$2_hits" "$3_hits" 0.9
}

start_dev
catalogue 1 $few "$db" "$redis"
warm $few
settle $few
for _ in $(seq "$rounds"); do round a $few; done
printf '%s: %s SKUs\n' "$(date +%T)" "$many" >&2
catalogue $((few + 1)) "$many" "$db" "$redis"
sql -c 'CHECKPOINT'
settle "$many"
warm "$many"
for _ in $(seq "$rounds"); do round b "$many"; done

# Entries that change nothing, under the versions that they take: the ledger stays what the audit wants it to be. They go
# past the triggers as the service's own do (`writer`), so the cells are closed by hand.
printf '%s: %s entries\n' "$(date +%T)" "$entries" >&2
each=$(((entries - $(sql -c 'SELECT count(*) FROM lastunit.ledger')) / many))
[ "$each" -le 0 ] || sql <<SQL
BEGIN;
INSERT INTO lastunit.ledger (sku_id, version, on_hand_delta, reserved_delta, on_hand_after, reserved_after, kind, channel)
SELECT s.id, s.version + g.n, 0, 0, s.on_hand, s.reserved, 12, 8 FROM generate_series(1, $each) AS g(n), lastunit.sku s;
UPDATE lastunit.sku SET version = version + $each, writer = gen_random_uuid();
COMMIT;
VACUUM ANALYZE lastunit.sku, lastunit.ledger;
CHECKPOINT;
SQL
"$binary" flush --database-url "$db" >/dev/null 2>&1
sleep 1
settle "$many"
warm "$many"
for _ in $(seq "$rounds"); do round c "$many"; done

# The stranger: a snapshot of his own, so that no version of the hot row that is newer can be removed.
printf '%s: a transaction left open\n' "$(date +%T)" >&2
measure d_before checkouts "$url" "$key" 1
sql -c 'BEGIN ISOLATION LEVEL REPEATABLE READ' -c 'SELECT count(*) FROM lastunit.sku' -c "SELECT pg_sleep($stranger_s)" -c 'COMMIT' >/dev/null &
stranger=$!
until_s=$((SECONDS + stranger_s - seconds - 2))
measure d_first checkouts "$url" "$key" 1
while [ $SECONDS -lt $until_s ]; do checkouts "$url" "$key" 1 >/dev/null; done
measure d_last checkouts "$url" "$key" 1
"$binary" status --database-url "$db" --redis-url "$redis" --url "$url" >"$work/status" 2>/dev/null || true
wait $stranger
measure d_after checkouts "$url" "$key" 1

say
say "$clients clients, $rounds rounds of ${seconds} s, $(nproc) cores shared by load and servers, fsync on; medians"
say
head_row
for name in a b c; do
	case $name in a) what="$few SKUs" ;; b) what="$many SKUs" ;; c) what="$entries entries" ;; esac
	row ${name}_hot "($name) $what: checkouts, one SKU"
	row ${name}_wide "($name) $what: checkouts, all SKUs"
	row ${name}_hits "($name) $what: availability hits"
done
row d_before "(d) one SKU, before the stranger"
row d_first "(d) in his first ${seconds} s"
row d_last "(d) after $stranger_s s of him"
row d_after "(d) when he has gone"
say
three "(b) $many SKUs against $few" b a
three "(c) $entries entries against (b)" c b
rate "(d) after $stranger_s s against before" d_last d_before 0.1
rate "(d) when he has gone against before" d_after d_before 0.9
grep -i 'transaction' "$work/status" | sed 's/^/(d) status: /' || { say "(d) status says nothing of him   MISSED"; verdicts=1; }
exit $verdicts
