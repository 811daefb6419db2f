#!/bin/sh
# Invariants: each one numbered in a README (`- **I7 …`) has a test named after it (a function I7_…), and no test is
# named after an invariant that is not written down. usage: invariants.sh [ROOT]
set -eu
cd "${1:-.}"
readme=src/inventory/README.md
bad=0

if [ ! -f "$readme" ]; then
	echo "invariants: $readme is not written yet"
	exit 0
fi
written=$(sed -n 's/^- \*\*\(I[0-9][0-9]*\)[^0-9].*/\1/p' "$readme")
tested=$(find tests \( -name '*.c' -o -name '*.py' -o -name '*.sh' -o -name '*.spec' \) ! -path 'tests/lint/*' \
	-exec grep -ohE '\bI[0-9]+_[A-Za-z0-9_]+' {} + | sed 's/_.*//' | sort -u)
[ -n "$written" ] || { echo "$readme: no line starts with \"- **I<n>\""; exit 1; }
for invariant in $written; do
	echo "$tested" | grep -qx "$invariant" || {
		echo "$readme: $invariant has no test: name a test function ${invariant}_..."
		bad=1
	}
done
for invariant in $tested; do
	echo "$written" | grep -qx "$invariant" || {
		echo "tests: ${invariant}_... is a test, but $readme has no $invariant"
		bad=1
	}
done
twins=$(echo "$written" | sort | uniq -d)
[ -z "$twins" ] || { echo "$readme: numbered twice: $twins"; bad=1; }
exit $bad
