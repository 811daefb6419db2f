#!/bin/sh
# Outside clients against every channel. usage: run.sh [FILE_test.mjs...]
#
# The clients, and the Node 24 that some of them need, come from npm as package-lock.json says, into node_modules beside
# this file. Each file is one program with a shop of its own; they run in turn. The last line is "N passed, N failed"; the exit
# code is 1 if any failed or none ran.
set -eu
cd "$(dirname "$0")"
node=node_modules/node/bin/node

if ! cmp -s package-lock.json node_modules/.installed; then
	echo "installing the clients"
	# Releases of npm disagree about which optional packages of other systems a lock file must name: then by package.json.
	npm ci --no-audit --no-fund --loglevel=error || npm install --no-package-lock --no-audit --no-fund --loglevel=error
	cp package-lock.json node_modules/.installed
fi

[ $# -gt 0 ] || set -- *_test.mjs
report=$(mktemp)
trap 'rm -f "$report"' EXIT
code=0
{ "$node" --test --test-concurrency=1 --test-reporter=spec --test-reporter-destination=stdout \
	--test-reporter=tap --test-reporter-destination="$report" "$@" </dev/null; } || code=1
# The sums that Node's TAP ends with.
count() { sed -n "s/^# $1 //p" "$report"; }
passed=$(count pass) failed=$(($(count fail) + $(count cancelled)))
echo "$passed passed, $failed failed"
[ "$code" -eq 0 ] && [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
