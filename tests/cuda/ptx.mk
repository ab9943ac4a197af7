# The CUDA engine as nvcc compiles it, on a machine without a GPU. The engine's host code calls the runtime and the
# cuBLASLt of the shim (tests/cuda/shim), which are compiled with NVIDIA's headers. The PTX emulator (tests/cuda/ptx)
# executes the engine's kernels. The test programs of tests/cuda are hard-linked into the engine's folder.
PTX          := $(BUILD)/tests/cuda/ptx
PTX_OF       := $(KERNELS:engine/cuda/%.cu=$(PTX)/engine/%.o)
PTX_SHIM     := $(patsubst tests/cuda/shim/%.cpp,$(PTX)/shim/%.o,$(filter-out %/threads.cpp,$(wildcard tests/cuda/shim/*.cpp)))
PTX_RUNTIME  := $(PTX_SHIM) $(PTX)/registration.o $(EMULATOR)

# Test programs that run with this engine. NAME@ptx is the program NAME with this engine.
PTX_CUDA     := $(foreach dtype,cuda bf16 f16 tf32,test_operations_$(dtype) test_cases_$(dtype)) test_operations_plain \
                test_states test_parts_cuda test_fusion test_top_k test_execution test_modules_cuda test_modules_bf16 test_product_method test_chips \
                test_faults_products
PTX_KERNELS  := test_tensor test_split # programs with their own kernels
PTX_HTTP     := $(BUILD)/tests/http/test_generate $(BUILD)/tests/http/test_reference
PTX_LINKED   := $(addprefix $(PTX)/,$(PTX_CUDA) linformerd libcuda.so.1 $(CUBLAS_NAMES))
PTX_BUILT    := $(PTX)/libengine_cuda.so $(PTX_KERNELS:%=$(PTX)/%) $(PTX_LINKED) $(PTX_HTTP)
EMULATED     := $(patsubst %,$(BUILD)/tests/cuda/%@ptx,$(PTX_CUDA) $(PTX_KERNELS)) $(PTX_HTTP:%=%@ptx)
# The programs that `make test-all` runs. test_cases_bf16 takes 8 seconds of processor time.
EMULATED_SHORT := $(patsubst %,$(BUILD)/tests/cuda/test_%@ptx,cases_cuda cases_bf16 cases_f16 cases_tf32 tensor fusion top_k)

# The object files contain only PTX, because the emulator needs no machine code. The PTX is not compressed, so that
# mutants.py and test_entries.sh can read it. The engine is compiled without -O3, because -O3 affects only host code and
# does not change the PTX.
PTX_ARCH     := 90
for_emulator  = $(COMPILER) -std=c++20 -gencode arch=compute_$(PTX_ARCH),code=compute_$(PTX_ARCH) -no-compress -I. -Itests/cuda/shim/cublas \
                -Xcompiler -fPIC,-fvisibility=hidden,-Werror=switch
emulated      = $(say) $(for_emulator) -MD -MP

$(PTX_OF): $(PTX)/engine/%.o: engine/cuda/%.cu tests/cuda/shim/small_limits.h $(PTX)/flags
	$(emulated) -include tests/cuda/shim/small_limits.h -c -o $@ $<
$(PTX_SHIM): $(PTX)/shim/%.o: tests/cuda/shim/%.cpp $(PTX)/flags
	$(emulated) -O3 -c -o $@ $<
$(PTX)/registration.o: tests/cuda/ptx/registration.cpp $(PTX)/flags
	$(emulated) -c -o $@ $<
$(PTX)/libengine_cuda.so: $(PTX_OF) $(PTX_RUNTIME)
	$(say) $(CXX) -shared -pthread -o $@ $^ $(EMULATOR_LIBS) $(BESIDE)
$(PTX_KERNELS:%=$(PTX)/%.o): $(PTX)/%.o: tests/cuda/%.cu $(PTX)/flags
	$(emulated) -c -o $@ $<
$(PTX_KERNELS:%=$(PTX)/%): %: %.o $(PTX_RUNTIME) $(BUILD)/tests/filter.o
	$(say) $(CXX) -pthread -o $@ $^ $(EMULATOR_LIBS) -lcmocka $(BESIDE)
$(PTX_LINKED): $(PTX)/%: $(BUILD)/tests/cuda/% # a hard link, because $ORIGIN resolves symbolic links
	$(say) ln -f $< $@
$(PTX)/flags: FORCE
	$(call keep,$(for_emulator))

# The engine for other compute capabilities. NAME@ptx120 is the program NAME with the engine for 12.0. The programs in
# PTX_OTHER_CUDA launch each kernel that the engine launches. `make test-ptx` runs these programs for the capabilities
# in PTX_OTHERS. The PTX for 10.0 equals the PTX for 12.0. The PTX for 8.0 differs from the PTX for 9.0 only in a
# conversion from bf16.
PTX_OTHERS     ?= 120
PTX_OTHER_CUDA := $(filter test_operations_% test_cases_%,$(PTX_CUDA)) test_states test_product_method test_chips \
                  test_faults_products
other_object    = $(patsubst engine/cuda/%.cu,$(PTX)/$(1)/engine/%.o,$(KERNELS))
other_linked    = $(addprefix $(PTX)/$(1)/,$(PTX_OTHER_CUDA) linformerd libcuda.so.1 $(CUBLAS_NAMES))
other_tests     = $(patsubst %,$(BUILD)/tests/cuda/%@ptx$(1),$(PTX_OTHER_CUDA))
define ptx_other
$(PTX)/$(1)/%: private PTX_ARCH := $(1)
$(call other_object,$(1)): $(PTX)/$(1)/engine/%.o: engine/cuda/%.cu tests/cuda/shim/small_limits.h $(PTX)/flags
	$$(emulated) -include tests/cuda/shim/small_limits.h -c -o $$@ $$<
$(PTX)/$(1)/libengine_cuda.so: $(call other_object,$(1)) $(PTX_RUNTIME)
	$$(say) $(CXX) -shared -pthread -o $$@ $$^ $(EMULATOR_LIBS) $(BESIDE)
$(call other_linked,$(1)): $(PTX)/$(1)/%: $(BUILD)/tests/cuda/%
	$$(say) ln -f $$< $$@
programs-ptx$(1):
	@mkdir -p $(PTX)/$(1)
	@export NVCC='$(NVCC)'; if ! engine/cuda/toolkit.sh check-compiler >$(PTX)/$(1)/missing; then :; \
	elif ! engine/cuda/toolkit.sh archs | grep -qw $(1); then \
	    echo "nvcc does not compile for compute capability $(1)" >$(PTX)/$(1)/missing; \
	else $$(MAKE) --no-print-directory $(PTX)/$(1)/libengine_cuda.so $(call other_linked,$(1)); fi
.PHONY: programs-ptx$(1)
endef
$(foreach arch,80 100 120,$(eval $(call ptx_other,$(arch))))
EMULATED_OTHER := $(foreach arch,$(PTX_OTHERS),$(call other_tests,$(arch)))

# The engine that `make cuda` builds for users. It contains NVIDIA's runtime. NAME@shipped is the program NAME with this
# engine. Instead of NVIDIA's cuBLASLt, the engine loads a library with the shim's runtime, the shim's cuBLASLt and the
# emulator (shipped/redirect.cpp). SHIPPED_CUDA lists programs that do not depend on the limits in shim/small_limits.h.
SHIPPED        := $(PTX)/shipped
SHIPPED_CUDA   := $(foreach dtype,cuda bf16 f16 tf32,test_cases_$(dtype)) test_chips test_fusion test_top_k
SHIPPED_HTTP   := $(BUILD)/tests/http/test_reference
SHIPPED_BUILT  := $(SHIPPED)/libcublasLt.so $(addprefix $(SHIPPED)/,$(SHIPPED_CUDA) linformerd libcuda.so.1) $(SHIPPED_HTTP)
SHIPPED_TESTS  := $(patsubst %,$(BUILD)/tests/cuda/%@shipped,$(SHIPPED_CUDA)) $(SHIPPED_HTTP:%=%@shipped)
# The programs that `make test-all` runs, with an engine for only the newest capability. tests/check/cuda.sh also
# compiles this engine.
SHIPPED_SHORT  := $(patsubst %,$(BUILD)/tests/cuda/test_%@shipped,cases_bf16 top_k)
SHIPPED_NEWEST := $(BUILD)/check_cuda/libengine_cuda.so
SHIPPED_ENGINE := $(BUILD)/libengine_cuda.so

$(SHIPPED_NEWEST): FORCE
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/check_cuda CUDA_ARCHS=$(newest) $@
$(SHIPPED)/redirect.o: tests/cuda/ptx/shipped/redirect.cpp $(PTX)/flags
	$(emulated) -c -o $@ $<
$(SHIPPED)/libcublasLt.so: $(SHIPPED)/redirect.o $(PTX_RUNTIME)
	$(say) $(CXX) -shared -pthread -o $@ $^ $(EMULATOR_LIBS)
$(addprefix $(SHIPPED)/,$(SHIPPED_CUDA) linformerd libcuda.so.1): $(SHIPPED)/%: $(BUILD)/tests/cuda/%
	$(say) ln -f $< $@

# If nvcc is missing, the file `missing` contains the reason. tests/run.sh skips the programs and prints the reason.
programs-ptx:
	@mkdir -p $(PTX)
	@if NVCC='$(NVCC)' engine/cuda/toolkit.sh check-compiler >$(PTX)/missing; \
	    then $(MAKE) --no-print-directory $(PTX_BUILT); fi
# Builds the programs NAME@shipped, if the machine is an x86-64 and has nvcc and cuBLAS. The engine's dynamic section
# names the version of cuBLASLt that it loads. cuBLAS has the same version.
programs-shipped:
	@mkdir -p $(SHIPPED)
	@if [ "$$(uname -m)" != x86_64 ]; then echo "calls are redirected on x86-64 alone" >$(SHIPPED)/missing; \
	elif NVCC='$(NVCC)' CUBLAS='$(CUBLAS)' engine/cuda/toolkit.sh check >$(SHIPPED)/missing; then \
	    $(MAKE) --no-print-directory $(SHIPPED_ENGINE) $(SHIPPED_BUILT) && \
	    ln -f $(SHIPPED_ENGINE) $(SHIPPED)/libengine_cuda.so && \
	    name=$$(readelf -d $(SHIPPED_ENGINE) | grep -o 'libcublasLt\.so[.0-9]*') && \
	    ln -sf libcublasLt.so $(SHIPPED)/$$name && ln -sf libcublasLt.so $(SHIPPED)/libcublas.$${name#*.}; fi
