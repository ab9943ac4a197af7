# Files for other machines: `make install`, the wheel, and Debian's packages.

# ---- make install
# Files that are generated from the settings table: the manual page, and completion for bash and zsh.
MANUAL     := $(BUILD)/pages/linformerd.8
COMPLETION := $(BUILD)/pages/linformerd.bash $(BUILD)/pages/_linformerd
PAGES      := $(MANUAL) $(COMPLETION)

$(BUILD)/config/pages: $(BUILD)/config/pages.o $(BUILD)/config.a
	$(link) -o $@ $^ $(LDLIBS)
$(MANUAL): page := manual
$(BUILD)/pages/linformerd.bash: page := bash
$(BUILD)/pages/_linformerd: page := zsh
$(PAGES): $(BUILD)/config/pages
	$(say) $< $(page) >$@

pages: $(PAGES) ## [CI] writes the manual page and the completion of flags into build/pages

SHARE       = $(DESTDIR)$(PREFIX)/share
ZSH        ?= share/zsh/site-functions
install: all pages ## [CI, in the image] puts into DESTDIR PREFIX: the daemon, the CUDA engine if it is built, the manual page, and completion for bash and zsh; STRIP=-s leaves out debug symbols
	install $(STRIP) -D -m 755 $(BUILD)/linformerd $(DESTDIR)$(PREFIX)/bin/linformerd
	[ ! -e $(BUILD)/libengine_cuda.so ] || \
	    install $(STRIP) -D -m 755 $(BUILD)/libengine_cuda.so $(DESTDIR)$(PREFIX)/lib/linformerd/libengine_cuda.so
	install -D -m 644 $(MANUAL) $(SHARE)/man/man8/linformerd.8
	install -D -m 644 $(BUILD)/pages/linformerd.bash $(SHARE)/bash-completion/completions/linformerd
	install -D -m 644 $(BUILD)/pages/_linformerd $(DESTDIR)$(PREFIX)/$(ZSH)/_linformerd

# ---- The wheel: weights/python, weights/export.py and the daemon with its libraries, for pip
# The daemon looks for libraries in ../lib, to which wheel.py copies them.
$(BUILD)/wheel/linformerd: $(BUILD)/server/main.o $(ARCHIVES)
	$(link) -s -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN/../lib' -o $@ $^ $(LDLIBS)

wheel: ## [CI] makes build/wheel/linformerd-*.whl: the daemon with its libraries, and the Python package, for pip
	@docker/packages.sh build wheel
	@$(MAKE) --no-print-directory $(BUILD)/wheel/linformerd
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 0)} \
	    python3 docker/wheel.py $(BUILD)/wheel/linformerd $(BUILD)/wheel

# ---- Debian's packages
deb: ## [by hand, last 2026-11-27] makes build/deb/*.deb for this machine's Debian or Ubuntu: linformerd, and linformerd-cuda where nvcc is
	@docker/packages.sh build deb
	@BUILD=$(BUILD) docker/deb.sh

.PHONY: pages install wheel deb
