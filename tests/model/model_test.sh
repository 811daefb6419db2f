#!/bin/sh
# The coherence protocol searched by spin: every good configuration must be free of errors, every broken rule must be
# found out, and its counterexample is printed. usage: model_test.sh [-q] [NAME...]    only these; -q: no stories
#                                                      model_test.sh deep [NAME...]    larger bounds: minutes, gigabytes
# One test for tests/run.sh. Works in a directory of its own below $BUILD (default build/model); README.md explains.
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
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cd "$work" || exit 1
renice -n 5 -p $$ >/dev/null 2>&1

# good NAME: BOUNDS        no violation may be found
# bad  NAME: BOUNDS        takes away the rule BREAK_NAME (up to a dot in NAME, which tells twins apart); one must be found
tests() {
	cat <<'TABLE'
good everyday: -DSALES_1=2 -DSALES_2=2 -DBATCH=2 -DREFRESHES=1 -DREPLAYS=1
good reads: -DREADS_IN_STEPS -DLEASES_COME_AND_GO -DFAILURES=1 -DNAMESPACES=2 -DINSTANCES=1
good leases: -DLEASES_COME_AND_GO -DFAILURES=2 -DNAMESPACES=3
good hits: -DREADS_IN_STEPS -DCLOSES=1 -DNAMESPACES=2
good lease_looked_at_once: -DREADS_IN_STEPS -DLEASE_LOOKED_AT_ONCE -DFAILURES=1 -DNAMESPACES=2 -DINSTANCES=1
good outages: -DFAILURES=2 -DNAMESPACES=3
good third_party: -DCLOSES=2 -DNAMESPACES=3 -DREPLAYS=1
good crashes: -DCRASHES=2 -DREFRESHES=1 -DREPLAYS=1
good late: -DLATE=1 -DCLOSES=1 -DNAMESPACES=2
good late_healed: -DLATE=1 -DREFRESHES=1 -DREPLAYS=1
good restart: -DRESTARTS=1 -DFAILURES=1 -DNAMESPACES=3
good restart_late: -DRESTARTS=1 -DNAMESPACES=2 -DLATE=1
good restart_direct: -DRESTARTS=1 -DDIRECTS=1 -DNAMESPACES=2
good direct: -DDIRECTS=1 -DFAILURES=1 -DNAMESPACES=2
good direct_late: -DDIRECTS=1 -DLATE=1 -DREFRESHES=1
good scrub: -DSCRUBS=1 -DDIRECTS=1 -DREFRESHES=1
good one_writer: -DSALES_2=0 -DINSTANCES=1 -DNAMESPACES=2 -DCRASHES=1 -DLATE=1 -DRESTARTS=1 -DDIRECTS=1 -DCLOSES=1
good evicted_markers: -DEVICT_MARKERS -DONLY_ACKNOWLEDGED -DCRASHES=1 -DFAILURES=1 -DNAMESPACES=2
bad NO_MARKER:
bad COMMIT_UNMARKED: -DFAILURES=1
bad MARKER_WITHOUT_TOKEN:
bad TOKEN_REUSED: -DLATE=1
bad PUBLISH_ALWAYS_SETS:
bad PUBLISH_LEAVES: -DEVICT_MARKERS -DONLY_ACKNOWLEDGED
bad ACKNOWLEDGE_FIRST: -DEVICT_MARKERS -DONLY_ACKNOWLEDGED
bad NOTHING.evicted_markers: -DEVICT_MARKERS
bad REPLAY_TRUSTS: -DREPLAYS=1 -DCRASHES=1 -DEVICT_MARKERS -DONLY_ACKNOWLEDGED
bad NO_GUARD: -DRESTARTS=1
bad IDENTITY_IN_DUMP: -DRESTARTS=1
bad NO_TICKET:
bad TICKET_AFTER_SELECT:
bad JOIN:
bad LEASE_LOOKED_AT_BEFORE: -DREADS_IN_STEPS -DFAILURES=1
bad OPENER_DOES_NOT_WAIT: -DCLOSES=1 -DNAMESPACES=2
bad SAME_NAMESPACE: -DCLOSES=1 -DNAMESPACES=2
bad TWO_STATES: -DFAILURES=1
bad CLOSE_IN_TRANSACTION: -DFAILURES=1
bad GO_ON_WHILE_CLOSING: -DCLOSES=1
bad REFRESH_WITHOUT_LOCK: -DREFRESHES=1
bad INVALIDATE_DELETES_ALL: -DDIRECTS=1
bad INVALIDATE_DELETES_MARKERS.late: -DDIRECTS=1 -DLATE=1
bad INVALIDATE_DELETES_MARKERS.scrub: -DSCRUBS=1
bad INVALIDATE_LEAVES_MARKERS: -DDIRECTS=1
bad RELAY_READS_EPOCH_FIRST: -DDIRECTS=1 -DCLOSES=1 -DNAMESPACES=2
bad RELAY_WHILE_CLOSING: -DDIRECTS=1 -DCLOSES=1
TABLE
}

