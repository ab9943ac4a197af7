# linformerd. `make help` lists the targets; README.md says more about each.
# Variables: CC CXX CFLAGS LDFLAGS BUILD SANITIZE=address|thread|fuzzer ARGS PREFIX DESTDIR FUZZ_SECONDS COUNT SEED V=1;
# of `make cuda`: NVCC, CUBLAS (the folder above cublasLt.h's), CUDA_ARCHS
CFLAGS       ?= -O2 -g
PREFIX       ?= /usr/local
FUZZ_SECONDS ?= 60

# make's own default is "cc" and one job at a time. A -j on the command line wins over this one.
ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

# ---- Flags. A sanitizer has a build folder of its own, beside the plain one.
ifneq ($(findstring address,$(SANITIZE)),)
BUILD    ?= build/asan
SANITIZER := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
else ifneq ($(findstring thread,$(SANITIZE)),)
BUILD    ?= build/tsan
SANITIZER := -fsanitize=thread -fno-omit-frame-pointer
else ifneq ($(findstring fuzzer,$(SANITIZE)),)
BUILD    ?= build/fuzz
SANITIZER := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
else ifneq ($(SANITIZE),)
$(error SANITIZE is address, thread or fuzzer)
endif
BUILD    ?= build

PKGS      := libmicrohttpd jansson zlib
WARNINGS  := -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror=switch
MACHINE   := $(shell $(CC) -dumpmachine 2>/dev/null)
ALL_CFLAGS = -std=gnu11 $(WARNINGS) $(CFLAGS) -fopenmp -pthread -I. $(SANITIZER) $(DEFINES) $(PKG_CFLAGS)
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LDLIBS    := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -ldl

# engine/cpu/vector_rows.c and vector_attend.c hold the loops that gain from wide registers; they are compiled once for each
# width, and the daemon chooses when it starts. Other machines have the baseline only. vector_product.c is for bf16.
ifneq ($(filter x86_64-%,$(MACHINE)),)
VECTORS   := avx512_bf16 avx512 avx2 baseline
PRODUCT   := engine/cpu/vector_product_avx512_bf16.c
else
VECTORS   := baseline
DEFINES   := -DVECTOR_BASELINE_ONLY
endif
WIDE      := engine/cpu/vector_rows.c engine/cpu/vector_attend.c engine/cpu/vector_product.c

# ---- Sources, at any depth. One archive a top folder, linked in this order: the linker, too, sees that nothing points
# backwards.
ROOMS     := server engine weights config
sources_in = $(sort $(shell find $(1) -name '*.[cS]'))
SOURCES   := $(filter-out server/main.c $(WIDE),$(call sources_in,$(ROOMS)))
SOURCES   += $(foreach wide,$(filter-out %_product.c,$(WIDE)),$(VECTORS:%=$(wide:.c=)_%.c)) $(PRODUCT)
objects    = $(patsubst %,$(BUILD)/%.o,$(basename $(1)))
ARCHIVES  := $(ROOMS:%=$(BUILD)/%.a)
HELPERS   := $(BUILD)/tests/unit.a $(BUILD)/tests/http.a

# One word a file; V=1 shows the whole commands.
say        = @mkdir -p $(@D); $(if $(V),set -x,echo "  $@");
compile    = $(say) $(CC) $(ALL_CFLAGS) $(WERROR) -MMD -MP
link       = $(say) $(CC) $(ALL_CFLAGS) $(LDFLAGS) $(EXPORTS)

# What the CUDA engine, a shared object, takes from the program that loads it.
EXPORTS   := -Wl,--export-dynamic-symbol=padder_* -Wl,--export-dynamic-symbol=plan_convolved \
             -Wl,--export-dynamic-symbol=operation_name -Wl,--export-dynamic-symbol=error_set

all: $(BUILD)/linformerd ## builds build/linformerd

$(BUILD)/linformerd: $(BUILD)/server/main.o $(ARCHIVES)
	$(link) -o $@ $^ $(LDLIBS)

# A source that went away leaves its archive, too: the list of members is a file that changes with it.
$(foreach room,$(ROOMS),$(eval $(BUILD)/$(room).a: $(call objects,$(filter $(room)/%,$(SOURCES)))))
$(ARCHIVES) $(HELPERS): %.a: %.members
	@rm -f $@
	@$(AR) rcs $@ $(filter %.o,$^)
