# The CUDA engine on the CPU. g++ compiles the kernels with the shim, which is a replacement of CUDA in tests/cuda/shim.
# The engine is a library in the folder of the test programs.
# Replacements of cuBLAS, for an engine compiled with CUDA 12 or 13. The engine loads one of them, and finds the shim's
# functions in it.
CUBLAS_NAMES := libcublas.so.12 libcublas.so.13
SHIM       := $(addprefix $(BUILD)/tests/cuda/,libengine_cuda.so libcuda.so.1 $(CUBLAS_NAMES) linformerd)
# Reduces limits of the engine, so that tests reach them. If SHIM_LIMITS is empty, the engine has the same limits as on
# a GPU. tests/gpu/predict.py needs the limits of a GPU.
SHIM_LIMITS ?= -include tests/cuda/shim/small_limits.h
SHIM_OWN   := $(patsubst %.cpp,$(BUILD)/%.o,$(wildcard tests/cuda/shim/*.cpp))
SHIM_OF    := $(KERNELS:engine/cuda/%.cu=$(BUILD)/tests/cuda/shim/engine/%.o)
BESIDE     := -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN'

# The thread sanitizer instruments the kernels, but not the shim.
SHIM_FLAGS  = -std=c++20 -Wall -Wextra -Werror=switch -Wno-missing-field-initializers -Wno-unknown-pragmas \
              -fno-strict-aliasing $(CFLAGS) -fPIC -fvisibility=hidden -Itests/cuda/shim \
              -Itests/cuda/shim/cublas -I. $(WERROR) -MMD -MP
ifeq ($(SANITIZE),thread)
OWN_SANITIZER    := -DSHIM_TSAN
KERNEL_SANITIZER := $(SANITIZER)
else ifeq ($(SANITIZE),address)
KERNEL_SANITIZER := $(SANITIZER) -fsanitize-sections=shared_memory
KERNEL_SANITIZER += --param asan-use-after-return=0 # each fiber would map a fake stack
OWN_SANITIZER    := $(KERNEL_SANITIZER)
# The address sanitizer finds a wrong address without these checks, and the PTX emulator finds a wrong alignment. gcc
# takes 130 seconds of processor time for the engine with these checks, and 75 seconds without them.
KERNEL_SANITIZER += -fno-sanitize=null,alignment,object-size,pointer-overflow,vptr
endif

$(SHIM_OWN): $(BUILD)/%.o: %.cpp $(BUILD)/flags
	$(say) $(CXX) $(SHIM_FLAGS) $(OWN_SANITIZER) -c -o $@ $<
$(SHIM_OF): $(BUILD)/tests/cuda/shim/engine/%.o: engine/cuda/%.cu tests/cuda/shim/small_limits.h $(BUILD)/flags
	$(say) $(CXX) $(SHIM_FLAGS) $(SHIM_LIMITS) $(KERNEL_SANITIZER) -x c++ -c -o $@ $<
$(BUILD)/tests/cuda/libengine_cuda.so: $(SHIM_OF) $(SHIM_OWN)
	$(say) $(CXX) $(SANITIZER) -shared -o $@ $^ $(BESIDE)
$(CUBLAS_NAMES:%=$(BUILD)/tests/cuda/%): $(BUILD)/tests/cuda/libengine_cuda.so
	$(say) $(CC) $(SANITIZER) -shared -o $@ -x c /dev/null -Wl,--no-as-needed -L$(@D) -l:libengine_cuda.so $(BESIDE)
$(BUILD)/tests/cuda/libcuda.so.1: $(BUILD)/flags # replaces the driver's library, which the engine looks for
	$(say) $(CC) $(SANITIZER) -shared -Wl,-soname,libcuda.so.1 -o $@ -x c /dev/null
$(BUILD)/tests/cuda/linformerd: $(BUILD)/server/main.o $(ARCHIVES) # the daemon, in the same folder
	$(link) -o $@ $^ $(LDLIBS) $(BESIDE)

# Tests with their own kernels. Each test is linked with the shim into one program.
KERNEL_TESTS := $(BUILD)/tests/cuda/test_tensor $(BUILD)/tests/cuda/test_split $(BUILD)/tests/cuda/test_shim
$(KERNEL_TESTS): $(BUILD)/%: %.cu $(SHIM_OWN) $(BUILD)/tests/filter.o
	$(say) $(CXX) $(SHIM_FLAGS) $(KERNEL_SANITIZER) -MF $@.d -o $@ -x c++ $< -x none $(filter %.o,$^) -lcmocka $(BESIDE)

# Tests that also run on a GPU. The rule below compiles them with nvcc, only to test the compilation. On the machine
# with the GPU, they are compiled again and linked with cmocka from the archive of tests/gpu/bundle.sh.
DEVICE_TESTS := $(BUILD)/tests/cuda/test_tensor $(BUILD)/tests/cuda/test_split
$(DEVICE_TESTS:%=%_device.o): $(BUILD)/%_device.o: %.cu $(BUILD)/flags_cuda
	$(nvcc) -MD -MP -c -o $@ $<
