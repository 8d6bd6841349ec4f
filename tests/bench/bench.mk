# Not tests: they print numbers. tests/bench/README.md says how to read them.

BENCH_LIB := $(BUILD)/tests/bench/wire.o
BENCH_BIN := $(BUILD)/tests/bench/floor $(BUILD)/tests/bench/load

$(BENCH_BIN): %: %.o $(BENCH_LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

bench: all $(BENCH_BIN) ## measure the engine against the floor: throughput, latency, WAL, memory (2 minutes)
	$(Q)BUILD=$(BUILD) tests/bench/bench.py $(BENCH)

.PHONY: bench
