# linformerd. `make help` lists the targets, also those of tests/tests.mk and engine/cuda/cuda.mk.
# Variables: CC CFLAGS LDFLAGS BUILD PREFIX DESTDIR ARGS, SANITIZE=address|thread|fuzzer, V=1 (shows whole commands)
# Line numbers (-g1) are enough for the reports of sanitizers. Compiling with -g takes a quarter to three quarters
# longer. With a sanitizer, compiling with -O2 takes twice as long as with -O1. So only the engine and the shim have
# -O2.
CFLAGS    ?= $(if $(filter address thread,$(SANITIZE)),-O1 -g1,-O2 -g)
PREFIX    ?= /usr/local

# make's own defaults are "cc" and one job at a time. This file sets gcc and -j. A -j on the command line overrides the
# -j of this file.
ifeq ($(origin CC),default)
CC        := gcc
endif
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

# ---- Flags. A sanitizer has a build folder of its own, beside the plain one.
ifeq ($(SANITIZE),address)
BUILD     ?= build/asan
SANITIZER := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
else ifeq ($(SANITIZE),thread)
BUILD     ?= build/tsan
SANITIZER := -fsanitize=thread -fno-omit-frame-pointer
else ifeq ($(SANITIZE),fuzzer)
BUILD     ?= build/fuzz
SANITIZER := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
else ifneq ($(SANITIZE),)
$(error SANITIZE is address, thread or fuzzer)
endif
BUILD     ?= build
ifneq ($(filter address thread,$(SANITIZE)),)
$(BUILD)/engine/%.o $(BUILD)/tests/cuda/shim/%.o: private CFLAGS += -O2
endif

PKGS       := libmicrohttpd gnutls jansson zlib oniguruma libutf8proc
WARNINGS   := -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror=switch
# The installed libraries for images. Without a library, the daemon refuses images of its format. "make
# IMAGE_LIBRARIES=" uses none.
IMAGE_LIBRARIES := $(foreach library,libjpeg libpng,$(shell pkg-config --exists $(library) 2>/dev/null && echo $(library)))
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) $(IMAGE_LIBRARIES) 2>/dev/null)
ALL_CFLAGS  = -std=gnu11 $(WARNINGS) $(CFLAGS) -fopenmp -pthread -I. $(SANITIZER) $(DEFINES) $(PKG_CFLAGS)
LDLIBS     := $(shell pkg-config --libs $(PKGS) $(IMAGE_LIBRARIES) 2>/dev/null) -lm -ldl
# The CUDA engine is a shared object. It calls these functions of the program that loads it.
EXPORTS    := -Wl,--export-dynamic-symbol=padder_* -Wl,--export-dynamic-symbol=plan_convolved \
              -Wl,--export-dynamic-symbol=plan_most_* -Wl,--export-dynamic-symbol=plan_sequences \
              -Wl,--export-dynamic-symbol=plan_constant_rows -Wl,--export-dynamic-symbol=plan_same_rows \
              -Wl,--export-dynamic-symbol=plan_rows_are_constant \
              -Wl,--export-dynamic-symbol=operation_name -Wl,--export-dynamic-symbol=error_set

say         = @mkdir -p $(@D); $(if $(V),set -x,echo "  $@");
compile     = $(say) $(CC) $(ALL_CFLAGS) $(WERROR) -MMD -MP
link        = $(say) $(CC) $(ALL_CFLAGS) $(LDFLAGS) $(EXPORTS)

# ---- The daemon: each top folder is an archive. The order of the archives lets the linker refuse calls of functions in
# an earlier archive.
ROOMS      := server engine weights config
sources_in  = $(sort $(shell find $(1) -name '*.[cS]'))
objects     = $(patsubst %,$(BUILD)/%.o,$(basename $(1)))
ARCHIVES   := $(ROOMS:%=$(BUILD)/%.a)

all: $(BUILD)/linformerd ## [CI] builds build/linformerd
$(BUILD)/linformerd: $(BUILD)/server/main.o $(ARCHIVES)
	$(link) -o $@ $^ $(LDLIBS)

include engine/cpu/cpu.mk engine/cuda/cuda.mk server/console/console.mk
include docker/packages.mk
-include tests/tests.mk # not there when the image is built

UNUSED     := $(foreach source,jpeg png png_writer,server/images/$(source)$(if $(filter lib$(firstword $(subst _, ,$(source))),$(IMAGE_LIBRARIES)),_missing).c)
SOURCES    := $(filter-out server/main.c config/pages.c $(WIDE) $(UNUSED),$(call sources_in,$(ROOMS))) $(WIDE_SOURCES)
$(foreach room,$(ROOMS),$(eval $(BUILD)/$(room).a: $(call objects,$(filter $(room)/%,$(SOURCES)))))

# The file of members changes when a source is removed, so that make builds the archive again.
$(ARCHIVES) $(HELPERS): %.a: %.members
	@rm -f $@
	@$(AR) qcs $@ $(filter %.o,$^)
$(BUILD)/%.members: FORCE
	$(call keep,$(call sources_in,$*))
$(BUILD)/%.o: %.c $(BUILD)/flags
	$(compile) -c -o $@ $<
$(BUILD)/%.o: %.S $(BUILD)/flags
	$(compile) -c -o $@ $<
$(BUILD)/weights/builtin.o: $(wildcard weights/builtin/*.json weights/builtin/*.safetensors \
                                       weights/writer/*.json weights/writer/*.safetensors)

$(BUILD)/server/dialects/openapi_source.o: server/dialects/openapi.json

# When the flags change, everything is built again. WERROR changes no object, so `make`, `make quick` and `make test`
# share objects. A missing library is reported once, not by each file.
$(BUILD)/flags: FORCE
	@pkg-config --print-errors --exists $(PKGS) || { echo "'docker/packages.sh build' installs what is missing"; exit 1; }
	$(call keep,$(CC) $(ALL_CFLAGS) $(LDLIBS))
# Writes a file with this text, but only if the text differs.
keep        = @mkdir -p $(@D); echo '$(1)' | cmp -s - $@ || echo '$(1)' >$@

# ---- For users
run: ## [by hand, last 2026-11-22] installs what is missing, builds, and serves the built-in models on 127.0.0.1:8080; ARGS="…" are passed on
	@docker/packages.sh build
	@$(MAKE) --no-print-directory all
	@exec $(BUILD)/linformerd $(ARGS)

format: ## [by hand, last 2026-11-22] formats the sources with clang-format
	@docker/packages.sh check
	git ls-files '*.c' '*.h' '*.cu' '*.cpp' | xargs clang-format -i

clean: ## [by hand, last 2026-11-22] removes everything built
	rm -rf $(BUILD)

help: ## lists the targets. [CI]: .ci/run runs the target, or its tests. Other targets have the date of their last run
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-20s %s\n", $$1, $$2 }' $(filter %akefile %.mk,$(MAKEFILE_LIST))

FORCE:
.PHONY: all run format clean help FORCE
.DELETE_ON_ERROR:
-include $(shell find $(BUILD) -name '*.d' -type f 2>/dev/null)
