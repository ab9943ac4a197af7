# The PTX emulator and its tests. The compiler vectorises the emulator's loops over 32 lanes, but must not change their
# results. For example, it must not fuse a product and a sum into one instruction, which rounds only once
# (-ffp-contract=off). With a sanitizer, the short tests do not need an optimised emulator.
EMULATOR       := $(patsubst %.cpp,$(BUILD)/%.o,$(filter-out tests/cuda/ptx/test_% %/registration.cpp,$(wildcard tests/cuda/ptx/*.cpp)))
EMULATOR_TESTS := $(patsubst %.cpp,$(BUILD)/%,$(wildcard tests/cuda/ptx/test_*.cpp))
EMULATOR_FLAGS  = -std=c++20 -Wall -Wextra -Werror=switch -Wno-missing-field-initializers $(CFLAGS) \
                  $(if $(SANITIZE),-O0,-O3) -march=native -ffp-contract=off -fno-trapping-math -fno-math-errno -fno-strict-aliasing -fPIC -fvisibility=hidden -I. \
                  $(SANITIZER) $(WERROR) -MMD -MP
EMULATOR_LIBS  := -lzstd # decompresses PTX

$(EMULATOR) $(EMULATOR_TESTS:%=%.o): $(BUILD)/%.o: %.cpp $(BUILD)/flags
	$(say) $(CXX) $(EMULATOR_FLAGS) -c -o $@ $<
$(EMULATOR_TESTS): %: %.o $(EMULATOR) $(BUILD)/tests/filter.o
	$(say) $(CXX) $(SANITIZER) -o $@ $^ $(EMULATOR_LIBS) -lcmocka