$(BUILD)/%.members: FORCE
	@mkdir -p $(@D)
	@echo '$(call sources_in,$*)' | cmp -s - $@ || echo '$(call sources_in,$*)' >$@

$(BUILD)/%.o: %.c $(BUILD)/flags
	$(compile) -c -o $@ $<

$(BUILD)/%.o: %.S $(BUILD)/flags
	$(compile) -c -o $@ $<

$(BUILD)/weights/builtin.o: weights/builtin/config.json weights/builtin/model.safetensors

define compile-wide
$(VECTORS:%=$(BUILD)/$(1)_%.o): $(BUILD)/$(1)_%.o: $(1).c $(BUILD)/flags
	$$(compile) -O3 $$(MARCH) -DVECTOR_VARIANT=$$* -c -o $$@ $$<
endef
$(foreach wide,$(WIDE:.c=),$(eval $(call compile-wide,$(wide))))
$(BUILD)/%_avx512_bf16.o: MARCH := -march=x86-64-v4 -mavx512bf16
$(BUILD)/%_avx512.o: MARCH := -march=x86-64-v4
$(BUILD)/%_avx2.o: MARCH := -march=x86-64-v3

# What was built with other flags is built again; and a missing library is told once, not by each file.
$(BUILD)/flags: FORCE
	@pkg-config --print-errors --exists $(PKGS) || { echo "'docker/packages.sh build' installs what is missing"; exit 1; }
	@mkdir -p $(@D)
	@echo '$(CC) $(ALL_CFLAGS) $(WERROR)' | cmp -s - $@ || echo '$(CC) $(ALL_CFLAGS) $(WERROR)' >$@

