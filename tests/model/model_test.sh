#!/bin/sh
# The coherence protocol searched by spin: every good configuration must be free of errors, every broken rule must be
# found out, and its counterexample is printed. usage: model_test.sh [-q] [NAME...]    only these; -q: no stories
#                                                      model_test.sh deep [NAME...]    larger bounds: minutes, gigabytes
# Each configuration is one test, counted by tests/run.sh. README.md explains them.
set -u
cd "$(dirname "$0")/../.." || exit 2
model=$PWD/tests/model/coherence.pml
list=tests
quiet=
[ "${1:-}" = deep ] && { list=deep_tests; shift; }
[ "${1:-}" = -q ] && { quiet=1; shift; }
wanted=" $* "
for tool in spin gcc; do
	command -v $tool >/dev/null || { echo "model: $tool is missing (apt-get install $tool)"; exit 1; }
done
mkdir -p "${BUILD:-build/model}" || exit 1
work=$(cd "${BUILD:-build/model}" && mktemp -d "$PWD/model.XXXXXX") || exit 1
pan=
trap '[ -z "$pan" ] || kill "$pan" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cd "$work" || exit 1

# good NAME: BOUNDS        no violation may be found
# bad  NAME: BOUNDS        takes away the rule BREAK_NAME (up to a dot in NAME, which tells twins apart); one must be found
tests() {
	cat <<'TABLE'
good everyday: -DSALES_1=2 -DSALES_2=2 -DBATCH=2 -DREFRESHES=1 -DREPLAYS=1
good reads: -DREADS_IN_STEPS -DLEASES_COME_AND_GO -DFAILURES=1 -DNAMESPACES=2 -DINSTANCES=1
good hits: -DREADS_IN_STEPS -DCLOSES=1 -DNAMESPACES=2 -DSALES_1=2 -DSALES_2=0
good leases: -DLEASES_COME_AND_GO -DFAILURES=1 -DCLOSES=1 -DNAMESPACES=2
good lease_looked_at_once: -DREADS_IN_STEPS -DLEASE_LOOKED_AT_ONCE -DFAILURES=1 -DNAMESPACES=2 -DINSTANCES=1
good outages: -DFAILURES=2 -DNAMESPACES=3
good third_party: -DCLOSES=2 -DNAMESPACES=3
good crashes: -DCRASHES=2 -DREFRESHES=1 -DREPLAYS=1
good late: -DLATE=1 -DCLOSES=1 -DNAMESPACES=2
good late_healed: -DLATE=1 -DREFRESHES=1 -DREPLAYS=1 -DBATCH=2
good restart: -DRESTARTS=1 -DFAILURES=1 -DNAMESPACES=3
good restart_late: -DRESTARTS=1 -DNAMESPACES=2 -DLATE=1
good restart_direct: -DRESTARTS=1 -DDIRECTS=1 -DNAMESPACES=2
good direct: -DDIRECTS=1 -DFAILURES=1 -DNAMESPACES=2
good direct_late: -DDIRECTS=1 -DLATE=1 -DREFRESHES=1
good direct_late_batch: -DDIRECTS=1 -DLATE=1 -DREFRESHES=1 -DBATCH=2 -DSALES_2=0
good scrub: -DSCRUBS=1 -DDIRECTS=1 -DREFRESHES=1
good one_writer: -DSALES_2=0 -DINSTANCES=1 -DNAMESPACES=2 -DCRASHES=1 -DLATE=1 -DRESTARTS=1 -DDIRECTS=1 -DCLOSES=1
good evicted_markers: -DEVICT_MARKERS -DONLY_ACKNOWLEDGED -DCRASHES=1 -DFAILURES=1 -DNAMESPACES=2
bad NO_GUARD: -DRESTARTS=1
bad IDENTITY_IN_DUMP: -DRESTARTS=1
bad NO_MARKER:
bad COMMIT_UNMARKED: -DFAILURES=1
bad INTEND_LEAVES_TICKETS:
bad INTEND_LEAVES_MARKERS:
bad INTEND_KEEPS_VERSION: -DDIRECTS=1 -DLATE=1 -DREFRESHES=1 -DBATCH=2
bad MARKER_WITHOUT_TOKEN:
bad MARKER_EXPIRES:
bad TOKEN_REUSED: -DLATE=1
bad REFRESH_WITHOUT_LOCK: -DREFRESHES=1
bad REFRESH_TRUSTS_ITS_LOCK: -DREFRESHES=1 -DCRASHES=2
bad NO_TICKET:
bad TICKET_AFTER_SELECT:
bad JOIN:
bad PUBLISH_ALWAYS_SETS:
bad PUBLISH_LEAVES: -DEVICT_MARKERS -DONLY_ACKNOWLEDGED
bad ACKNOWLEDGE_FIRST: -DEVICT_MARKERS -DONLY_ACKNOWLEDGED
bad ANSWER_UNPUBLISHED: -DFAILURES=1 -DEVICT_MARKERS -DONLY_ACKNOWLEDGED
bad REPLAY_TRUSTS: -DREPLAYS=1 -DCRASHES=1 -DEVICT_MARKERS -DONLY_ACKNOWLEDGED
bad INVALIDATE_LEAVES_TICKETS: -DDIRECTS=1
bad INVALIDATE_LEAVES_MARKERS: -DDIRECTS=1
bad INVALIDATE_DELETES_ALL: -DDIRECTS=1
bad INVALIDATE_DELETES_MARKERS.direct: -DDIRECTS=1 -DLATE=1
bad INVALIDATE_DELETES_MARKERS.replay: -DREPLAYS=1 -DLATE=1
bad SCRUB_DELETES: -DSCRUBS=1
bad RELAY_READS_EPOCH_FIRST: -DDIRECTS=1 -DCLOSES=1 -DNAMESPACES=2
bad RELAY_WHILE_CLOSING: -DDIRECTS=1 -DCLOSES=1
bad RELAY_FORGETS: -DDIRECTS=1 -DFAILURES=1
bad LEASE_LOOKED_AT_BEFORE: -DREADS_IN_STEPS -DFAILURES=1
bad LEASE_FROM_REPLY: -DFAILURES=1
bad OWN_L: -DFAILURES=1
bad TWO_STATES: -DFAILURES=1
bad CLOSE_IN_TRANSACTION: -DFAILURES=1
bad GO_ON_WHILE_CLOSING: -DCLOSES=1
bad OPENER_DOES_NOT_WAIT: -DCLOSES=1 -DNAMESPACES=2
bad SAME_NAMESPACE: -DCLOSES=1 -DNAMESPACES=2
bad NOTHING.evicted_markers: -DEVICT_MARKERS
TABLE
}

