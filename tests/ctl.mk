# The unit tests of sagactl's own files link them too: they are in no archive. Make names them after
# the archives, which the linker reads from left to right: so the archives come once more.
CTL_TEST_BIN := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/8_ctl/test_*.c))
$(CTL_TEST_BIN): $(patsubst %.c,$(BUILD)/%.o,$(wildcard engine/ctl_*.c))
$(CTL_TEST_BIN): CMOCKA_LIBS += $(LIBS_ALL) $(LDLIBS)
