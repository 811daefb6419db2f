#!/bin/sh
# Width: no line of code or comment goes on beyond column 124 (a tab is 4), so that two files fit beside each other.
# clang-format breaks code at 120 and leaves comments alone. What stands in quotes may be long: a text that is looked for
# as a whole is not cut in pieces; so may a macro that has such a text. usage: columns.sh [ROOT]
set -eu
cd "${1:-.}"
find src include sql lua tests \( -name '*.[ch]' -o -name '*.sql' -o -name '*.lua' \) ! -path '*/node_modules/*' | sort |
	LC_ALL=C xargs awk '
	{
		line = $0
		gsub(/[\200-\277]/, "", line) # of a character in UTF-8 the first byte counts
		if (FILENAME !~ /\.sql$/) {
			gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
			sub(/[ \t]*\\$/, "", line)
		} else if (line !~ /^[ \t]*--/) {
			gsub(/\047[^\047]*\047/, "\"\"", line)
		}
		width = 0
		for (i = 1; i <= length(line); i++)
			width += substr(line, i, 1) == "\t" ? 4 - width % 4 : 1
		if (width > 124) {
			printf "%s:%d: %d columns\n", FILENAME, FNR, width
			bad = 1
		}
	}
	END { exit bad }
'
