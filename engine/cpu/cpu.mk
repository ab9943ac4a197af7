# On x86-64, the loops that are faster with wide registers are compiled once for each instruction set in VECTORS. The
# daemon chooses one set when it starts. Other machines use the baseline only. vector_product.c is only for avx512_bf16.
ifneq ($(filter x86_64-%,$(shell $(CC) -dumpmachine 2>/dev/null)),)
VECTORS := avx512_bf16 avx512 avx2 baseline
PRODUCT := engine/cpu/vector_product_avx512_bf16.c
else
VECTORS := baseline
DEFINES := -DVECTOR_BASELINE_ONLY
endif
WIDE    := engine/cpu/vector_rows.c engine/cpu/vector_combine.c engine/cpu/vector_columns.c \
           engine/cpu/vector_attend.c engine/cpu/vector_product.c
# Source names for the list of objects. For example, vector_rows_avx2.c stands for vector_rows.c compiled for AVX2.
WIDE_SOURCES := $(foreach wide,$(filter-out %_product.c,$(WIDE)),$(VECTORS:%=$(wide:.c=)_%.c)) $(PRODUCT)

# The thread sanitizer does not check these loops. In its build, only one thread runs them, because OpenMP's runtime is
# not instrumented.
ifeq ($(SANITIZE),thread)
$(WIDE_SOURCES:%.c=$(BUILD)/%.o): private SANITIZER :=
endif

define compile-wide
$(VECTORS:%=$(BUILD)/$(1)_%.o): $(BUILD)/$(1)_%.o: $(1).c $(BUILD)/flags
	$$(compile) -O3 $$(MARCH) -DVECTOR_VARIANT=$$* -c -o $$@ $$<
endef
$(foreach wide,$(WIDE:.c=),$(eval $(call compile-wide,$(wide))))
$(BUILD)/%_avx512_bf16.o: MARCH := -march=x86-64-v4 -mavx512bf16
$(BUILD)/%_avx512.o: MARCH := -march=x86-64-v4
$(BUILD)/%_avx2.o: MARCH := -march=x86-64-v3
