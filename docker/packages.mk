# What leaves this folder for other machines: `make install`, the wheel, and Debian's packages.

# ---- The wheel: weights/python, weights/export.py and the daemon with its libraries, for pip
# The daemon looks for libraries beside itself, as wheel.py makes the libraries do.
$(BUILD)/wheel/linformerd: $(BUILD)/server/main.o $(ARCHIVES)
	$(link) -s -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN/../lib' -o $@ $^ $(LDLIBS)

wheel: ## [CI] makes build/wheel/linformerd-*.whl: the daemon with its libraries, and the Python package, for pip
	@docker/packages.sh build wheel
	@$(MAKE) --no-print-directory $(BUILD)/wheel/linformerd
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 0)} \
	    python3 docker/wheel.py $(BUILD)/wheel/linformerd $(BUILD)/wheel

.PHONY: wheel
