# Not a test: prints numbers.

$(BUILD)/tests/bench/bench_invoke: $(BUILD)/tests/bench/bench_invoke.o $(BUILD)/tests/lib/fake_invoke.o $(LIBS_ALL)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

bench-invoke: $(BUILD)/tests/bench/bench_invoke ## requests per second of the HTTP invoker on loopback
	$(Q)$<

.PHONY: bench-invoke
