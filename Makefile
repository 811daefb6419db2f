# Lastunit. `make help` lists the targets.
#
# MODE=release|debug|san picks the profile, SAN=address,undefined|thread the sanitizers, CC=gcc|clang the compiler,
# WERROR=1 turns warnings into errors (CI does). Everything built lies below build/MODE; build/lastunit is a link.

MODE    ?= release
SAN     ?=
CC      ?= gcc
WERROR  ?= 0
LISTEN  ?= 127.0.0.1:8080

ifneq ($(SAN),)
override MODE := san-$(subst $(comma),-,$(firstword $(subst $(empty) $(empty),-,$(SAN))))
endif
comma := ,
BUILD := build/$(subst $(comma),-,$(MODE))$(if $(filter clang%,$(CC)),-clang)

PKGS     := libevent libevent_pthreads libpq hiredis jansson libcrypto libutf8proc libcurl
CFLAGS_W := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wconversion -Wvla -Wno-unused-parameter \
            -Wno-sign-conversion
CPPFLAGS += -D_GNU_SOURCE -Iinclude -Isrc $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
CFLAGS   ?= -g
CFLAGS   += -std=gnu11 $(CFLAGS_W) -pthread -fno-omit-frame-pointer
LDLIBS   += $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lhttp_parser -lcsv -lm -pthread
LDFLAGS  += -Wl,--as-needed

ifeq ($(MODE),release)
CFLAGS += -O2 -D_FORTIFY_SOURCE=2 -fstack-protector-strong
else ifeq ($(MODE),debug)
CFLAGS += -O0
else
CFLAGS  += -O1 -fsanitize=$(SAN) -fno-sanitize-recover=all
LDFLAGS += -fsanitize=$(SAN)
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
EMBED := $(sort $(wildcard lua/*.lua sql/*.sql sql/*.csv))

.PHONY: all
all: $(BIN) build/lastunit

build/lastunit: $(BIN) FORCE
	@ln -sfn $(patsubst build/%,%,$(BIN)) $@
FORCE:

$(BIN): $(BUILD)/main.o $(LIB)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(LIB): $(OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -Itests $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/tests/%_test: $(BUILD)/tests/%_test.o $(TLIB) $(LIB)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

# Every embedded file becomes one row of embedded_files[], by .incbin, sorted by name.
$(BUILD)/gen/embedded.c: $(EMBED) Makefile
	@mkdir -p $(@D)
	@{ echo '#include "base/embed.h"'; n=0; for f in $(EMBED); do \
	  echo "__asm__(\".section .rodata\\nembedded_$$n:\\n.incbin \\\"$$f\\\"\\nembedded_end_$$n:\\n.byte 0\\n.previous\\n\");"; \
	  echo "extern const char embedded_$$n[], embedded_end_$$n[];"; n=$$((n+1)); done; \
	  echo 'const struct embedded_file embedded_files[] = {'; n=0; for f in $(EMBED); do \
	  echo "	{\"$$f\", {embedded_$$n, $$(wc -c <$$f)}},"; n=$$((n+1)); done; echo '	{0},'; echo '};'; \
	  echo "const size_t embedded_file_count = $$n;"; } > $@

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c $(EMBED)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

-include $(OBJ:.o=.d) $(BUILD)/main.d $(TESTS:=.d) $(TLIB:.o=.d)

.SECONDARY:
