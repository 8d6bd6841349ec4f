# Not tests: they print numbers. tests/bench/README.md says how to read them.

BENCH_LIB := $(BUILD)/tests/bench/wire.o
BENCH_BIN := $(BUILD)/tests/bench/floor $(BUILD)/tests/bench/load

$(BENCH_BIN): %: %.o $(BENCH_LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

bench: all $(BENCH_BIN) ## measure the engine against the floor: throughput, latency, WAL, memory (2 minutes)
	$(Q)BUILD=$(BUILD) tests/bench/bench.py $(BENCH)

.PHONY: bench

$(BUILD)/tests/bench/bench_decide: $(BUILD)/tests/bench/bench_decide.o $(call libs_to,5)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

bench-decide: $(BUILD)/tests/bench/bench_decide ## what a decision costs early and late in long runs, and what items cost in memory
	$(Q)$<

.PHONY: bench-decide