# Larger, by hand, and one that is too large to be exhausted: bit-state hashing looks at most of it.
deep_tests() {
	cat <<'TABLE'
good reads: -DREADS_IN_STEPS -DLEASES_COME_AND_GO -DFAILURES=1 -DNAMESPACES=2
good outages: -DFAILURES=2 -DCLOSES=1 -DNAMESPACES=3
good late: -DLATE=1 -DCLOSES=1 -DNAMESPACES=2 -DREFRESHES=1 -DCRASHES=1
good direct: -DDIRECTS=1 -DLATE=1 -DFAILURES=1 -DNAMESPACES=2
good bitstate: -DSALES_1=2 -DBATCH=2 -DNAMESPACES=3 -DFAILURES=1 -DLATE=1 -DCRASHES=1 -DCLOSES=1 -DRESTARTS=1 -DDIRECTS=1 -DSCRUBS=1 -DREFRESHES=1 -DREPLAYS=1
TABLE
}

failed=0
fail() {
	echo "model: $1: $2"
	failed=1
}

# Error-free, and complete: a search cut short by a limit proves nothing.
good() {
	name=$1
	shift
	limits="-O1 -DMEMLIM=2000"
	[ $list = deep_tests ] && limits="-O2 -DMEMLIM=8000"
	[ "$name" = bitstate ] && limits="-O2 -DBITSTATE"
	# shellcheck disable=SC2086
	spin -a -DMILESTONES "$@" "$model" >spin.out 2>&1 && gcc -w -DSAFETY -DNOFAIR $limits -o pan pan.c ||
		{ cat spin.out; fail "$name" "could not be built"; return; }
	if [ "$name" = bitstate ]; then ./pan -E -m100000 -w34 -k3; else ./pan -E -m100000 -w22; fi >pan.out 2>&1
	grep '^reached: ' pan.out >>reached
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.out)
	if ! grep -q 'errors: 0$' pan.out || grep -qE 'too small|not completed|out of memory|memory limit' pan.out; then
		grep -E 'errors:|too small|not completed|memory' pan.out
		[ -f coherence.pml.trail ] && story "$@"
		fail "$name" "a violation, or not searched to the end"
	else
		echo "model: $name: ${states:-?} states, no violation"
	fi
	rm -f ./*.trail
}

# The shortest counterexample, in words.
story() {
	spin -t -T -k coherence.pml.trail "$@" "$model" | grep -E '^ *[A-Za-z0-9]+: |^      ' | grep -v '^spin:'
}

bad() {
	name=$1
	shift
	rule=-DBREAK_${name%%.*}
	spin -a "$rule" "$@" "$model" >spin.out 2>&1 && gcc -O0 -w -DSAFETY -DNOFAIR -DBFS -DMEMLIM=2000 -o pan pan.c ||
		{ cat spin.out; fail "$name" "could not be built"; return; }
	./pan -E -w20 >pan.out 2>&1
	if [ ! -f coherence.pml.trail ] || ! grep -q 'assertion violated' pan.out; then
		fail "$name" "breaks a rule, and nothing is found"
		return
	fi
	story "$rule" "$@" >story.out
	grep -q '!!!' story.out || fail "$name" "its story does not end in a stale answer"
	echo "model: $name: found"
	[ "$quiet" ] || sed 's/^/    /' story.out
	rm -f ./*.trail
}

: >reached
$list >table
while read -r kind name bounds; do
	name=${name%:}
	[ "$wanted" = "  " ] || case $wanted in *" $name "*) ;; *) continue ;; esac
	# shellcheck disable=SC2086
	$kind "$name" $bounds </dev/null
done <table

# Whatever a step calls worth reaching must have been reached by a good configuration: else it proves nothing about it.
if [ "$wanted" = "  " ] && [ $list = tests ]; then
	grep -o 'REACHED("[^"]*")' "$model" | sed 's/REACHED("\(.*\)")/reached: \1/' | sort -u >worth
	sort -u reached | comm -23 worth - >missed
	[ -s missed ] && { sed 's/^reached/model: never reached/' missed; failed=1; }
fi
exit $failed
