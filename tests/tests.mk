# Builds and runs the tests, and the programs that measure. tests/run.sh runs each test program in its own process, and
# adds up the results. docs/testing.md says where to add a test. Variables of the command line are, among others, T and
# TEST of `make quick`, COUNT and SEED of `make test-libraries`, FUZZ_SECONDS, and ARGS.
FUZZ_SECONDS ?= 60
CUDA_OLDEST  ?= $(BUILD)/cuda-12.4
export CUDA_OLDEST

include tests/cuda/shim.mk tests/cuda/ptx/emulator.mk tests/cuda/ptx.mk tests/cuda/fragments/fragments.mk

# ---- Programs: each has the source tests/FOLDER/test_NAME.c
TESTS     := $(wildcard tests/unit/test_*.c tests/reference/test_*.c tests/cuda/test_*.c tests/http/test_*.c)
FUZZERS   := $(wildcard tests/fuzz/fuzz_*.c)
programs   = $(patsubst %.c,$(BUILD)/%,$(1))
HTTP      := $(call programs,$(filter tests/http/%,$(TESTS)))
FAKES     := $(call programs,$(filter %_fake.c,$(TESTS)))
ALLOCS    := $(call programs,$(filter %_alloc.c,$(TESTS)))
SHIMMED   := $(call programs,$(filter tests/cuda/%,$(TESTS)))
ORDINARY  := $(filter-out $(HTTP) $(FAKES) $(SHIMMED),$(call programs,$(TESTS)))
BENCHES   := $(call programs,$(wildcard tests/bench/*.c tests/tokenizers/*.c))
REPLAYS   := $(FUZZERS:tests/fuzz/fuzz_%.c=$(BUILD)/tests/fuzz/replay_%)
DAMAGED   := $(FUZZERS:tests/fuzz/fuzz_%.c=$(BUILD)/tests/fuzz/mutate_%)
MUTATES   := $(DAMAGED) $(BUILD)/tests/fuzz/mutate_folders
CLUSTER   := $(BUILD)/tests/cluster/load
FAILING   := $(BUILD)/tests/reliability/failing_alloc.so
SCRIPTS   := $(wildcard tests/load/test_*.sh tests/bench/test_*.sh tests/gpu/test_*.sh) tests/packages/test_pages.sh
CHECKS    := $(wildcard tests/check/*.sh)
# Programs of tests/http that run again with a daemon on the CUDA shim.
SERVED    := $(patsubst %,$(BUILD)/tests/http/test_%@cuda,batches embed generate health logits openai reference v2)

# Code that several tests share is in archives. The linker adds only the object files that a program needs.
comma     := ,
HELPERS   := $(BUILD)/tests/unit.a $(BUILD)/tests/http.a
WRAPPED   := $(shell grep -ohs '__wrap_[a-z_0-9]*' tests/unit/alloc_fail.[ch] | sed 's/__wrap_//' | sort -u)
$(foreach helper,unit http,$(eval $(BUILD)/tests/$(helper).a: \
    $(call objects,$(filter-out $(TESTS),$(wildcard tests/$(helper)/*.c)))))
$(HTTP):     $(BUILD)/tests/http.a $(ARCHIVES) | $(BUILD)/linformerd
$(ORDINARY) $(SHIMMED): $(BUILD)/tests/unit.a $(ARCHIVES)
$(FAKES):    $(BUILD)/tests/fake_engine.o $(BUILD)/tests/unit.a $(filter-out %/engine.a,$(ARCHIVES))
$(SHIMMED):  | $(SHIM)
$(BUILD)/tests/cuda/test_faults_served: $(BUILD)/tests/http.a
$(BUILD)/tests/http/test_generations $(BUILD)/tests/http/test_generate_inputs: $(BUILD)/tests/unit.a
# With `private`, make does not link the prerequisites of these programs, such as the daemon, with these libraries.
$(HTTP) $(BUILD)/tests/cuda/test_faults_served: private LDLIBS += -lcurl
$(SHIMMED) $(BUILD)/tests/bench/worker: private LDLIBS += $(BESIDE)
$(ALLOCS): private LDLIBS += $(patsubst %,-Wl$(comma)--wrap=%,$(WRAPPED))
$(call programs,$(TESTS)): %: %.o $(BUILD)/tests/filter.o
	$(link) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS) -lcmocka
$(BENCHES): %: %.o $(BUILD)/tests/unit.a $(ARCHIVES)
	$(link) -o $@ $^ $(LDLIBS)
$(CLUSTER): %: %.o
	$(link) -o $@ $^ $(LDLIBS) -lcurl
$(FAILING): %.so: tests/reliability/failing_alloc.c $(BUILD)/flags
	$(compile) -fPIC -shared -o $@ $<
$(DAMAGED): $(BUILD)/tests/fuzz/mutate_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/mutate.o \
    $(BUILD)/tests/fuzz/mutation.o $(ARCHIVES)
	$(link) -o $@ $^ $(LDLIBS)
$(BUILD)/tests/fuzz/mutate_folders: $(BUILD)/tests/fuzz/mutate_folders.o $(BUILD)/tests/fuzz/mutation.o $(ARCHIVES)
	$(link) -o $@ $^ $(LDLIBS)
$(REPLAYS): $(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o $(ARCHIVES)
	$(link) -o $@ $^ $(LDLIBS)
$(call programs,$(FUZZERS)): %: %.o $(ARCHIVES)
	$(link) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

# More optimisation than -O1 would take longer than it would save in a run of the tests. The helpers in unit/ are fully
# optimised, because they contain the slow reference in double precision.
TESTED_BY := unit/test_% cuda/test_% http/% reference/% fuzz/%
$(TESTED_BY:%=$(BUILD)/tests/%.o): private CFLAGS += -O1

# The thread sanitizer does not check the slow reference, which has a single thread.
ifeq ($(SANITIZE),thread)
$(BUILD)/tests/unit/scalar%.o: private SANITIZER :=
endif

# ---- Which programs run in which build. tests/README.md gives the reasons.
in         = $(patsubst $(BUILD)/%,$(BUILD)/$(1)/%,$(2))
# LATE: programs that take long on the shim, and clang's check of the CUDA engine. Only `make test-all` runs them, as it
# does the tests of the PTX emulator. In `make test`, test_states runs the kernels of test_generate, test_parts_cuda and
# test_parts_bf16. test_operations_bf16 runs the kernels of f16 with another type of the same size. test_execution runs
# the kernels of test_operations_tf32 and test_operations_plain.
LATE      := %/test_generate@cuda %/test_parts_cuda %/test_parts_bf16 %/test_operations_f16 %/test_modules_f16 \
             %/test_operations_tf32 %/test_operations_plain tests/check/clang_cuda.sh
EVERY     := $(HTTP) $(SERVED) $(FAKES) $(ORDINARY) $(SHIMMED) $(KERNEL_TESTS)
PLAIN     := $(filter-out $(LATE),$(EVERY))
# TRUSTED: what `make test` runs with the address and undefined-behaviour sanitizers. These are the parsers of bytes
# from outside, and the operations of the CPU. The operations on the shim are only in CHECKED, because they would add a
# fifth to the time of `make test`.
TRUSTED   := $(REPLAYS) $(filter %/test_operations,$(ORDINARY))
# REPEATED: programs that run without sanitizers, because other programs run the same code. Kernels of f16 are those of
# bf16 with another type of the same size. Kernels of tf32 are those of f32 without tensor cores, and other programs
# launch all of them. test_examples sends the largest inputs to code that other programs run. test_states runs the
# kernels of test_parts_*. test_operations_bf16 runs the kernels of test_modules_bf16. test_generate runs the code of
# http/test_generations.
REPEATED  := %_f16 %_tf32 %/test_operations_plain %/test_examples %/test_parts_cuda %/test_parts_bf16 \
             %/test_modules_bf16 %/http/test_generations
CHECKED   := $(filter-out $(REPEATED),$(SHIMMED) $(KERNEL_TESTS) $(EMULATOR_TESTS) $(FAKES) $(ORDINARY) $(REPLAYS) $(MUTATES))
# CONCURRENT: what runs with the thread sanitizer. These are programs with several threads, and programs that run the
# threads of kernels. SAME_LINES is left out. test_operations_bf16 runs the kernels of test_cases_bf16. Other programs
# of CONCURRENT run each kernel of test_passes_cuda that contains a barrier. They also execute each line of the engine
# that test_operations_cuda and test_long execute.
SAME_LINES     := %/test_cases_bf16 %/test_passes_cuda %/test_operations_cuda %/test_long
CONCURRENT := $(filter-out $(REPEATED) $(SAME_LINES),$(SHIMMED) $(KERNEL_TESTS)) \
              $(filter %/test_batcher_fake %/test_lanes_fake %/test_generations_fake,$(FAKES)) \
              $(filter $(addprefix %/test_,tokenizers log log_writer metrics workers image_read),$(ORDINARY))
# DAEMONS: programs that run with each of the two sanitizers. The daemon has the sanitizer, and the program that sends
# requests has none.
DAEMONS   := $(filter-out $(REPEATED),$(HTTP))
unserved   = $(filter-out %@cuda,$(1))

REST      := $(wildcard tests/deploy/test_*.sh tests/cluster/test_*.sh \
             tests/reliability/test_*.sh) $(filter $(LATE),$(EVERY) $(CHECKS)) \
             $(filter-out $(call in,asan,$(TRUSTED)),$(call in,asan,$(CHECKED))) $(call in,tsan,$(CONCURRENT)) \
             $(DAEMONS:%=%@asan) $(DAEMONS:%=%@tsan) $(EMULATOR_TESTS) $(EMULATED_SHORT) $(SHIPPED_SHORT) \
             tests/cuda/ptx/mutants.py

programs: all pages $(SHIM) $(call unserved,$(EVERY)) $(BENCHES) $(CLUSTER) $(FAILING)
programs-trusted: all $(TRUSTED)
programs-checked: all $(SHIM) $(CHECKED)
programs-concurrent: all $(SHIM) $(CONCURRENT)
programs-damaged: $(MUTATES)
programs-fuzz: $(call programs,$(FUZZERS))
build-in   = $(MAKE) --no-print-directory $(1) WERROR=-Werror

# Programs that take long start first, so that all cores finish at about the same time.
LONG      := tests/cluster/% tests/reliability/% tests/gpu/% tests/cuda/ptx/mutants.py \
             $(addprefix %/test_,operations_cuda operations_bf16 operations_tf32 operations_f16 operations_plain long \
                                 embed@cuda generate@cuda execution states passes_cuda faults_products cases_cuda parts_cuda \
                                 generations prompt_logprobs text_codec tokenizers drain signals faults_engine tracing)
LONG      += $(LONG:%=%@asan) $(LONG:%=%@tsan)
long-first = $(filter $(LONG),$(1)) $(filter-out $(LONG),$(1))

test: ## [CI] installs what tests need, builds, and runs the tests that each change must pass
	@docker/packages.sh build test
	+$(call build-in,programs)
	+$(call build-in,programs-trusted SANITIZE=address BUILD=$(BUILD)/asan)
	@BUILD=$(BUILD) tests/run.sh $(filter-out $(LATE),$(CHECKS)) $(call long-first,$(call in,asan,$(TRUSTED)) $(PLAIN) $(SCRIPTS))

test-all: test ## [CI] runs `make test`, then programs with the sanitizers, and all other tests that need no network
	@$(MAKE) --no-print-directory test-rest
test-rest: build-checked build-concurrent build-ptx
	@BUILD=$(BUILD) FAULTS=8 tests/run.sh $(call long-first,$(REST))
build-checked:
	+$(call build-in,programs-checked SANITIZE=address BUILD=$(BUILD)/asan)
build-concurrent:
	+$(call build-in,programs-concurrent SANITIZE=thread BUILD=$(BUILD)/tsan)
build-ptx:
	+$(call build-in,programs-ptx)
	+$(call build-in,programs-shipped SHIPPED_ENGINE=$(SHIPPED_NEWEST))
	+$(call build-in,$(EMULATOR_TESTS))

# Each word of T names a program of tests/ without "test_", or a script: unit/weights, http/embed@cuda, http/embed@asan,
# check/style.sh.
QUICK_FILES := $(filter %.sh,$(T:%=tests/%))
QUICK      := $(foreach t,$(filter-out %.sh,$(T)),$(BUILD)/tests/$(dir $(t))$(if $(filter replay_% test_%,$(notdir $(t))),,test_)$(notdir $(t)))
quick: $(if $(T),$(foreach program,$(QUICK),$(firstword $(subst @, ,$(program)))) $(if $(findstring @cuda,$(T)),$(SHIM)),programs) ## [CI] builds and runs the programs T="unit/test_weights …". TEST='name*' selects their tests. Without T, runs the programs of `make test` that have no sanitizer
	+$(if $(findstring @asan,$(T)),$(call build-in,all SANITIZE=address BUILD=$(BUILD)/asan))
	+$(if $(findstring @tsan,$(T)),$(call build-in,all SANITIZE=thread BUILD=$(BUILD)/tsan))
	+@$(foreach ending,$(sort $(filter @ptx% @shipped,$(subst @, @,$(T)))),$(call build-in,programs-$(ending:@%=%)) &&) true
	@BUILD=$(BUILD) TEST_FILTER='$(TEST)' tests/run.sh $(if $(T),$(QUICK) $(QUICK_FILES),$(PLAIN))

check: ## [CI] checks that folders depend one way, and the style of sources, scripts and documents
	@docker/packages.sh check
	@BUILD=$(BUILD) tests/run.sh $(CHECKS)

# ---- Targets that need the network, at least the first time
test-clients: ## [CI] runs tritonclient and openai from PyPI against the daemon
	@docker/packages.sh build clients
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/run.sh tests/clients/test_clients.sh

test-clients-all: ## [by hand, last 2026-11-23] runs 20 clients from PyPI; WRITE_PAGES=1 writes the table of docs/clients.md; ENVIRONMENTS="recent …" (network; mteb brings torch)
	@docker/packages.sh build clients
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/run.sh tests/clients/all/all.sh

test-packages: ## [CI] builds the wheel, installs it, and runs it alone, beside torch, and in a notebook
	@docker/packages.sh clients
	@$(MAKE) --no-print-directory wheel
	@BUILD=$(BUILD) tests/run.sh tests/packages/test_wheel.sh

test-releases: ## [by hand, last 2026-11-27] builds, installs and removes the packages on bare systems (root; SUITE="bookworm trixie noble")
	@docker/packages.sh fresh
	@$(MAKE) --no-print-directory wheel
	@BUILD=$(BUILD) tests/packages/release.sh $(or $(SUITE),bookworm trixie noble)

test-console: ## [CI] runs the page for browsers in headless Chromium, with packages from PyPI
	@docker/packages.sh build console
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/run.sh tests/console/test_console.sh

test-libraries-short: ## [CI] runs 30 random models of the Python libraries on PyPI, and weights/export.py, against the daemon
	@docker/packages.sh build clients
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) SHORT=1 tests/run.sh tests/libraries/test_libraries.sh

test-libraries: ## [by hand, last 2026-11-21] the same with COUNT (300) models of all five libraries; SEED=… repeats a run
	@docker/packages.sh build clients libraries
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/libraries/test_libraries.sh $(COUNT:%=--count=%) $(SEED:%=--seed=%) $(ARGS)

test-fragments: ## [CI] compares the places of elements in tensor cores' registers with the headers of NVIDIA's CuTe from PyPI
	@docker/packages.sh build test clients
	@tests/cuda/fragments/cute.sh $(CUTE)
	+$(call build-in,$(FRAGMENTS))
	+$(call build-in,programs-ptx PTX_BUILT=$(PTX)/test_fragments)
	@BUILD=$(BUILD) tests/run.sh $(FRAGMENTS) $(FRAGMENTS)@ptx

test-tokenizers: ## [by hand, last 2026-11-22] compares the tokenizer with that of PyPI, COUNT (10000) texts each; SEED=…, ARGS="CASE…"
	@docker/packages.sh build clients
	@$(MAKE) --no-print-directory $(BUILD)/tests/tokenizers/encode
	@BUILD=$(BUILD) tests/tokenizers/test_tokenizers.sh $(COUNT:%=--count=%) $(SEED:%=--seed=%) $(ARGS)

test-cuda: ## [by hand, last 2026-11-27] compiles the CUDA engine with nvcc as it is installed, and with that of CUDA 12.4, which it fetches (1.2 GB)
	tests/gpu/toolkit_oldest.sh $(CUDA_OLDEST)
	@BUILD=$(BUILD) tests/run.sh tests/check/cuda.sh

PREDICT   := $(BUILD)/predict/tests
CAPABLE   := 80 90 100 120
COUNTED    = $(foreach capability,$(CAPABLE),$(patsubst engine/cuda/%.cu,$(BUILD)/predict/sass/%_$(capability).cubin,\
             $(shell grep -l __global__ $(KERNELS))))
predict: ## [by hand, last 2026-11-27] counts launches, instructions and registers anew, and writes the predicted times and the registers of docs/cuda.md (nvcc; NVDISASM=PATH; PREDICT_PYTHON=PATH of a python with PyTorch)
	@$(MAKE) --no-print-directory $(COUNTED)
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/predict SHIM_LIMITS= $(PREDICT)/cuda/libengine_cuda.so $(PREDICT)/cuda/libcuda.so.1 \
	    $(PREDICT)/cuda/libcublas.so.13 $(PREDICT)/bench/worker
	@cp $(PREDICT)/bench/worker $(PREDICT)/cuda/worker
	@BUILD=$(abspath $(BUILD)) python3 tests/gpu/predict.py --recount --table

# nvcc's report about registers is written to a text file beside each cubin. No kernel calls cuBLAS, so the header of
# the shim replaces that of cuBLAS.
define cubin
$(BUILD)/predict/sass/%_$(1).cubin: engine/cuda/%.cu $(wildcard engine/*.h engine/plan/*.h engine/cuda/*.h config/*.h)
	$$(say) { $$(COMPILER) --version && $$(COMPILER) -std=c++20 -O3 -arch=sm_$(1) -cubin -Xptxas -v -I. \
	    -Xcompiler -idirafter,tests/cuda/shim/cublas -o $$@ $$<; } >$$@.txt 2>&1 || { cat $$@.txt; exit 1; }
endef
$(foreach capability,$(CAPABLE),$(eval $(call cubin,$(capability))))

test-ptx: ## [by hand, last 2026-11-27] compiles the CUDA engine with nvcc, and runs its tests and models in an emulator of PTX, for the capabilities 9.0 and PTX_OTHERS (120; 80 100). Also tests the shared object of `make cuda`, and checks that planted faults are found
	@docker/packages.sh build test
	+$(call build-in,programs-ptx)
	+@$(foreach arch,$(PTX_OTHERS),$(call build-in,programs-ptx$(arch)) &&) true
	+$(call build-in,programs-shipped)
	@rm -f $(BUILD)/log/*.entries
	@BUILD=$(BUILD) tests/run.sh $(call long-first,$(EMULATED) $(EMULATED_OTHER) $(SHIPPED_TESTS))
	@BUILD=$(BUILD) tests/run.sh tests/cuda/ptx/test_entries.sh tests/cuda/ptx/mutants.py tests/cuda/ptx/shipped/file_mutants.py

test-image: ## [CI] builds docker/Dockerfile and runs its image (root)
	@docker/packages.sh image
	@BUILD=$(BUILD) tests/run.sh tests/image/test_image.sh

test-cluster: ## [CI, shorter] kills, drains and stops daemons behind HAProxy and nginx under load; checks the files in docker/; SEED=…
	@docker/packages.sh build test deploy
	@$(MAKE) --no-print-directory all $(CLUSTER)
	@BUILD=$(BUILD) FULL=1 tests/run.sh tests/cluster/test_cluster.sh $(wildcard tests/deploy/test_*.sh)

test-fresh: ## [by hand, last 2026-11-20] proves `make run` and `make test` on a bare Debian (root; SUITE=bookworm or trixie)
	@docker/packages.sh fresh
	tests/fresh/fresh.sh

docs: ## [CI] writes the list of settings in docs/configuration.md from the settings table
	@docker/packages.sh build test
	@$(MAKE) --no-print-directory $(BUILD)/tests/unit/test_pages
	@WRITE_PAGES=1 $(BUILD)/tests/unit/test_pages

reliability: ## [by hand, last 2026-11-26] repeats the measurements of docs/reliability.md in 35 minutes, and writes its tables (root for a full disk); SEED=…, ARGS="ROW…", SCALE=0.1 (writes nothing), LIMIT_S=5400 (its longest time)
	@docker/packages.sh build test reliability deploy
	@$(MAKE) --no-print-directory all $(BUILD)/tests/http/test_slots_kept $(ALLOCS) $(CLUSTER) $(FAILING)
	+$(call build-in,programs-damaged SANITIZE=address BUILD=$(BUILD)/asan)
	@BUILD=$(BUILD) LINFORMERD=$(BUILD)/linformerd LONG=1 RESULTS=$(or $(RESULTS),$(if $(SCALE),,tests/reliability/results.json)) \
	    PAGE=$(or $(PAGE),$(if $(SCALE),,docs/reliability.md)) tests/reliability/reliability.py $(ARGS)

fuzz: ## [by hand, last 2026-11-20] fuzzes each target with clang for FUZZ_SECONDS (60)
	@docker/packages.sh build fuzz
	$(MAKE) --no-print-directory programs-fuzz SANITIZE=fuzzer BUILD=$(BUILD)/fuzz CC=clang
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz/run.sh $(call in,fuzz,$(call programs,$(FUZZERS)))

# ---- Measurements
bench: ## [by hand, last 2026-11-22] measures beside PyTorch, FastAPI and others, writes tests/bench/BENCHMARKS.md; ARGS="PART…" (network)
	@docker/packages.sh build test bench
	@$(MAKE) --no-print-directory all $(BENCHES)
	@BUILD=$(BUILD) python3 tests/bench/bench.py $(ARGS)

capacity: ## [by hand, last 2026-11-23] predicts the daemon's latency by a simulation, measures it, writes docs/capacity.md; two idle cores
	@docker/packages.sh build test
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) python3 tests/bench/capacity.py $(ARGS)

bench-million: ## [by hand, last 2026-11-22] sends a sequence of a million rows. Fails if its tokens take much longer than those of short sequences, or if the memory is not that of --explain (3 GB)
	@docker/packages.sh build test
	@$(MAKE) --no-print-directory all $(BUILD)/tests/bench/long_model
	@BUILD=$(BUILD) tests/bench/million.sh

# Programs that run on a GPU: the tests of tests/cuda that do not need the shim, test_reference, worker and the daemon.
# The archive carries them to a machine that cannot build them. On that machine, tests/gpu/check.sh runs them.
ON_DEVICE := $(filter-out %/test_fusion %/test_chips $(BUILD)/tests/cuda/test_faults_%,$(SHIMMED)) \
             $(BUILD)/tests/http/test_reference $(BUILD)/tests/bench/worker $(BUILD)/linformerd
OF_SHIM   := $(wordlist 1,2,$(SHIM)) $(DEVICE_TESTS)
programs-gpu: $(BUILD)/gpu.tar.gz ## [CI] makes build/gpu.tar.gz, what tests/gpu/check.sh needs on a machine with a GPU
$(BUILD)/gpu.tar.gz: tests/gpu/bundle.sh $(OF_SHIM) $(ON_DEVICE)
	$(say) tests/gpu/bundle.sh $@ $(OF_SHIM) -- $(ON_DEVICE)

.PHONY: programs programs-trusted programs-checked programs-concurrent programs-damaged programs-fuzz programs-gpu test test-all test-rest build-checked build-concurrent build-ptx programs-ptx programs-shipped quick check \
    test-clients test-clients-all test-console test-packages test-releases test-libraries test-libraries-short test-fragments test-tokenizers test-cuda test-ptx test-cluster test-image test-fresh docs reliability fuzz bench bench-million capacity predict cuda
