# Builds the CUDA engine, a shared object, for devices with nvcc. tests/cuda/shim.mk builds it for the CPU.
# NVCC is the compiler, CUBLAS the folder above include/cublasLt.h, and CUDA_ARCHS the compute capabilities. Each of
# these variables may be set. Otherwise toolkit.sh finds the value on this machine when a target needs it.
toolkit     = $(shell NVCC='$(NVCC)' CUBLAS='$(CUBLAS)' engine/cuda/toolkit.sh $(1))
NVCC       ?= nvcc
CUBLAS     ?=
CUDA_ARCHS ?= $(eval CUDA_ARCHS := $$(call toolkit,archs))$(CUDA_ARCHS)
COMPILER    = $(eval COMPILER := $$(or $$(call toolkit,nvcc),$(NVCC)))$(COMPILER)
CUBLAS_AT   = $(eval CUBLAS_AT := $$(call toolkit,cublas))$(CUBLAS_AT)
CUBLAS_LT   = $(eval CUBLAS_LT := $$(call toolkit,library))$(CUBLAS_LT)
KERNELS    := $(sort $(shell find engine/cuda -name '*.cu'))

# The last capability is also compiled to PTX. The driver compiles PTX for later devices when the engine is loaded.
newest      = $(lastword $(CUDA_ARCHS))
GPU_CODE    = $(foreach arch,$(CUDA_ARCHS),-gencode arch=compute_$(arch),code=sm_$(arch)) \
              -gencode arch=compute_$(newest),code=compute_$(newest)
# A Python package with cuBLAS also contains headers of a CUDA runtime. With -idirafter, the toolkit has priority.
for_device  = $(COMPILER) -std=c++20 -O3 $(GPU_CODE) -I. -Xcompiler -idirafter,$(CUBLAS_AT)/include \
              -Xcompiler -fPIC,-fvisibility=hidden,-Werror=switch
nvcc        = $(say) $(for_device)

cuda: $(BUILD)/libengine_cuda.so ## [CI, where nvcc and cuBLAS are; by hand, last 2026-11-22] builds build/libengine_cuda.so with nvcc (CUDA 12.4 or later)
$(KERNELS:%.cu=$(BUILD)/%.o): $(BUILD)/%.o: %.cu $(BUILD)/flags_cuda
	$(nvcc) -MD -MP -c -o $@ $<
# At run time, the shared object also searches the folder of the linked cuBLAS, because the system may not search it.
$(BUILD)/libengine_cuda.so: $(KERNELS:%.cu=$(BUILD)/%.o)
	$(nvcc) -shared -cudart static -Xlinker --exclude-libs,ALL -o $@ $^ \
	    -Xlinker $(CUBLAS_LT) -Xlinker -rpath=$(abspath $(dir $(CUBLAS_LT)))
$(BUILD)/flags_cuda: FORCE
	@NVCC='$(NVCC)' CUBLAS='$(CUBLAS)' engine/cuda/toolkit.sh check
	$(call keep,$(for_device))

# clang is a second compiler. It checks syntax and types, and writes no objects. With --cuda-device-only it checks the
# functions for the host, too, except whether they call functions for the device. nvcc checks this. clang requires two
# headers that no kernel needs: one of cuRAND, and one that CUDA 13 lacks. Empty files replace these headers if they are
# missing. If cuBLAS is missing, the shim's header (tests/cuda/shim) is used.
CLANG       = $(eval CLANG := $$(call toolkit,clang))$(CLANG)
CUDA_FOLDER = $(eval CUDA_FOLDER := $$(call toolkit,folder))$(CUDA_FOLDER)
clang_cuda  = $(say) $(CLANG) -x cuda -std=c++20 -fsyntax-only --cuda-path=$(CUDA_FOLDER) --cuda-gpu-arch=sm_80 -nocudalib \
              -Wall -Wextra -Werror -Wno-unknown-cuda-version \
              -Wno-missing-field-initializers -I. -idirafter $(BUILD)/clang/include \
              $(addprefix -idirafter ,$(wildcard $(CUBLAS_AT)/include) tests/cuda/shim/cublas)
$(BUILD)/clang/%.checked: %.cu $(wildcard engine/*.h engine/*/*.h config/*.h)
	@mkdir -p $(dir $@) $(BUILD)/clang/include
	@touch $(addprefix $(BUILD)/clang/include/,curand_mtgp32_kernel.h texture_fetch_functions.h)
	$(clang_cuda) --cuda-device-only $<
	@touch $@
