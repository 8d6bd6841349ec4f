# The services of the shop: examples/shop/README.md.

SHOP_BIN := $(addprefix $(BUILD)/examples/shop/,inventory payments mail)

$(SHOP_BIN): $(BUILD)/examples/shop/%: $(BUILD)/examples/shop/%.o \
    $(BUILD)/examples/shop/service.o $(BUILD)/examples/shop/effects.o $(call libs_to,0)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

examples: $(SHOP_BIN)