# ---- The CUDA engine. nvcc compiles it for devices; for tests g++ does, for the shim, and puts it beside its tests.
NVCC       ?= nvcc
CUBLAS     ?= $(patsubst %/bin/,%,$(dir $(realpath $(shell command -v $(NVCC)))))
CUBLAS_LT   = $(firstword $(wildcard $(CUBLAS)/lib*/libcublasLt.so*))
CUDA_ARCHS ?= 80 90
KERNELS    := $(wildcard engine/cuda/*.cu)
SHIM       := $(BUILD)/tests/cuda/libengine_cuda.so $(BUILD)/tests/cuda/libcuda.so.1 $(BUILD)/tests/cuda/linformerd
CXXFLAGS_SHIM = -std=c++20 -Wall -Wextra -Werror=switch -Wno-missing-field-initializers -Wno-unknown-pragmas -fno-strict-aliasing $(CFLAGS) -fPIC \
                -fvisibility=hidden -Itests/cuda/shim -I.
GPU_CODE   := $(foreach arch,$(CUDA_ARCHS),-gencode arch=compute_$(arch),code=sm_$(arch))
GPU_CODE   += -gencode arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS))
# A Python package with cuBLAS has a runtime's headers, too: those of the toolkit come first.
for_device  = $(NVCC) -std=c++20 -O3 $(GPU_CODE) -I. -Xcompiler -idirafter,$(CUBLAS)/include \
              -Xcompiler -fPIC,-fvisibility=hidden,-Werror=switch
nvcc        = $(say) $(for_device)

# The engine looks for cuBLAS where it was linked with it, too: a toolkit's folder need not be one of the system's.
cuda: $(BUILD)/libengine_cuda.so ## builds build/libengine_cuda.so, the CUDA engine, with nvcc (CUDA 13)
$(BUILD)/libengine_cuda.so: $(KERNELS:%.cu=$(BUILD)/%.o)
	$(nvcc) -shared -cudart static -Xlinker --exclude-libs,ALL -o $@ $^ \
	    -Xlinker $(or $(CUBLAS_LT),-lcublasLt) $(if $(CUBLAS_LT),-Xlinker -rpath=$(abspath $(dir $(CUBLAS_LT))))
$(KERNELS:%.cu=$(BUILD)/%.o): $(BUILD)/%.o: %.cu $(BUILD)/flags_cuda
	$(nvcc) -MD -MP -c -o $@ $<
# For tests/check/cuda.sh, where there is no archive of check.sh's to link it with.
$(BUILD)/tests/cuda/test_tensor_device.o: tests/cuda/test_tensor.cu $(BUILD)/flags_cuda
	$(nvcc) -MD -MP -c -o $@ $<
$(BUILD)/flags_cuda: FORCE
	@mkdir -p $(@D)
	@echo '$(for_device)' | cmp -s - $@ || echo '$(for_device)' >$@

# The thread sanitizer is not for the shim's own memory, and looks at the kernels'.
SHIM_OWN   := $(patsubst %.cpp,$(BUILD)/%.o,$(wildcard tests/cuda/shim/*.cpp))
SHIM_OF    := $(KERNELS:engine/cuda/%.cu=$(BUILD)/tests/cuda/shim/engine/%.o)
ifneq ($(findstring address,$(SANITIZE)),)
SHIM_SANITIZER := -fsanitize-sections=shared_memory --param asan-use-after-return=0 # each fiber would map a stack for it
endif
$(SHIM_OWN): $(BUILD)/%.o: %.cpp $(BUILD)/flags
	$(say) $(CXX) $(CXXFLAGS_SHIM) $(if $(findstring thread,$(SANITIZE)),-DSHIM_TSAN,$(SANITIZER) $(SHIM_SANITIZER)) $(WERROR) -MMD -MP -c -o $@ $<
$(SHIM_OF): $(BUILD)/tests/cuda/shim/engine/%.o: engine/cuda/%.cu tests/cuda/shim/small_limits.h $(BUILD)/flags
	$(say) $(CXX) $(CXXFLAGS_SHIM) -include tests/cuda/shim/small_limits.h $(SANITIZER) $(SHIM_SANITIZER) $(WERROR) -MMD -MP -x c++ -c -o $@ $<
$(BUILD)/tests/cuda/libengine_cuda.so: $(SHIM_OF) $(SHIM_OWN)
	$(say) $(CXX) $(SANITIZER) -shared -o $@ $^
KERNEL_TESTS := $(BUILD)/tests/cuda/test_tensor $(BUILD)/tests/cuda/test_shim # of one piece with the shim
$(KERNEL_TESTS): $(BUILD)/%: %.cu $(SHIM_OWN)
	$(say) $(CXX) $(CXXFLAGS_SHIM) $(SANITIZER) $(SHIM_SANITIZER) $(WERROR) -MMD -MP -MF $@.d -o $@ -x c++ $< -x none $(SHIM_OWN) \
	    -lcmocka -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN'
$(BUILD)/tests/cuda/libcuda.so.1: $(BUILD)/flags # stands for the driver, which is looked for
	$(say) $(CC) $(SANITIZER) -shared -Wl,-soname,libcuda.so.1 -o $@ -x c /dev/null
$(BUILD)/tests/cuda/linformerd: $(BUILD)/server/main.o $(ARCHIVES) # the daemon, beside them
	$(link) -o $@ $^ $(LDLIBS) -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN'

.SECONDEXPANSION:
# ---- Tests. Each program runs alone; tests/run.sh adds up what they count.
TESTS     := $(wildcard tests/unit/test_*.c tests/reference/test_*.c tests/cuda/test_*.c tests/http/test_*.c)
FUZZERS   := $(wildcard tests/fuzz/fuzz_*.c)
BENCHES   := $(wildcard tests/bench/*.c)
comma      := ,
programs   = $(patsubst %.c,$(BUILD)/%,$(1))
HTTP      := $(call programs,$(filter tests/http/%,$(TESTS)))
SERVED    := $(patsubst %,$(BUILD)/tests/http/test_%@cuda,batches embed health logits openai reference v2)
FAKES     := $(call programs,$(filter %_fake.c,$(TESTS)))
ALLOCS    := $(call programs,$(filter %_alloc.c,$(TESTS)))
SHIMMED   := $(call programs,$(filter tests/cuda/%,$(TESTS)))
ORDINARY  := $(filter-out $(HTTP) $(FAKES),$(call programs,$(TESTS)))
REPLAYS   := $(FUZZERS:tests/fuzz/fuzz_%.c=$(BUILD)/tests/fuzz/replay_%)
WRAPPED   := $(shell grep -ohs '__wrap_[a-z_0-9]*' tests/unit/alloc_fail.[ch] | sed 's/__wrap_//' | sort -u)

# What tests share is an archive as well: a program takes from it only what it names.
$(HELPERS): $(BUILD)/%.a: $$(call objects,$$(filter-out $(TESTS),$$(wildcard $$*/*.c)))
$(HTTP):     $(BUILD)/tests/http.a $(ARCHIVES)
$(ORDINARY): $(BUILD)/tests/unit.a $(ARCHIVES)
$(FAKES):    $(BUILD)/tests/fake_engine.o $(BUILD)/tests/unit.a $(filter-out %/engine.a,$(ARCHIVES))
$(HTTP):     LDLIBS += -lcurl
$(SHIMMED) $(BUILD)/tests/bench/worker: LDLIBS += -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN'
$(SHIMMED): | $(SHIM)
$(BUILD)/tests/cuda/test_faults_served: $(BUILD)/tests/http.a
$(BUILD)/tests/cuda/test_faults_served: LDLIBS += -lcurl
$(ALLOCS):   LDLIBS += $(patsubst %,-Wl$(comma)--wrap=%,$(or $(WRAPPED),malloc calloc realloc strdup))
$(call programs,$(TESTS)): %: %.o
	$(link) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS) -lcmocka

