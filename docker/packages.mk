# What leaves this folder for other machines: `make install`, the wheel, and Debian's packages.

# ---- The wheel: weights/python, weights/export.py and the daemon with its libraries, for pip
# The daemon looks for libraries beside itself first. DT_RPATH also holds for what these libraries need, and is stronger
# than LD_LIBRARY_PATH, with which conda and CUDA bring other versions.
$(BUILD)/wheel/linformerd: $(BUILD)/server/main.o $(ARCHIVES)
	$(link) -s -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN/../lib' -o $@ $^ $(LDLIBS)

wheel: $(BUILD)/wheel/linformerd ## [CI] makes build/wheel/linformerd-*.whl: the daemon with its libraries, and the Python package, for pip
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 0)} \
	    python3 docker/wheel.py $< $(BUILD)/wheel

.PHONY: wheel
