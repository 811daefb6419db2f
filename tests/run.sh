#!/bin/sh
# Runs tests, two at a time, and counts them. usage: run.sh TEST...
#
# TEST is a cmocka binary, whose report is shown and counted test by test, or a script *.sh: one test that passes by exit
# code 0, unless it counts as cmocka does ("[  PASSED  ] 3 test(s)."). A binary that crashes, hangs ($TEST_TIMEOUT
# seconds, 1200) or runs no test at all is one failed test, and so is a script that fails without saying what. A report is
# shown when its test has ended. $TEST_JOBS is another number of tests at a time: each has servers of its own.
# The last line is "N passed, N failed"; the exit code is 1 if any failed or none ran. Scripts see the build's directory in $BUILD.
set -u
cd "$(dirname "$0")/.." || exit 2

# The numbers of a cmocka report: "[  PASSED  ] 3 test(s)."
count() {
	sed -n "s/^\[  $2  \] \([0-9]*\) test(s).*/\1/p" "$1" | awk '{ n += $1 } END { print n + 0 }'
}

# one DIRECTORY TEST: its report, and in DIRECTORY a line "passed failed TEST".
one() {
	work=$1 test=$2
	report=$(mktemp "$work/report.XXXXXX")
	began=$(date +%s)
	case $test in *.sh) set -- sh "$test" ;; *) set -- "$test" ;; esac
	timeout -k 20 "${TEST_TIMEOUT:-1200}" "$@" </dev/null >"$report" 2>&1
	code=$?
	good=$(count "$report" PASSED)
	bad=$(count "$report" FAILED)
	case $test in
	*.sh) [ $((good + bad)) -gt 0 ] || good=$((code == 0)) ;;
	esac
	if [ "$bad" -eq 0 ] && { [ "$code" -ne 0 ] || [ "$good" -eq 0 ]; }; then
		bad=1
	fi
	(
		flock 9
		echo "== $test, $(($(date +%s) - began)) s"
		cat "$report"
		[ "$bad" -eq 0 ] || echo "== $test failed (exit code $code)"
		echo "$good $bad $test" >>"$work/counts"
	) 9>"$work/lock"
}

if [ "${1:-}" = --one ]; then
	one "$2" "$3"
	exit 0
fi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
: >"$work/counts"
[ $# -eq 0 ] || printf '%s\0' "$@" | xargs -0 -n 1 -P "${TEST_JOBS:-2}" sh tests/run.sh --one "$work"
awk -v tests=$# '{ passed += $1; failed += $2; if ($2) losers = losers " " $3 }
	END {
		if (NR != tests) { failed++; losers = losers " (" tests - NR " that left no report)" }
		if (losers) print "failed:" losers
		print passed + 0 " passed, " failed + 0 " failed"
		exit failed || !passed
	}' "$work/counts"
