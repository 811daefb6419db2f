#!/bin/sh
# Every mutant breaks lines that stand in the sources, once; so every scenario guards one.
exec sh "$(dirname "$0")/run.sh" --check
