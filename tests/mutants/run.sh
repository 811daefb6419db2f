#!/bin/sh
# A test is worth what it kills. Breaks one line of the protocol at a time, in a copy, and runs the test that must see it
# (README.md). A mutant is killed by a promise or a figure seen violated, never by a crash or a timeout: those, and a test
# that stays green, let it survive.
#
# usage: run.sh --check                  every mutant's lines stand in the sources, once (fast)
#        run.sh [--keep DIR] [NAME…]     these, or all; DIR is kept, so that the next time little is compiled
#
# Exit codes: 0 all killed, 1 one survived, 2 there is nothing to work with.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
check='' copy=''
case ${1:-} in
--check) check=1; shift ;;
--keep) mkdir -p "$2"; copy=$(cd "$2" && pwd); shift 2 ;;
esac
mutate="perl tests/mutants/mutate.pl"
GRACE=15 # seconds that a program has for the rest of its tests after one has failed
unset MAKEFLAGS MFLAGS # what builds here is no part of a make above

list=$($mutate list) || exit 1
if [ -n "$check" ]; then
	echo "$list" | awk 'END { print NR " mutants break lines that are there" }'
	exit 0
fi
for name; do
	echo "$list" | cut -f1 | grep -qxe "$name" || { echo "mutants: none is called $name"; exit 2; }
done
if [ -z "$copy" ]; then
	copy=$(mktemp -d)
	trap 'rm -rf "$copy"' EXIT
fi

# --- the copy -----------------------------------------------------------------------------------------------------------

# Without the clients' packages, which are a hundred times as many files and are not compiled.
files_in() {
	find "$@" -name node_modules -prune -o -type f -print
}

# What differs is copied and so becomes newer: also what an earlier run left broken.
refresh() {
	mkdir -p "$copy/tree"
	(files_in Makefile include src lua sql tests; cd "$copy/tree" && files_in . | sed 's,^\./,,') | sort -u |
		while read -r file; do
			if [ ! -e "$file" ]; then
				rm -f "$copy/tree/$file"
			elif ! cmp -s "$file" "$copy/tree/$file"; then
				mkdir -p "$copy/tree/$(dirname "$file")"
				cp "$file" "$copy/tree/$file"
			fi
		done
}

# build MODE TARGET…: in the copy, targets below build/MODE
build() {
	mode=$1
	shift
	make -s -j"$(nproc)" -C "$copy/tree" MODE="$mode" BUILD="$copy/$mode" "$@" >"$copy/make.log" 2>&1
}

# --- the killers ----------------------------------------------------------------------------------------------------------

# Both build, run, leave what they saw in $said, and fail if the mutant survived.

built() {
	build "$@" && return
	said="it does not build: $(tail -n 3 "$copy/make.log" | tr -s '\n' ' ')"
	return 1
}

by_scenario() {
	runner=$copy/spec_test
	case $files in
	*lua/* | *sql/*) # the runner makes the tables, and knows the scripts by what they say
		runner=$copy/debug/tests/spec/spec_test
		built debug "$runner" || return 1 ;;
	esac
	built sync "$copy/sync/lastunit" || return 1
	if LASTUNIT_SYNC_BIN=$copy/sync/lastunit LASTUNIT_SPEC_PATIENCE_MS=${PATIENCE_MS:-8000} \
		timeout -k 10 300 "$runner" "$1" >"$copy/log/$name" 2>&1; then
		said="the scenario is still green"
		return 1
	fi
	said=$(grep -A1 "^  tests/spec/$1.spec:" "$copy/log/$name" | tr -s ' \n' ' ' | sed 's/^ *//' | cut -c1-260)
	case $said in
	*"ended by itself"* | *"did not come there"* | *"waited in vain"* | *"was answered 0"*) return 1 ;;
	*expected* | *"has been answered"* | *"the audit:"* | *"does not add up"* | *oversold* | *"; its ledger"* | *" shows "*) ;;
	'') said="no line of it was seen to fail: $(grep '^  ' "$copy/log/$name" | tail -n 1)"; return 1 ;;
	*) return 1 ;;
	esac
}

by_program() {
	built debug "$copy/debug/lastunit" "$copy/debug/tests/$1" || return 1
	timeout -k 10 "${TEST_TIMEOUT:-600}" "$copy/debug/tests/$1" >"$copy/log/$name" 2>&1 &
	program=$!
	# One failure is enough; a test behind it may wait for what will never come.
	left=$GRACE
	while kill -0 $program 2>/dev/null && [ $left -gt 0 ]; do
		sleep 1
		! grep -qE '^\[  (FAILED |ERROR  ) \]' "$copy/log/$name" || left=$((left - 1))
	done
	kill $program 2>/dev/null || :
	wait $program && code=0 || code=$?
	if [ "$code" -eq 0 ]; then
		said="its tests are still green"
		return 1
	fi
	# The first failure: its name, and what was printed since that test began. cmocka calls it an ERROR if the teardown,
	# which may be an audit, failed as well; a test whose setup failed has seen nothing.
	said=$(awk '
		/^\[ RUN      \]/ { text = ""; reading = 0 }
		/^\[  (FAILED |ERROR  ) \] [A-Za-z0-9_]+$/ {
			if (!seen && text != "" && text !~ /Test setup failed/) { seen = 1; print substr($0, 14) ":" text }
			text = ""; reading = 0; next
		}
		/^\[  ERROR   \]/ || /^ERROR: / || /^Could not run test: / { reading = 1 }
		reading {
			gsub(/\[ *(ERROR|LINE) *\]|ERROR: |Could not run test: |---|: error: Failure!|Test teardown failed/, " ")
			text = text " " $0
		}
	' "$copy/log/$name" | tr -s ' ' | cut -c1-260)
	case $said in
	'') said="no test of it failed: exit code $code"; return 1 ;;
	*exception*) return 1 ;;
	esac
}

# --- one mutant -----------------------------------------------------------------------------------------------------------

survivors=''
killed=0
survive() {
	echo "  SURVIVED: $1"
	survivors="$survivors $name"
}

judge() {
	$mutate show "$name"
	$mutate make "$name" "$copy/tree"
	case $killer in
	scenario*) by_scenario "${killer#* }" ;;
	*) by_program "$killer" ;;
	esac || {
		survive "$said ($killer; $copy/log/$name)"
		return
	}
	killed=$((killed + 1))
	echo "  killed by $killer: $said"
}

# field NAME N: a column of the list
field() {
	echo "$list" | awk -F '\t' -v name="$1" -v n="$2" '$1 == name { print $n }'
}

refresh
mkdir -p "$copy/log"
export LASTUNIT_BIN="$copy/debug/lastunit"
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(echo "$list" | cut -f1)
for name; do
	case $(field "$name" 2) in scenario*) ;; *) continue ;; esac
	build debug "$copy/debug/tests/spec/spec_test" || {
		cat "$copy/make.log"
		echo "mutants: the copy does not build"
		exit 2
	}
	cp "$copy/debug/tests/spec/spec_test" "$copy/spec_test" # its library stays whole
	break
done
for name; do
	killer=$(field "$name" 2)
	files=$(field "$name" 3)
	judge
	for file in $files; do
		cp "$root/$file" "$copy/tree/$file"
	done
done
echo "$killed killed, $(echo "$survivors" | wc -w) survived$survivors"
[ -z "$survivors" ]
