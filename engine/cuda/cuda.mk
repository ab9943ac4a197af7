# The CUDA engine for devices, a shared object: nvcc compiles it. tests/cuda/shim.mk has it for the processor.
# NVCC, CUBLAS (the folder above include/cublasLt.h) and CUDA_ARCHS (compute capabilities) follow from what is installed,
# and each may be set. Nothing is asked before a target needs it.
toolkit     = $(shell NVCC='$(NVCC)' CUBLAS='$(CUBLAS)' engine/cuda/toolkit.sh $(1))
NVCC       ?= nvcc
CUBLAS     ?=
CUDA_ARCHS ?= $(eval CUDA_ARCHS := $$(call toolkit,archs))$(CUDA_ARCHS)
COMPILER    = $(eval COMPILER := $$(or $$(call toolkit,nvcc),$(NVCC)))$(COMPILER)
CUBLAS_AT   = $(eval CUBLAS_AT := $$(call toolkit,cublas))$(CUBLAS_AT)
CUBLAS_LT   = $(eval CUBLAS_LT := $$(call toolkit,library))$(CUBLAS_LT)
KERNELS    := $(sort $(shell find engine/cuda -name '*.cu'))

# The last capability also as PTX, which later devices compile for themselves when the engine is loaded.
newest      = $(lastword $(CUDA_ARCHS))
GPU_CODE    = $(foreach arch,$(CUDA_ARCHS),-gencode arch=compute_$(arch),code=sm_$(arch)) \
              -gencode arch=compute_$(newest),code=compute_$(newest)
# A Python package with cuBLAS has a runtime's headers, too: those of the toolkit come first.
for_device  = $(COMPILER) -std=c++20 -O3 $(GPU_CODE) -I. -Xcompiler -idirafter,$(CUBLAS_AT)/include \
              -Xcompiler -fPIC,-fvisibility=hidden,-Werror=switch
nvcc        = $(say) $(for_device)

cuda: $(BUILD)/libengine_cuda.so ## [CI, where nvcc and cuBLAS are; by hand, last 2026-11-22] builds build/libengine_cuda.so with nvcc (CUDA 12.4 or later)
$(KERNELS:%.cu=$(BUILD)/%.o): $(BUILD)/%.o: %.cu $(BUILD)/flags_cuda
	$(nvcc) -MD -MP -c -o $@ $<
# It looks for cuBLAS where it was linked with it, too: a toolkit's folder need not be one of the system's.
$(BUILD)/libengine_cuda.so: $(KERNELS:%.cu=$(BUILD)/%.o)
	$(nvcc) -shared -cudart static -Xlinker --exclude-libs,ALL -o $@ $^ \
	    -Xlinker $(CUBLAS_LT) -Xlinker -rpath=$(abspath $(dir $(CUBLAS_LT)))
$(BUILD)/flags_cuda: FORCE
	@NVCC='$(NVCC)' CUBLAS='$(CUBLAS)' engine/cuda/toolkit.sh check
	$(call keep,$(for_device))

# clang as a second compiler. It checks syntax and types, of the code for the device and of that for the host, and emits
# nothing. It wants two headers of which no kernel needs anything: one of cuRAND, and one that CUDA 13 lacks. If cuBLAS is
# missing, the shim's header takes its place.
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
	$(clang_cuda) --cuda-host-only $<
	@touch $@
