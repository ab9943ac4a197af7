# The test that compares the layouts of matrix fragments (engine/cuda/tensor.h) with those of NVIDIA's library CuTe.
# cute.sh downloads CuTe's headers into the folder CUTE. CuTe also includes headers of the CUDA runtime.
CUTE      := $(BUILD)/fragments
FRAGMENTS := $(BUILD)/tests/cuda/test_fragments
LAYOUTS   := $(BUILD)/tests/cuda/fragments/layouts.o
FRAGMENTS_AT := tests/cuda/fragments/test_fragments.cu

$(LAYOUTS): tests/cuda/fragments/layouts.cpp $(BUILD)/flags
	$(say) $(CXX) -std=c++17 -Wall -Wextra -fPIC -isystem $(CUTE)/cutlass -isystem $(CUTE)/cuda -isystem $(CUTE)/cuda/cccl -I. $(WERROR) -MMD -MP -c -o $@ $<
$(FRAGMENTS): $(FRAGMENTS_AT) $(LAYOUTS) $(SHIM_OWN) $(BUILD)/tests/filter.o
	$(say) $(CXX) $(SHIM_FLAGS) $(KERNEL_SANITIZER) -MF $@.d -o $@ -x c++ $< -x none $(filter %.o,$^) -lcmocka $(BESIDE)
$(PTX)/test_fragments.o: $(FRAGMENTS_AT) $(PTX)/flags
	$(emulated) -c -o $@ $<
$(PTX)/test_fragments: $(PTX)/test_fragments.o $(LAYOUTS) $(PTX_RUNTIME) $(BUILD)/tests/filter.o
	$(say) $(CXX) -pthread -o $@ $^ $(EMULATOR_LIBS) -lcmocka $(BESIDE)
