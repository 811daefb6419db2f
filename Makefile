# Lastunit. `make help` lists the targets.
#
# V=1 shows the commands.
# MODE=release|debug|sync picks the profile, SAN=address,undefined|thread the sanitizers, CC=gcc|clang the compiler,
# WERROR=1 turns warnings into errors (CI does). Everything built lies below build/MODE; build/lastunit is a link.
# sync is the profile of the scenarios: the service with places at which a test may stop it (src/base/sync.h).

MODE    ?= release
SAN     ?=
ifeq ($(origin CC),default)
CC      := gcc
endif
WERROR  ?= 0
LISTEN  ?= 127.0.0.1:8080
# Beside these there are targets of their own for the long forms: sim, soak, endure, hostile, fuzz, mutants.
KINDS   ?= unit fuzz store cache inventory spec mutants sim e2e endure $(if $(SAN),,model)
Q       := $(if $(V),,@)

comma := ,
ifneq ($(SAN),)
override MODE := $(if $(filter sync%,$(MODE)),sync,san)-$(subst $(comma),-,$(firstword $(subst $(empty) $(empty),-,$(SAN))))
endif
BUILD := build/$(subst $(comma),-,$(MODE))$(if $(filter clang%,$(CC)),-clang)

PKGS     := libevent libevent_pthreads libpq hiredis jansson libcrypto libutf8proc libcurl
CFLAGS_W := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wconversion -Wvla -Wno-unused-parameter \
            -Wno-sign-conversion
CPPFLAGS += -D_GNU_SOURCE -Iinclude -Isrc $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
CFLAGS   ?= -g
CFLAGS   += -std=gnu11 $(CFLAGS_W) -pthread -fno-omit-frame-pointer
LDLIBS   += $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lhttp_parser -lcsv -lm -pthread
LDFLAGS  += -Wl,--as-needed

ifeq ($(filter clang%,$(CC)),)
CFLAGS += -Wno-format-truncation    # snprintf is asked to cut; gcc warns only when it optimises
endif

ifeq ($(MODE),release)
CFLAGS += -O2 -D_FORTIFY_SOURCE=2 -fstack-protector-strong
else ifeq ($(MODE),debug)
CFLAGS += -O0
else ifeq ($(SAN),)
CFLAGS += -O1
else
CFLAGS  += -O1 -fsanitize=$(SAN) -fno-sanitize-recover=all
LDFLAGS += -fsanitize=$(SAN)
endif
ifneq ($(filter sync%,$(MODE)),)
CPPFLAGS += -DLASTUNIT_SYNC_POINTS
endif
ifeq ($(WERROR),1)
CFLAGS += -Werror
endif

