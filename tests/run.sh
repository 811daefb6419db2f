#!/bin/sh
# Runs tests in turn and counts them. usage: run.sh TEST...
#
# TEST is a cmocka binary, whose report is shown and counted test by test, or a script *.sh: one test that passes by exit
# code 0, unless it counts as cmocka does ("[  PASSED  ] 3 test(s)."). A binary that crashes, hangs ($TEST_TIMEOUT
# seconds, 1200) or runs no test at all is one failed test, and so is a script that fails without saying what.
# The last line is "N passed, N failed"; the exit code is 1 if any failed or none ran. Scripts see the build's directory in $BUILD.
set -u
cd "$(dirname "$0")/.." || exit 2
passed=0
failed=0
losers=
report=$(mktemp)
trap 'rm -f "$report" "$report.code"' EXIT

# The numbers of a cmocka report: "[  PASSED  ] 3 test(s)."
count() {
	sed -n "s/^\[  $1  \] \([0-9]*\) test(s).*/\1/p" "$report" | awk '{ n += $1 } END { print n + 0 }'
}

for test; do
	echo "== $test"
	case $test in *.sh) set -- sh "$test" ;; *) set -- "$test" ;; esac
	{ timeout -k 20 "${TEST_TIMEOUT:-1200}" "$@" </dev/null 2>&1; echo $? >"$report.code"; } | tee "$report"
	code=$(cat "$report.code")
	good=$(count PASSED)
	bad=$(count FAILED)
	case $test in
	*.sh) [ $((good + bad)) -gt 0 ] || good=$((code == 0)) ;;
	esac
	if [ "$bad" -eq 0 ] && { [ "$code" -ne 0 ] || [ "$good" -eq 0 ]; }; then
		bad=1
	fi
	passed=$((passed + good))
	failed=$((failed + bad))
	[ "$bad" -eq 0 ] || { losers="$losers $test"; echo "== $test failed (exit code $code)"; }
done
[ -z "$losers" ] || printf 'failed:%s\n' "$losers"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
