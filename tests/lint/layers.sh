#!/bin/sh
# Layers: an #include may only point to the same room or downwards.
#
#   cmd -> {api, channels} -> {http, inventory} -> {store, cache} -> base        (include/lastunit is seen by all)
#
# http and inventory do not see each other, nor do store and cache: what spans those two is the protocol, which lives
# in inventory, in one place. api and channels do, they are one layer in two rooms: the table of routes has the channels'
# handlers, a channel calls and renders as the API does. decide.c includes no library. usage: layers.sh [ROOT]
set -eu
cd "${1:-.}"
bad=0

# shellcheck disable=SC2016
find src -mindepth 2 -name '*.[ch]' | sort | xargs awk '
	BEGIN {
		may["base"] = ""
		may["store"] = may["cache"] = "base"
		may["http"] = "base store cache"
		may["inventory"] = "base store cache"
		may["api"] = may["channels"] = "base store cache http inventory api channels"
		may["cmd"] = "base store cache http inventory api channels"
	}
	{ room = FILENAME; sub(/^src\//, "", room); file = room; sub(/\/.*/, "", room) }
	FNR == 1 && !(room in may) { complain("a room no layer is known for; add it to tests/lint/layers.sh") }
	/^[ \t]*#[ \t]*include[ \t]*"/ {
		split($0, part, "\""); target = part[2]
		if (target ~ /^lastunit\//) next
		if (target !~ /\//) { complain("\"" target "\": an include names its room"); next }
		if (target ~ /\.\./) { complain("\"" target "\": no .. in an include"); next }
		aim = target; sub(/\/.*/, "", aim)
		if (aim != room && !index(" " may[room] " ", " " aim " "))
			complain(room " may not include \"" target "\"")
	}
	file == "inventory/decide.c" && /^[ \t]*#[ \t]*include[ \t]*</ && !/<(string|stdlib|stdbool|stddef|stdint|limits)\.h>/ {
		complain("decide.c is pure: it includes no library")
	}
	function complain(what) { printf "%s:%d: %s\n", FILENAME, FNR, what; bad = 1 }
	END { exit bad }
' || bad=1

# The contract in include/ stands on nothing of ours.
if grep -n '#[[:space:]]*include[[:space:]]*"' include/lastunit/*.h include/lastunit/*.def | grep -v '"lastunit/'; then
	echo "include/lastunit includes only include/lastunit"
	bad=1
fi
exit $bad
