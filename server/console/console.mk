# The console is one page. It is put together here from its text, its style and its script. The style and the script
# stand in the page itself, and its Content-Security-Policy names both by their hashes.
CONSOLE    := $(BUILD)/server/console
# Base64 of the SHA-256 of standard input, without a newline.
sha256      = sha256sum | cut -c -64 | tr a-f A-F | basenc --base16 -d | base64 | tr -d '\n' >$@

$(CONSOLE)/page.html: server/console/console.html server/console/console.css server/console/console.js
	@mkdir -p $(@D)
	@sed -e '/^<style>$$/r server/console/console.css' -e '/^<script>$$/r server/console/console.js' $< >$@
$(CONSOLE)/page.html.gz: $(CONSOLE)/page.html
	@gzip -9 -n <$< >$@
$(CONSOLE)/page.sha256: $(CONSOLE)/page.html
	@cat $< | $(sha256)
# In the page, a newline is between the tag and the file.
$(CONSOLE)/style.sha256: server/console/console.css
	@mkdir -p $(@D)
	@{ echo; cat $<; } | $(sha256)
$(CONSOLE)/script.sha256: server/console/console.js
	@mkdir -p $(@D)
	@{ echo; cat $<; } | $(sha256)
$(CONSOLE)/console.o: private ALL_CFLAGS += -Wa,-I$(CONSOLE)
$(CONSOLE)/console.o: $(patsubst %,$(CONSOLE)/%,page.html page.html.gz page.sha256 style.sha256 script.sha256)