SRC   := $(sort $(filter-out src/main.c,$(wildcard src/*/*.c)))
OBJ   := $(SRC:src/%.c=$(BUILD)/%.o) $(BUILD)/gen/embedded.o
LIB   := $(BUILD)/liblastunit.a
BIN   := $(BUILD)/lastunit
TLIB  := $(patsubst tests/%.c,$(BUILD)/tests/%.o,$(wildcard tests/lib/*.c))
TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/*/*_test.c)))
SPECS := $(patsubst tests/%.c,$(BUILD)/tests/%.o,$(filter-out %_test.c,$(wildcard tests/spec/*.c)))
SIMS  := $(patsubst tests/%.c,$(BUILD)/tests/%.o,$(filter-out %_test.c tests/sim/sim.c,$(wildcard tests/sim/*.c)))
SIM   := $(BUILD)/tests/sim/sim
SYNC  := $(dir $(BUILD))sync$(if $(SAN),-$(subst $(comma),-,$(SAN)))
FUZZ  := $(patsubst tests/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/fuzz/*_fuzz.c)))
FUZZL := $(patsubst tests/%.c,$(BUILD)/tests/%.o,$(filter-out %_fuzz.c tests/fuzz/driver.c,$(wildcard tests/fuzz/*.c)))
TESTS += $(FUZZ:%_fuzz=%_test)
BENCH := $(patsubst tests/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/bench/*_bench.c)))
EMBED := $(sort $(wildcard src/channels/page/* src/cmd/*.css lua/*.lua sql/*.sql sql/*.csv src/api/*.json))

.PHONY: all
all: $(BIN) $(if $(SAN)$(filter-out build/%,$(BIN))$(filter clang%,$(CC)),,build/lastunit)   ## build the binary: build/lastunit
	@:    # something to be done, or make says that there was nothing

build/lastunit: $(BIN) FORCE
	@ln -sfn $(patsubst build/%,%,$(BIN)) $@
.PHONY: FORCE
FORCE:    # by name, or .SECONDARY below would have it that nothing need be done for what is not there

$(BIN): $(BUILD)/main.o $(LIB)
	@echo '  LD    $@'
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(LIB): $(OBJ)
	@echo '  AR    $@'
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/%.o: src/%.c
	@mkdir -p $(@D)
	@echo '  CC    $@'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	@echo '  CC    $@'
	$(Q)$(CC) $(CPPFLAGS) -Itests $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/tests/%_test: $(BUILD)/tests/%_test.o $(TLIB) $(LIB)
	@echo '  LD    $@'
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIB) -lcmocka $(LDLIBS)

$(filter $(BUILD)/tests/sim/%,$(TESTS)): $(SIMS)

$(filter $(BUILD)/tests/spec/%,$(TESTS)): $(SPECS)

$(SIM): $(BUILD)/tests/sim/sim.o $(SIMS) $(TLIB) $(LIB)
	@echo '  LD    $@'
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIB) -lcmocka $(LDLIBS)

ifneq ($(SYNC),$(BUILD))
$(SYNC)/lastunit: FORCE
	@$(MAKE) --no-print-directory MODE=sync BUILD=$(SYNC) $@
endif

$(BUILD)/tests/%_bench: $(BUILD)/tests/%_bench.o $(TLIB) $(LIB)
	@echo '  LD    $@'
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

# A fuzz target is linked twice: with libFuzzer (clang), and with a driver that makes it a test like the others. The
# first definition counts: tests/fuzz/fake_inventory.c stands in for some of src/inventory.
$(BUILD)/tests/fuzz/%: LDFLAGS += -Wl,--allow-multiple-definition
$(BUILD)/tests/%_fuzz: $(BUILD)/tests/%_fuzz.o $(FUZZL) $(LIB)
	@echo '  LD    $@'
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

$(BUILD)/tests/fuzz/%_test: $(BUILD)/tests/fuzz/%_fuzz.o $(BUILD)/tests/fuzz/driver.o $(BUILD)/tests/lib/mutate.o $(FUZZL) $(LIB)
	@echo '  LD    $@'
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

# Every embedded file becomes one row of embedded_files[], by .incbin, sorted by name.
# A file that went or was renamed leaves nothing newer behind: the list of names tells.
$(BUILD)/gen/embedded.list: FORCE
	@mkdir -p $(@D)
	@echo '$(EMBED)' | cmp -s - $@ || echo '$(EMBED)' >$@
$(BUILD)/gen/embedded.c: $(EMBED) $(BUILD)/gen/embedded.list Makefile
	@mkdir -p $(@D)
	@{ printf '%s\n' '#include "base/embed.h"'; n=0; for f in $(EMBED); do \
	  printf '%s\n' "__asm__(\".section .rodata\\nembedded_$$n:\\n.incbin \\\"$$f\\\"\\nembedded_end_$$n:\\n.byte 0\\n.previous\\n\");"; \
	  printf '%s\n' "extern const char embedded_$$n[], embedded_end_$$n[];"; n=$$((n+1)); done; \
	  printf '%s\n' 'const struct embedded_file embedded_files[] = {'; n=0; for f in $(EMBED); do \
	  printf '%s\n' "	{\"$$f\", {embedded_$$n, $$(wc -c <$$f)}},"; n=$$((n+1)); done; printf '%s\n' '	{0},'; printf '%s\n' '};'; \
	  printf '%s\n' "const size_t embedded_file_count = $$n;"; } > $@

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c $(EMBED)
	@echo '  CC    $@'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

-include $(OBJ:.o=.d) $(BUILD)/main.d $(TESTS:=.d) $(FUZZ:=.d) $(FUZZL:.o=.d) $(BUILD)/tests/fuzz/driver.d $(TLIB:.o=.d) $(SIMS:.o=.d) $(SIM).d

.SECONDARY:

# --- what a person calls ----------------------------------------------------------------------------------------------
# The packages may be missing when this file is read, and pkg-config with them: whatever installs builds in a make of its
# own, which reads the file again.

DEPS_RUN   := gcc libc6-dev make pkg-config libevent-dev libpq-dev libhiredis-dev libjansson-dev libssl-dev \
              libutf8proc-dev libcurl4-openssl-dev libhttp-parser-dev libcsv-dev postgresql redis-tools \
              curl ca-certificates
DEPS_TEST  := $(DEPS_RUN) libcmocka-dev clang clang-format libclang-rt-dev spin
DEPS_BENCH := postgresql-client libcmocka-dev wrk
AGAIN       = $(MAKE) --no-print-directory $(if $(filter -j% j%,$(MAKEFLAGS)),,-j$(shell nproc))

.PHONY: run deps kinds test test-san test-clients test-browser check sim endure hostile spec mutants soak bench bench-large lint format clean help

run:               ## install what is missing, build, and start a Lastunit of its own on $(LISTEN)
	@sh .ci/install $(DEPS_RUN)
	@$(AGAIN) all
	@exec build/lastunit dev --listen '$(LISTEN)'

deps:              ## install what building and testing needs
	@sh .ci/install $(DEPS_TEST)

test: kinds deps   ## install what is missing, build, run the tests (KINDS="unit e2e/dev": only these), lint
	@$(AGAIN) tests
	@$(AGAIN) check

# The short form of CI: KINDS="unit cache store". Races and memory errors hide in the same code, so both run all of it.
test-san: deps     ## the same tests under AddressSanitizer with UBSan, then under ThreadSanitizer
	@$(AGAIN) SAN=address,undefined tests
	@$(AGAIN) SAN=address,undefined LINT= check
	@$(AGAIN) SAN=thread tests
	@$(AGAIN) SAN=thread LINT= check

# Debian's Node only installs: npm brings the one that runs them. A machine may have both from elsewhere.
test-clients:      ## outside clients (MCP, Telegram, Alexa, Twilio, OpenAPI, …) against every channel: CLIENTS="mcp voice"
	@sh .ci/install $(DEPS_RUN)
	@command -v npm >/dev/null || sh .ci/install nodejs npm
	@$(AGAIN) all
	@LASTUNIT_BIN=$(abspath $(BIN)) sh tests/clients/run.sh $(CLIENTS:%=%_test.mjs)

test-browser:      ## the pages in a real browser, Debian's chromium: SHOTS=DIR keeps what it saw
	@sh .ci/install $(DEPS_RUN) chromium
	@command -v npm >/dev/null || sh .ci/install nodejs npm
	@$(AGAIN) all
	@LASTUNIT_BIN=$(abspath $(BIN)) SHOTS=$(if $(SHOTS),$(abspath $(SHOTS))) sh tests/browser/run.sh

.PHONY: tests
tests: $(BIN) $(TESTS) $(SIM) $(SYNC)/lastunit $(if $(SAN),,all)

LINT       := tests/lint/run.sh
# The tests of one kind: a folder of tests/, or a name in it, "unit" or "unit/json".
kind_tests = $(filter $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/$1/*_test.c tests/$1_test.c)) \
              $(patsubst tests/%_fuzz.c,$(BUILD)/tests/%_test,$(wildcard tests/$1/*_fuzz.c tests/$1_fuzz.c)),$(TESTS)) \
              $(wildcard tests/$1/*_test.sh tests/$1_test.sh)
KIND_TESTS := $(sort $(foreach k,$(KINDS),$(call kind_tests,$k)))
NO_TESTS   := $(strip $(foreach k,$(KINDS),$(if $(strip $(call kind_tests,$k)),,$k)))
kinds:
	@$(if $(NO_TESTS),echo 'no test is called $(firstword $(NO_TESTS))' >&2; exit 1)
check: kinds       ## run the tests that are built
	@BUILD=$(BUILD) LASTUNIT_BIN=$(abspath $(BIN)) LASTUNIT_SYNC_BIN=$(abspath $(SYNC)/lastunit) sh tests/run.sh $(KIND_TESTS) $(LINT)

sim: deps          ## a shop under faults drawn from a seed, judged: SEED=17 or SEED=1..50, SECONDS_EACH=4
	@$(AGAIN) $(BIN) $(SIM)
	@LASTUNIT_BIN=$(abspath $(BIN)) $(SIM) --seconds $(or $(SECONDS_EACH),4) $(or $(SEED),1..12)

endure: deps       ## the full form of tests/endure, for a machine that does nothing else: outages and a hundred kills, with figures
	@$(AGAIN) tests
	@LASTUNIT_ENDURE=1 $(AGAIN) KINDS=endure LINT= check

# One program at a time: the second would be measured with the first.
hostile: deps      ## what thousands of hostile clients cost the good ones, in figures: ten minutes of a machine that does nothing else
	@$(AGAIN) tests
	@TEST_JOBS=1 $(AGAIN) KINDS=hostile LINT= check

spec: deps         ## the scenarios of tests/spec, step by step, on a bench of their own
	@$(AGAIN) tests
	@$(AGAIN) KINDS=spec LINT= check

mutants: deps      ## break the protocol line by line; each break must be seen by its test: MUTANTS="late-fill"
	@sh tests/mutants/run.sh --keep build/mutants $(MUTANTS)

soak: deps         ## what `make sim` does, with new seeds for an hour: MINUTES=60 SECONDS_EACH=4
	@$(AGAIN) $(BIN) $(SIM)
	@LASTUNIT_BIN=$(abspath $(BIN)) $(SIM) --seconds $(or $(SECONDS_EACH),4) \
	  forever $(or $(MINUTES),60) $(or $(SEED),$(shell date +%s))

bench:             ## measure, beside pgbench and redis-benchmark: ROUNDS=5 SECONDS_EACH=5 CLIENTS=64
	@sh .ci/install $(DEPS_RUN) $(DEPS_BENCH)
	@$(AGAIN) all benches
	@LASTUNIT_BIN=$(abspath $(BIN)) bash tests/bench/run.sh
	@LASTUNIT_BIN=$(abspath $(BIN)) bash tests/bench/import.sh
	@for b in $(BENCH); do echo "== $$b"; $$b || exit 1; done
plots:             ## draw the README's two plots anew, from a race on this machine: RUN_MS=2000
	@sh .ci/install $(DEPS_RUN)
	@$(AGAIN) all
	@LASTUNIT_BIN=$(abspath $(BIN)) RUN_MS=$(RUN_MS) sh tests/bench/plots.sh

bench-large:       ## a million SKUs, 20 million entries, an old transaction (ten minutes, 8 GB): MANY= ENTRIES= STRANGER=
	@sh .ci/install $(DEPS_RUN) $(DEPS_BENCH)
	@$(AGAIN) all
	@LASTUNIT_BIN=$(abspath $(BIN)) bash tests/bench/large.sh

.PHONY: benches plots
benches: $(BENCH)

fuzz: deps         ## every fuzzer for FUZZ_SECONDS=60 each, under AddressSanitizer and UBSan: FUZZERS="json cell"
	@$(AGAIN) CC=clang SAN=fuzzer-no-link,address,undefined fuzz-run
.PHONY: fuzz fuzz-run fuzzers
fuzzers: $(FUZZ)
FUZZERS ?= $(patsubst tests/fuzz/%_fuzz.c,%,$(sort $(wildcard tests/fuzz/*_fuzz.c)))
fuzz-run: $(FUZZERS:%=$(BUILD)/tests/fuzz/%_fuzz)
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) sh tests/fuzz/run.sh $^

lint:              ## layers, tables, invariants, width, format
	@sh tests/lint/run.sh

format:            ## rewrite the sources in the house style
	@sh tests/lint/format.sh --fix

clean:             ## remove what was built
	rm -rf build

help:              ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' Makefile | awk -F '\t' '{ printf "  %-13s %s\n", $$1, $$2 }'
