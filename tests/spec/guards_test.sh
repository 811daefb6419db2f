#!/bin/sh
# Every scenario names the line it guards, and the line is there.
exec sh "$(dirname "$0")/mutants.sh" --check
