#!/bin/sh
# Formatting: .clang-format is the house style of every .c and .h file.
# usage: format.sh [--fix] [FILE...]    without --fix it names the files that `make format` would change
set -eu
fix=
if [ "${1:-}" = --fix ]; then
	fix=1
	shift
fi
tool=${CLANG_FORMAT:-clang-format}
command -v "$tool" >/dev/null || { echo "format: no $tool here"; exit 1; }
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(find src include tests -name '*.[ch]' ! -path '*/node_modules/*' | sort)
[ -z "$fix" ] || exec "$tool" --style=file -i "$@"

found=$("$tool" --style=file --dry-run -Werror "$@" 2>&1) || {
	echo "$found" | sed -n 's/^\([^:]*\):\([0-9]*\):.*error: code should be.*/\1 \2/p' |
		awk '!($1 in first) { first[$1] = $2 } { n[$1]++ }
		     END { for (f in n) printf "%s:%d: %d places want `make format`\n", f, first[f], n[f] }' | sort
	exit 1
}
