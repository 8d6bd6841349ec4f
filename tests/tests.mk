# Unit tests live in tests/unit/FLOOR_name/test_*.c and link the archives up to their floor only.

CMOCKA_LIBS = $(shell pkg-config --libs cmocka)
UNIT_SRC   := $(wildcard tests/unit/*/test_*.c)
UNIT_BIN   := $(patsubst %.c,$(BUILD)/%,$(UNIT_SRC))
TEST_BIN    = $(UNIT_BIN) $(SIM_BIN) $(MATRIX_BIN) $(CONTRACT_BIN)

unit_floor  = $(firstword $(subst _, ,$(notdir $(patsubst %/,%,$(dir $(1))))))

define unit_rule
$(patsubst %.c,$(BUILD)/%,$(1)): $(patsubst %.c,$(BUILD)/%.o,$(1)) $(call libs_to,$(call unit_floor,$(1)))
	$$(call say,LD,$$@)
	$$(Q)$$(CC) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS) $$(CMOCKA_LIBS)
endef
$(foreach t,$(UNIT_SRC),$(eval $(call unit_rule,$(t))))

SIM_BIN    := $(BUILD)/tests/sim/test_sim
MATRIX_BIN := $(BUILD)/tests/matrix/test_matrix

# Other kinds of tests (sim, contract) link everything and what lies in tests/lib.
TESTLIB_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/lib/*.c))
CONTRACT_BIN := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/contract/test_*.c))
$(BUILD)/tests/contract/test_%: $(BUILD)/tests/contract/test_%.o $(TESTLIB_OBJ) $(LIBS_ALL)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS) $(CMOCKA_LIBS)

unit: $(UNIT_BIN) ## build and run the unit tests only
	$(Q)BUILD=$(BUILD) tests/run unit


.PHONY: unit

# The simulator: real core and runner, everything else simulated. SEED=n replays one world.
$(BUILD)/tests/sim/test_sim: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/sim/*.c)) $(call libs_to,6)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

sim: $(SIM_BIN) ## run the simulator (SEEDS=1000; SEED=n replays one world step by step)
	$(Q)$(SIM_BIN)

# The matrix: each fault at each tier, one by one, judged by a ledger. Also a part of make check.
$(BUILD)/tests/matrix/test_matrix: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/matrix/*.c)) $(call libs_to,6)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

matrix: $(MATRIX_BIN) ## play every tier, key, reconcile, fault, step and direction; writes tests/matrix/FIGURES.md
	$(Q)UPDATE=1 $(MATRIX_BIN)

.PHONY: matrix

# In pieces, side by side; every piece is played, also behind one that fails.
SIM_PIECES = 1 1001 2001 3001 4001 5001 6001 7001 8001 9001
sim-long: $(SIM_BIN) ## run the simulator over seeds 1 to 10,000
	$(Q)$(MAKE) --no-print-directory -k -j$(JOBS) $(addprefix sim-from-,$(SIM_PIECES))

sim-from-%: $(SIM_BIN)
	$(Q)FIRST=$* SEEDS=1000 nice -n 10 $(SIM_BIN)

.PHONY: sim sim-long

# The same tests under the sanitizers, in a folder of their own. Slow code is not what they look for,
# so the simulator plays fewer worlds.
ASAN_FLAGS = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
asan-run:
	$(Q)BUILD=$(BUILD) SEEDS=300 PATIENCE=$(or $(PATIENCE),3) EXCEPT=test_mutants ASAN_OPTIONS=detect_leaks=1 tests/run $(or $(ONLY),unit sim matrix contract golden sql e2e)

check-asan: deps-check ## run the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) BUILD=build-asan OPT='-O1 -g -Wno-format-truncation $(ASAN_FLAGS)' LDFLAGS='$(ASAN_FLAGS)' check-programs
	$(Q)$(MAKE) --no-print-directory BUILD=build-asan asan-run

.PHONY: asan-run check-asan

# Last: a prerequisite list is read when it is met.
check-programs: all $(TEST_BIN)