# Larger, by hand, and one that is too large to be exhausted: bit-state hashing looks at most of it.
deep_tests() {
	cat <<'TABLE'
good reads: -DREADS_IN_STEPS -DLEASES_COME_AND_GO -DFAILURES=1 -DNAMESPACES=2
good hits: -DREADS_IN_STEPS -DCLOSES=1 -DNAMESPACES=2
good leases: -DLEASES_COME_AND_GO -DFAILURES=2 -DNAMESPACES=3
good outages: -DFAILURES=2 -DCLOSES=1 -DNAMESPACES=3
good third_party: -DCLOSES=2 -DNAMESPACES=3 -DREPLAYS=1
good late: -DLATE=1 -DCLOSES=1 -DNAMESPACES=2 -DREFRESHES=1 -DCRASHES=1
good direct: -DDIRECTS=1 -DLATE=1 -DFAILURES=1 -DNAMESPACES=2
good direct_late: -DDIRECTS=1 -DLATE=1 -DREFRESHES=1 -DBATCH=2
good bitstate: -DSALES_1=2 -DBATCH=2 -DNAMESPACES=3 -DFAILURES=1 -DLATE=1 -DCRASHES=1 -DCLOSES=1 -DRESTARTS=1 -DDIRECTS=1 -DSCRUBS=1 -DREFRESHES=1 -DREPLAYS=1
TABLE
}

passed=0
failed=0
pass() {
	echo "model: $1: $2"
	passed=$((passed + 1))
}
fail() {
	echo "model: $1: $2"
	failed=$((failed + 1))
}

# In the background, so that a signal ends it at once.
pan() {
	./pan -E "$@" >pan.out 2>&1 &
	pan=$!
	wait "$pan"
	pan=
}

# The shortest counterexample, in words.
story() {
	spin -t -T -k coherence.pml.trail "$@" "$model" | grep -E '^ *[A-Za-z0-9]+: |^      ' | grep -v '^spin:'
}

# Error-free, and complete: a search cut short by a limit proves nothing.
good() {
	name=$1
	shift
	limits="-O1 -DMEMLIM=1900"
	hash=-w22
	[ $list = deep_tests ] && { limits="-O2 -DMEMLIM=12000"; hash=-w25; }
	[ "$name" = bitstate ] && { limits="-O2 -DBITSTATE"; hash="-w34 -k3"; }
	rm -f ./*.trail
	# shellcheck disable=SC2086
	spin -a -DMILESTONES "$@" "$model" >spin.out 2>&1 && gcc -w -DSAFETY -DNOFAIR $limits -o pan pan.c ||
		{ cat spin.out; fail "$name" "could not be built"; return; }
	# shellcheck disable=SC2086
	pan -m100000 $hash
	grep '^reached: ' pan.out >>reached
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.out)
	if ! grep -q 'errors: 0$' pan.out || grep -qE 'too small|not completed|out of memory|memory limit' pan.out; then
		grep -E 'errors:|too small|not completed|memory' pan.out
		[ -f coherence.pml.trail ] && story "$@"
		fail "$name" "a violation, or not searched to the end"
	else
		pass "$name" "${states:-?} states, no violation"
	fi
}

bad() {
	name=$1
	rule=-DBREAK_${name%%.*}
	shift
	rm -f ./*.trail
	spin -a "$rule" "$@" "$model" >spin.out 2>&1 && gcc -O0 -w -DSAFETY -DNOFAIR -DBFS -DMEMLIM=1900 -o pan pan.c ||
		{ cat spin.out; fail "$name" "could not be built"; return; }
	pan -w20
	if [ ! -f coherence.pml.trail ] || ! grep -q 'assertion violated' pan.out; then
		fail "$name" "breaks a rule, and nothing is found"
		return
	fi
	story "$rule" "$@" >story.out
	[ "$quiet" ] || sed 's/^/    /' story.out
	if grep -q '!!!' story.out; then
		pass "$name" found
	else
		fail "$name" "its story does not end in a stale answer"
	fi
}

# Whatever a step calls worth reaching must have been reached by a good configuration: else it proves nothing about it.
milestones() {
	cat "$(dirname "$model")"/*.pml | grep -o 'REACHED("[^"]*")' | sed 's/REACHED("\(.*\)")/reached: \1/' | sort -u >worth
	sort -u reached | comm -23 worth - >missed
	if [ -s missed ] || [ ! -s worth ]; then
		sed 's/^reached/model: never reached/' missed
		fail milestones "good configurations in which too little happens"
	else
		pass milestones "$(wc -l <worth) worth reaching, all reached"
	fi
}

: >reached
$list >table
while read -r kind name bounds; do
	name=${name%:}
	[ "$wanted" = "  " ] || case $wanted in *" $name "*) ;; *) continue ;; esac
	# shellcheck disable=SC2086
	$kind "$name" $bounds </dev/null
done <table
[ "$wanted" = "  " ] && [ $list = tests ] && milestones

# As cmocka says it, for tests/run.sh.
echo "[  PASSED  ] $passed test(s)."
[ "$failed" -eq 0 ] || echo "[  FAILED  ] $failed test(s)."
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
