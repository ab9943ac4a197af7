# The console is one page: a text, a style and a script. The page contains the style and the script. Its
# Content-Security-Policy contains the hashes of both. The script is one function.
CONSOLE    := $(BUILD)/server/console
SCRIPT     := $(addprefix server/console/,page.js metrics.js models.js plan.js try.js attention.js start.js)
# Writes the SHA-256 of standard input, as base64 without a newline, to the target.
sha256      = sha256sum | cut -c -64 | tr a-f A-F | basenc --base16 -d | base64 | tr -d '\n' >$@

$(CONSOLE)/script.js: $(SCRIPT) server/console/console.mk
	@mkdir -p $(@D)
	@{ echo '"use strict";'; echo '(() => {'; cat $(SCRIPT); echo '})();'; } >$@
$(CONSOLE)/page.html: server/console/console.html server/console/console.css $(CONSOLE)/script.js
	@sed -e '/^<style>$$/r server/console/console.css' -e '/^<script>$$/r $(CONSOLE)/script.js' $< >$@
$(CONSOLE)/page.html.gz: $(CONSOLE)/page.html
	@gzip -9 -n <$< >$@
$(CONSOLE)/page.sha256: $(CONSOLE)/page.html
	@cat $< | $(sha256)
# The hashes include the newline that the page contains between the tag and the file.
$(CONSOLE)/style.sha256: server/console/console.css
	@mkdir -p $(@D)
	@{ echo; cat $<; } | $(sha256)
$(CONSOLE)/script.sha256: $(CONSOLE)/script.js
	@{ echo; cat $<; } | $(sha256)
$(CONSOLE)/console.o: private ALL_CFLAGS += -Wa,-I$(CONSOLE)
$(CONSOLE)/console.o: $(patsubst %,$(CONSOLE)/%,page.html page.html.gz page.sha256 style.sha256 script.sha256)
