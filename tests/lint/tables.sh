#!/bin/sh
# Tables: what a .def file promises is there, and nothing in it is dead.
#
# Every option of config.def is in `lastunit serve --help` (passed over while there is no binary) and is read somewhere;
# every metric of metrics.def is counted somewhere; every error of errors.def is returned somewhere and is a row of the
# table in src/api/README.md; every route is named there or in src/channels/README.md; every migration and table in
# sql/README.md; every source in a table of its folder's README, which names no other.
# usage: tables.sh [ROOT [BINARY]]
set -eu
cd "${1:-.}"
binary=${2:-build/lastunit}
bad=0
scratch=$(mktemp)
trap 'rm -f "$scratch" "$scratch.more"' EXIT

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

readme=src/api/README.md
# X(NAME, code, status, retry, "title", -> | `code` | status | title | word |
sed -n 's/^X([A-Z_]*, *\([a-z_]*\), *\([0-9]*\), \([A-Z_]*\), *"\(.*\)",$/| `\1` | \2 | \4 | \3 |/p' include/lastunit/errors.def |
	sed 's/| STORED |$/| same answer |/; s/| MEND |$/| once mended |/; s/| AGAIN |$/| helps |/; s/| ROOM |$/| helps, or fewer |/
	     s/| SAME_KEY |$/| only it helps |/; s/| NEW_KEY |$/| never |/' >"$scratch"
[ "$(wc -l <"$scratch")" -eq "$(grep -c '^X(' include/lastunit/errors.def)" ] ||
	complain "include/lastunit/errors.def: a row is not as this lint reads it"
while read -r row; do
	grep -qxF "$row" $readme || complain "$readme lacks: $row"
done <"$scratch"
# The other way round: rows of that form that no error has.
grep -E '^\| `[a-z_]+` \| [0-9]{3} \|' $readme | grep -vxFf "$scratch" >"$scratch.more" && complain "$readme: no such error: $(cat "$scratch.more")"
sed -n 's/^\t{\([A-Z]*\), *"\([^"]*\)",.*/\1 \2/p' src/api/routes.c >"$scratch"
while read -r route; do
	grep -qF "$route" $readme src/channels/README.md || complain "neither $readme nor src/channels/README.md names: $route"
done <"$scratch"
for file in src/*/*.c; do
	name=$(basename "$file" .c)
	grep -qE "^\|.*\`$name(\.c)?\`" "$(dirname "$file")/README.md" || complain "no table of $(dirname "$file")/README.md has $name"
done
for page in src/*/README.md; do
	for name in $(grep '^|' "$page" | grep -oE '`[a-z_0-9]+\.c`' | tr -d '`'); do
		[ -f "$(dirname "$page")/$name" ] || complain "$page: its table has $name, which is not there"
	done
done
for file in sql/*.sql; do
	grep -qF "${file#sql/}" sql/README.md || complain "sql/README.md does not name ${file#sql/}"
done
for made in $(sed -n 's/^CREATE \(TABLE\|VIEW\) lastunit\.\([a-z_]*\).*/\2/p' sql/*.sql); do
	grep -q "^|.*\`$made\`.*|.*|" sql/README.md || complain "sql/README.md does not name the table $made"
done
for table in src/base/config.def:2 src/base/metrics.def:3 include/lastunit/errors.def:2; do
	twins=$(names "${table%:*}" "${table#*:}" | sort | uniq -d)
	[ -z "$twins" ] || complain "${table%:*}: twice in it: $twins"
done
exit $bad
