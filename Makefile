# `make help` lists what you can do here.

BUILD   ?= build
CC      ?= gcc
# V=1 shows the commands.
Q        = $(if $(V),,@)
say      = $(if $(V),,@echo "  $(1)  $(2)")

PKGS     = libpq libevent libcurl yaml-0.1 libcrypto
WARN     = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Wformat=2 \
           -Wpointer-arith -Wwrite-strings -Werror
OPT     ?= -O2 -g
CFLAGS  += -std=gnu11 -D_GNU_SOURCE -I. $(WARN) $(OPT) $(shell pkg-config --cflags $(PKGS)) -MMD -MP
LDLIBS  += $(shell pkg-config --libs $(PKGS)) -lm

# Floors (see CONTRIBUTING.md): one archive each. A test of floor N links floors 0 to N only.
FLOOR0  := $(wildcard engine/base/*.c)
FLOOR1  := $(wildcard dsl/plan.c dsl/answer_sample.c dsl/expr*.c dsl/template.c dsl/diag.c dsl/jsonschema*.c)
FLOOR2  := $(filter-out $(FLOOR1),$(wildcard dsl/*.c))
FLOOR3  := $(wildcard $(addprefix engine/,run.c group.c items.c standing.c retry.c outcome.c key.c render.c decision.c attempt.c task.c wait.c tick.c repin.c unknown.c ask.c answer.c approval.c rehearsal.c gate.c admit.c suspect.c)) compensations/undo.c
FLOOR4  := engine/forward.c $(filter-out $(FLOOR3),$(wildcard compensations/*.c))
FLOOR5  := $(wildcard engine/decide.c engine/verbs.c)
FLOOR6  := $(wildcard engine/runner.c engine/lane.c engine/children.c engine/gates.c engine/rehearsals.c engine/strays.c engine/tenants.c engine/log.c engine/tally.c engine/stub_*.c)
MAINS   := $(wildcard engine/sagad.c engine/sagactl.c engine/ctl_*.c)
FLOOR7  := $(filter-out $(FLOOR3) $(FLOOR4) $(FLOOR5) $(FLOOR6) $(MAINS),$(wildcard engine/*.c))
FLOORS  := 0 1 2 3 4 5 6 7

lib      = $(BUILD)/floor$(1).a
# The linker reads archives from the highest floor down.
libs_to  = $(foreach f,$(filter $(shell seq $(1) -1 0),7 6 5 4 3 2 1 0),$(call lib,$(f)))
LIBS_ALL = $(call libs_to,7)

all: $(BUILD)/sagad $(BUILD)/sagactl examples ## build sagad, sagactl and the example services

define floor_rule
$(call lib,$(1)): $(patsubst %.c,$(BUILD)/%.o,$(FLOOR$(1)))
	$$(call say,AR,$$@)
	$$(Q)rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach f,$(FLOORS),$(eval $(call floor_rule,$(f))))

$(BUILD)/%.o: %.c Makefile
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -c $< -o $@

$(BUILD)/sagad: $(BUILD)/engine/sagad.o $(LIBS_ALL)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/sagactl: $(BUILD)/engine/sagactl.o $(patsubst %.c,$(BUILD)/%.o,$(wildcard engine/ctl_*.c)) $(LIBS_ALL)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

include $(wildcard examples/*/*.mk sql/*.mk tests/*.mk tests/bench/*.mk)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

deps: ## install the Debian packages that building and the demo need and that are missing (root or sudo)
	$(Q)./examples/deps.sh

deps-check: ## the same, and what only the tests need
	$(Q)./examples/deps.sh check

demo: deps ## build, start everything on a private PostgreSQL, and watch sagas succeed, fail and walk back
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all
	$(Q)./examples/shop/demo.sh

check: deps-check ## run every test; ends with "N passed, N failed"
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) check-programs
	$(Q)BUILD=$(BUILD) tests/run

fmt: ## format the C sources
	$(Q)clang-format -i $$(git ls-files '*.c' '*.h')

clean: ## remove what was built
	rm -rf build build-*

help: ## this list
	$(Q)awk -F':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST) | sort

JOBS = $(shell nproc)

.DEFAULT_GOAL := all
.PHONY: all deps deps-check demo check check-programs fmt clean help examples
.SECONDARY:
