#!/bin/sh
# The short form of the simulation: a few seeds, about a minute. `make sim` runs more, `make soak` for an hour.
set -u
seeds=1..7
[ -z "${LASTUNIT_TEST_SHORT:-}" ] || seeds=1..3
exec "$BUILD/tests/sim/sim" --seconds 4 "$seeds"
