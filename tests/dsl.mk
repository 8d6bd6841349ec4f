# What the language's table generates, and the golden texts of the compiler.

update-golden: $(BUILD)/tests/unit/2_compiler/test_golden ## write the compiler's expected texts anew; read the diff
	$(Q)UPDATE=1 $(BUILD)/tests/unit/2_compiler/test_golden >/dev/null; git diff --stat -- tests/golden

.PHONY: update-golden
