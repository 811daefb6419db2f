#!/bin/sh
# Tables: what a .def file promises is there, and nothing in it is dead.
#
# Every option of config.def is in `lastunit serve --help` (passed over while there is no binary) and is read somewhere;
# every metric of metrics.def is counted somewhere; every error of errors.def is returned somewhere.
# usage: tables.sh [ROOT [BINARY]]
set -eu
cd "${1:-.}"
binary=${2:-build/lastunit}
bad=0

complain() {
	echo "$1"
	bad=1
}

# Names in column $2 of the X(...) rows of table $1.
names() {
	sed -n 's/^X(\(.*\)/\1/p' "$1" | cut -d, -f"$2" | tr -d ' '
}

sources=$(find src include -name '*.[ch]' | sort)
# The tests may not keep a row alive: only the sources count.
used() {
	# shellcheck disable=SC2086
	grep -qE "$1\b" $sources
}

if [ -x "$binary" ]; then
	help=$("$binary" serve --help)
	for name in $(names src/base/config.def 2); do
		flag=--$(echo "$name" | tr _ -)
		variable=LASTUNIT_$(echo "$name" | tr '[:lower:]' '[:upper:]')
		echo "$help" | grep -qwe "$flag" || complain "src/base/config.def: $flag is not in serve --help"
		echo "$help" | grep -qwe "$variable" || complain "src/base/config.def: $variable is not in serve --help"
	done
else
	echo "tables: $binary is not built, so --help is not looked at"
fi
for name in $(names src/base/config.def 2); do
	used "(->|\.)$name" || complain "src/base/config.def: $name is read nowhere"
done
for name in $(names src/base/metrics.def 2); do
	used "\bMETRIC_$name" || complain "src/base/metrics.def: METRIC_$name is counted nowhere"
done
for name in $(names include/lastunit/errors.def 1); do
	used "\bLU_$name" || complain "include/lastunit/errors.def: LU_$name is returned nowhere"
done
for table in src/base/config.def:2 src/base/metrics.def:3 include/lastunit/errors.def:2; do
	twins=$(names "${table%:*}" "${table#*:}" | sort | uniq -d)
	[ -z "$twins" ] || complain "${table%:*}: twice in it: $twins"
done
exit $bad
