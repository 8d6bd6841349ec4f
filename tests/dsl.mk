# What is generated from the compiler: the reference, the editors' schema, the golden texts.

COMPILER_TESTS = $(BUILD)/tests/unit/2_compiler

update-reference: $(COMPILER_TESTS)/test_reference ## write dsl/workflow.schema.json and the tables of dsl/README.md
	$(Q)UPDATE=1 $(COMPILER_TESTS)/test_reference >/dev/null 2>&1; git diff --stat -- dsl

update-golden: $(COMPILER_TESTS)/test_golden ## write the compiler's expected texts anew; read the difference
	$(Q)UPDATE=1 $(COMPILER_TESTS)/test_golden >/dev/null 2>&1; git diff --stat -- tests/golden

fuzz: $(COMPILER_TESTS)/test_fuzz ## random workflow files for a while (FUZZ_SEED=n repeats)
	$(Q)seed=$${FUZZ_SEED:-$$(date +%s)}; for i in $$(seq 50); do \
	    FUZZ_SEED=$$((seed + i - 1)) FUZZ_COUNT=$${FUZZ_COUNT:-20000} $(COMPILER_TESTS)/test_fuzz || exit 1; done

.PHONY: fuzz update-reference update-golden
