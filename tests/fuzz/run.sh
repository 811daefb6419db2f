#!/bin/sh
# Runs fuzzers in turn, FUZZ_SECONDS each, with what is kept in corpus/NAME as seeds. usage: run.sh FUZZER…
#
# What one finds new is gathered beside it in FUZZER.corpus, and is there the next time. Stops at the first that fails:
# the input stands in FUZZER-crash-… (or -leak-, -timeout-); minimise it (README.md), mend, keep it.
set -eu
cd "$(dirname "$0")/../.."
for fuzzer; do
	name=$(basename "$fuzzer" _fuzz)
	dictionary=tests/fuzz/$name.dict
	[ -f "$dictionary" ] && set -- -dict="$dictionary" || set --
	mkdir -p "$fuzzer.corpus"
	echo "== $name, ${FUZZ_SECONDS:-60} s"
	"$fuzzer" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
		-artifact_prefix="$fuzzer-" "$@" "$fuzzer.corpus" "tests/fuzz/corpus/$name"
done