$(call programs,$(BENCHES)): %: %.o $(BUILD)/tests/unit.a $(ARCHIVES)
	$(link) -o $@ $^ $(LDLIBS)
$(REPLAYS): $(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o $(ARCHIVES)
	$(link) -o $@ $^ $(LDLIBS)
$(call programs,$(FUZZERS)): %: %.o $(ARCHIVES)
	$(link) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

# ---- On a device: the same programs beside the real engine instead of the shim's. They come along in an archive to a
# machine that could not build them, and tests/gpu/check.sh runs them there.
ON_DEVICE  := $(filter-out $(BUILD)/tests/cuda/test_faults_% %/test_fusion,$(SHIMMED)) $(BUILD)/tests/http/test_reference $(BUILD)/tests/bench/worker $(BUILD)/linformerd
TENSOR     := $(BUILD)/tests/cuda/test_tensor
programs-gpu: $(BUILD)/gpu.tar.gz ## makes build/gpu.tar.gz, what tests/gpu/check.sh needs on a machine with a GPU
$(BUILD)/gpu.tar.gz: tests/gpu/bundle.sh $(wordlist 1,2,$(SHIM)) $(TENSOR) $(ON_DEVICE)
	$(say) tests/gpu/bundle.sh $@ $(wordlist 1,2,$(SHIM)) $(TENSOR) $(ON_DEVICE)
# Kernels of its own: nvcc compiles it there, for the device, with the cmocka of the archive.
$(BUILD)/gpu/test_tensor: tests/cuda/test_tensor.cu FORCE
	$(nvcc) -Xcompiler -idirafter,$(@D)/include -cudart static -o $@ $< \
	    -Xlinker $(@D)/libcmocka.so.0 -Xlinker -rpath='$$ORIGIN'

# What runs in which build: everything plain and under address and undefined-behaviour sanitizers, corpora under these
# only, and what has several threads, kernels' threads too, under the thread sanitizer: of the reference cases those in
# float32, of the operations those in float32 and bf16, for the kernels are templates over the element type.
CONCURRENT = $(HTTP) $(KERNEL_TESTS) $(call programs,$(filter tests/unit/test_batcher% tests/unit/test_lanes%,$(TESTS))) \
             $(filter-out %/test_cases_bf16 %_f16 %_tf32,$(SHIMMED))
in         = $(patsubst $(BUILD)/%,$(BUILD)/$(1)/%,$(2))
SCRIPTS   := $(wildcard tests/check/*.sh tests/load/test_*.sh tests/bench/test_*.sh tests/gpu/test_*.sh tests/image/test_*.sh)

programs: all $(HTTP) $(SHIM) $(FAKES) $(ORDINARY) $(KERNEL_TESTS) $(call programs,$(BENCHES))
programs-corpora: programs $(REPLAYS)
programs-concurrent: all $(CONCURRENT)
programs-fuzz: $(call programs,$(FUZZERS))

test: ## installs what tests need, builds everything also with sanitizers, runs all the tests
	@docker/packages.sh build test
	$(MAKE) --no-print-directory programs WERROR=-Werror
	$(MAKE) --no-print-directory programs-corpora SANITIZE=address BUILD=$(BUILD)/asan
	$(MAKE) --no-print-directory programs-concurrent SANITIZE=thread BUILD=$(BUILD)/tsan
	@BUILD=$(BUILD) tests/run.sh $(HTTP) $(SERVED) $(FAKES) $(ORDINARY) $(KERNEL_TESTS) $(SCRIPTS) \
	    $(call in,asan,$(HTTP) $(FAKES) $(ORDINARY) $(KERNEL_TESTS) $(REPLAYS)) $(call in,tsan,$(CONCURRENT))

quick: ## builds and runs the plain tests only: no sanitizers, no scripts
	$(MAKE) --no-print-directory programs
	@BUILD=$(BUILD) tests/run.sh $(HTTP) $(SERVED) $(FAKES) $(ORDINARY) $(KERNEL_TESTS)

check: ## checks that folders depend one way, and the style of sources and scripts
	@BUILD=$(BUILD) tests/run.sh $(wildcard tests/check/*.sh)

fuzz: ## fuzzes each target with clang for FUZZ_SECONDS (60)
	@docker/packages.sh build fuzz
	$(MAKE) --no-print-directory programs-fuzz SANITIZE=fuzzer BUILD=$(BUILD)/fuzz CC=clang
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz/run.sh $(call in,fuzz,$(call programs,$(FUZZERS)))

test-clients: ## runs tritonclient and openai from PyPI against the daemon (network, for the first time)
	@docker/packages.sh build clients
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/run.sh tests/clients/test_clients.sh

test-libraries: ## runs COUNT (300) random models of the Python libraries against the daemon; SEED=… repeats a run
	@docker/packages.sh build clients libraries
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/libraries/test_libraries.sh $(COUNT:%=--count=%) $(SEED:%=--seed=%) $(ARGS)

test-image: ## installs what it needs, builds docker/Dockerfile and runs its image (root)
	@docker/packages.sh image
	@BUILD=$(BUILD) tests/run.sh tests/image/test_image.sh

test-fresh: ## proves `make run` and `make test` on a bare Debian (root, network; SUITE=bookworm or trixie)
	@docker/packages.sh fresh
	tests/fresh/fresh.sh

# ---- For users
run: ## installs what is missing, builds, and serves the built-in model on 127.0.0.1:8080; ARGS="…" are passed on
	@docker/packages.sh build
	@$(MAKE) --no-print-directory all
	@exec $(BUILD)/linformerd $(ARGS)

bench: ## measures beside PyTorch, FastAPI and others, writes tests/bench/BENCHMARKS.md; ARGS="PART…" (network)
	@docker/packages.sh build test bench
	@$(MAKE) --no-print-directory all $(call programs,$(BENCHES))
	@BUILD=$(BUILD) python3 tests/bench/bench.py $(ARGS)

bench-million: ## sends a sequence of a million rows; fails when time or memory a token grows with the length (3 GB)
	@docker/packages.sh build test
	@$(MAKE) --no-print-directory all $(BUILD)/tests/bench/long_model
	@BUILD=$(BUILD) tests/bench/million.sh

docs: ## writes the list of settings in docs/configuration.md from the settings table
	@docker/packages.sh build test
	@$(MAKE) --no-print-directory $(BUILD)/tests/unit/test_settings_page
	@WRITE_PAGES=1 $(BUILD)/tests/unit/test_settings_page

format: ## formats the sources with clang-format
	@docker/packages.sh check
	git ls-files '*.c' '*.h' '*.cu' '*.cpp' | xargs clang-format -i

install: all ## puts the daemon into DESTDIR PREFIX/bin, and the CUDA engine, where it is built, into PREFIX/lib/linformerd
	install -D -m 755 $(BUILD)/linformerd $(DESTDIR)$(PREFIX)/bin/linformerd
	[ ! -e $(BUILD)/libengine_cuda.so ] || \
	    install -D -m 755 $(BUILD)/libengine_cuda.so $(DESTDIR)$(PREFIX)/lib/linformerd/libengine_cuda.so

clean: ## removes everything built
	rm -rf $(BUILD)

help: ## shows this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

FORCE:
.PHONY: all cuda programs programs-corpora programs-concurrent programs-fuzz programs-gpu test quick check fuzz test-clients \
    test-libraries test-image test-fresh run bench bench-million docs format install clean help FORCE
.DELETE_ON_ERROR:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
