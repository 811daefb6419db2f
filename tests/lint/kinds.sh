#!/bin/sh
# A name that is no test's fails: `make check KINDS=unit/typo` once ran the lint alone and said "1 passed, 0 failed".
set -u
cd "$(dirname "$0")/../.." || exit 2
unset MAKEFLAGS MAKELEVEL

for goal in check test; do
	out=$(make -s "$goal" KINDS='unit/json unit/nope' LINT= 2>&1) && echo "make $goal takes a name that is no test's" && exit 1
	case $out in
	'no test is called unit/nope'*) ;;
	*) echo "make $goal: $out"; exit 1 ;;
	esac
done
make -s kinds && make -s kinds KINDS='unit/json hostile' && make -s kinds KINDS=
