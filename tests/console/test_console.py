"""Tests the console in headless Chromium: every form, all kinds of models, both colour schemes, a phone, the keyboard.

Each test fails if the page logs an error, violates its Content-Security-Policy, or requests anything from another host.
"""

import contextlib
import functools
import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import sync_playwright

sys.path.insert(0, "tests/clients")
import tap  # noqa: E402
from served import Daemon  # noqa: E402

MODULES = "tests/modules/reference/"
HOSTILE = ["<img src=x onerror=document.title='owned'>", '"><script>document.title="owned"<b>', "a&b?c#d%20e=f 'g' é"]
WAIT_MS = 120_000  # time limit of each wait in ms, which only a page with a fault reaches
KEY = "sesame-1"


@contextlib.contextmanager
def opened(browser, daemon, expected=(), ready="ready", **options):
    """A page of the console. When the page is closed, it must have reported no faults except those that match
    `expected`."""
    faults = []
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "accept_downloads": True, **options})
    context.add_init_script("addEventListener('securitypolicyviolation', (e) => console.error('policy: ' + e.violatedDirective))")
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.on("console", lambda message: message.type in ("error", "warning") and faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(f"uncaught: {error}"))
    page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    context.on("request", lambda request: faults.append(f"another host: {request.url}") if not request.url.startswith((daemon.url + "/", "data:", "blob:" + daemon.url)) else None)
    page.goto(daemon.url + "/")
    if ready:
        page.wait_for_function("(text) => document.getElementById('state').textContent === text", arg=ready)
        page.wait_for_function("() => document.querySelectorAll('#plan-view tbody tr').length > 0")
    yield page
    context.close()
    left = [fault for fault in faults if not any(re.search(pattern, fault) for pattern in expected)]
    assert not left, left


def submit(page, form):
    page.click(f"#{form} button.main")
    page.wait_for_function("(id) => !document.querySelector(`#${id} button.main`).disabled", arg=form)


def use_all_forms(page):
    """Fills the page with results, and opens all tables."""
    for form in ("compare", "fill", "generate", "look"):
        submit(page, form)
        assert page.locator(f"#{form} .error").count() == 0, page.locator(f"#{form} .error").all_inner_texts()
    for details in page.locator("details").all():
        details.evaluate("(node) => { node.open = true; }")


# ---- The page as a whole


def the_page_shows_models_and_version_of_the_daemon(browser):
    with Daemon() as daemon, opened(browser, daemon) as page:
        info = json.loads(daemon.get("/info"))
        assert page.locator("#model-list h3").all_inner_texts() == [model["name"] for model in info["models"]]
        assert info["version"] in page.inner_text("#facts") and info["kernels"] in page.inner_text("#facts")
        assert "No loaded model can do this." in page.inner_text("#classify")
        assert "builtin returns rows for tokens, not scores for classes." in page.inner_text("#classify")


def faults_of_accessibility(page, where):
    found = Axe().run(page).response["violations"]
    return [f"{where}: {one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary'][:300]}" for one in found]


def axe_finds_no_fault_of_accessibility(browser):
    faults = []
    with Daemon() as daemon:
        for scheme in ("light", "dark"):
            for width in (1280, 360):
                with opened(browser, daemon, color_scheme=scheme, viewport={"width": width, "height": 800}) as page:
                    faults += faults_of_accessibility(page, f"{scheme} {width} at first")
                    use_all_forms(page)
                    faults += faults_of_accessibility(page, f"{scheme} {width} with results")
    with Daemon("--api-key", KEY) as daemon:
        for scheme in ("light", "dark"):
            with opened(browser, daemon, [r"401 \(Unauthorized\)"], ready=None, color_scheme=scheme) as page:
                page.wait_for_selector("#key:not([hidden])")
                faults += faults_of_accessibility(page, f"{scheme} with the question for a key")
    assert not faults, "\n".join(faults)


def a_phone_needs_no_sideways_scrolling(browser):
    with Daemon() as daemon, opened(browser, daemon, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True) as page:
        use_all_forms(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def all_controls_are_reached_by_tab(browser):
    """Tab reaches every control that can be used, and then leaves it."""
    with Daemon() as daemon, opened(browser, daemon) as page:
        use_all_forms(page)
        page.click("#pause")  # so the rows of a table do not change
        wanted = page.evaluate("""() => {
            const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
            const usable = all.filter((node) => !node.disabled && node.checkVisibility({ visibilityProperty: true }));
            usable.forEach((node, i) => { node.dataset.stop = i; });
            document.activeElement.blur();
            scrollTo(0, 0);
            return usable.length;
        }""")
        visited = set()
        for _ in range(2 * wanted):
            page.keyboard.press("Tab")
            stop = page.evaluate("document.activeElement.dataset.stop ?? null")
            if stop is not None:
                visited.add(int(stop))
        missing = [page.evaluate("(i) => document.querySelector(`[data-stop='${i}']`).outerHTML.slice(0, 120)", i) for i in range(wanted) if i not in visited]
        assert wanted > 40 and not missing, missing
        page.focus("#compare button.main")
        page.keyboard.press("Enter")
        page.wait_for_selector("#compare table.cosines")


def nothing_moves_if_the_user_prefers_less_motion(browser):
    with Daemon() as daemon, opened(browser, daemon, reduced_motion="reduce") as page:
        submit(page, "fill")
        assert page.evaluate("getComputedStyle(document.querySelector('#fill .guess i')).transitionDuration") == "0s"
    with Daemon() as daemon, opened(browser, daemon) as page:
        submit(page, "fill")
        assert page.evaluate("getComputedStyle(document.querySelector('#fill .guess i')).transitionDuration") != "0s"


def scripts_and_styles_from_elsewhere_have_no_effect(browser):
    """A script or style that is not in the page's own files has no effect. The page cannot insert markup from
    strings."""
    expected = ["policy: script-src", "policy: style-src", "policy: require-trusted-types-for", "Content Security Policy", "requires 'Trusted"]
    with Daemon() as daemon, opened(browser, daemon, expected) as page:
        page.evaluate("""() => {
            const script = document.createElement("script"), style = document.createElement("style");
            style.textContent = "body { opacity: 0.5 }";
            document.head.append(style);
            try { script.textContent = "document.title = 'owned'"; document.head.append(script); } catch { /* refused */ }
        }""")
        assert page.title() == "linformerd console"
        assert page.evaluate("getComputedStyle(document.body).opacity") == "1"
        assert page.evaluate("(() => { try { document.body.innerHTML = '<b>'; return 'set'; } catch (e) { return e.name; } })()") == "TypeError"


# ---- Sections of the page


def charts_follow_the_metrics(browser):
    with Daemon() as daemon, opened(browser, daemon) as page:
        page.wait_for_function("() => document.querySelectorAll('#numbers tr').length === 9")
        page.click("summary")
        for _ in range(7):
            daemon.post("/embed", {"inputs": ["one text", "another text"]})
        daemon.post("/generate", {"inputs": "The", "parameters": {"max_new_tokens": 4}})
        most = """(name) => { const row = [...document.querySelectorAll('#numbers tr')].find((tr) => tr.firstChild.textContent.startsWith(name));
            return row && Number(row.lastChild.textContent) > 0; }"""
        for name in ("Tokens", "Requests", "Latency: median", "Latency: 95", "Batch size", "New tokens"):
            page.wait_for_function(most, arg=name)
        # batches of /embed have two sequences, and those of a generation have one
        assert 1 < float(page.locator("#numbers tr", has_text="Batch size").locator("td").last.inner_text()) <= 2
        assert re.match(r"Requests, /s: requests \S+", page.locator(".chart svg").nth(1).get_attribute("aria-label"))
        page.select_option("#load-model", "builtin-writer")
        page.wait_for_function("() => document.querySelectorAll('#numbers tr').length >= 5")


def a_hidden_or_paused_page_requests_nothing(browser):
    """While the page is hidden, or after Pause, the page requests nothing."""
    with Daemon() as daemon, opened(browser, daemon) as page:
        seen = []
        page.on("request", lambda request: seen.append(request.url))
        with page.expect_response("**/health"):
            pass
        page.evaluate("""() => { Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
            document.dispatchEvent(new Event("visibilitychange")); }""")
        seen.clear()
        page.wait_for_timeout(3500)
        assert seen == [], seen
        with page.expect_response("**/metrics"):
            page.evaluate("() => { delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); }")
        page.click("#pause")
        seen.clear()
        page.wait_for_timeout(3500)
        assert seen == [] and page.get_attribute("#pause", "aria-pressed") == "true"
        with page.expect_response("**/metrics"):
            page.click("#pause")


def the_page_says_if_the_models_have_changed(browser):
    with Daemon("--model-control") as daemon, opened(browser, daemon) as page:
        page.wait_for_function("() => document.querySelectorAll('#numbers tr').length > 0")
        assert page.inner_text("#load-note") == ""
        daemon.post("/v2/repository/models/builtin-writer/unload", {})
        page.wait_for_function("() => document.getElementById('load-note').textContent.startsWith('The models have changed.')")
        page.reload()
        page.wait_for_function("() => document.querySelectorAll('#plan-view tbody tr').length > 0")
        assert page.locator("#model-list h3").all_inner_texts() == ["builtin"]


def the_page_draws_each_step_of_the_plan(browser):
    with Daemon() as daemon, opened(browser, daemon) as page:
        for tokens in (256, 9):
            page.fill("#plan-tokens", str(tokens))
            page.locator("#plan-tokens").blur()
            plan = json.loads(daemon.get(f"/v2/models/builtin/plan?tokens={tokens}"))
            steps = [step for step in plan["steps"] if step["runs"]]
            page.wait_for_function("(text) => document.getElementById('plan-note').textContent.includes(text)", arg=f"for {tokens} rows")
            assert page.locator("#plan-view td.operation").all_inner_texts() == [step["operation"] for step in steps]
            written, arcs = set(), 0
            for step in steps:
                arcs += sum(read["value"] in written for read in step["reads"])
                written |= {step["writes"]["value"]} if step["writes"] else set()
            assert page.locator("#plan-view svg path").count() == arcs > len(steps) - 3


def compared_texts_are_sorted_by_similarity(browser):
    with Daemon() as daemon, opened(browser, daemon, ["422"]) as page:
        lines = page.input_value("#compare textarea").split("\n")
        submit(page, "compare")
        vectors = daemon.post("/embed", {"inputs": lines})
        cosine = lambda a, b: sum(x * y for x, y in zip(a, b)) / math.hypot(*a) / math.hypot(*b)
        order = sorted(range(1, len(lines)), key=lambda i: -cosine(vectors[0], vectors[i]))
        shown = page.locator("#compare ol li").all_inner_texts()
        assert [text.rsplit(" ", 1)[0] for text in shown] == [lines[i] for i in order]
        cells = [float(text) for text in page.locator("#compare tbody td").all_inner_texts()]
        for i, a in enumerate(vectors):
            for j, b in enumerate(vectors):
                assert abs(cells[i * len(lines) + j] - cosine(a, b)) < 6e-4
        page.fill("#compare textarea", "alone")
        submit(page, "compare")
        assert page.inner_text("#compare .error") == "Write at least two lines."
        page.check("#compare [name=ids]")
        page.fill("#compare textarea", "75 108\n75 108\n5 6 900")
        submit(page, "compare")
        assert "900" in page.inner_text("#compare .error")


def masks_in_a_text_are_filled_with_likely_letters(browser):
    with Daemon() as daemon, opened(browser, daemon, ["422"]) as page:
        page.fill("#fill textarea", "This option ca[MASK] be used more than o[MASK]ce.")
        submit(page, "fill")
        assert page.locator("#fill mark").all_inner_texts() == ["n", "n"]
        assert page.inner_text("#fill p.text") == "This option can be used more than once."
        assert page.locator("#fill .guess").count() == 8
        page.fill("#fill textarea", "no mask")
        submit(page, "fill")
        assert "does not contain the mask token" in page.inner_text("#fill .error")
    with Daemon("--model", "weights/builtin") as daemon, opened(browser, daemon) as page:
        submit(page, "fill")
        assert page.locator("#fill mark").all_text_contents() == [" than"]
        assert page.text_content("#fill p.text") == "This option can be used more than once."


def the_streamed_text_is_that_of_generate(browser):
    with Daemon() as daemon, opened(browser, daemon) as page:
        page.fill("#generate [name=temperature]", "0")
        page.fill("#generate [name=count]", "12")
        submit(page, "generate")
        text = daemon.post("/generate", {"inputs": "If the option", "parameters": {"max_new_tokens": 12, "do_sample": False}})
        assert page.evaluate("document.querySelector('#generate .stream').textContent") == "If the option" + text["generated_text"]
        assert page.inner_text("#generate .measure").startswith("12 tokens, the first after ")


def the_stop_button_ends_a_generation(browser):
    """The stream cannot end before Stop is pressed: the model has no end token, and the daemon is suspended at that
    time."""
    with Daemon("--model", "tests/reference/linear_attention_lm_causal") as daemon, opened(browser, daemon) as page:
        page.fill("#generate textarea", "5 6 7")
        page.fill("#generate [name=count]", "100000")
        page.click("#generate button.main")
        page.wait_for_function("() => document.querySelectorAll('#generate .stream').length && document.querySelector('#generate .stream').textContent.length > 200")
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            page.click("#generate [name=stop]")
            page.wait_for_function("() => !document.querySelector('#generate button.main').disabled")
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        assert 1 < int(page.inner_text("#generate .measure").split()[0]) < 100000


def the_page_offers_only_what_a_model_can_do(browser):
    """An image is classified. The page offers only what a model can do, and gives the reason for what is missing."""
    picture = "tests/images/rgb.png"
    models = ["vit_linformer", "tagger", "token_classifier"]
    arguments = [word for name in models for word in ("--model", MODULES + name)] + ["--model", "tests/reference/linformer_encoder"]
    with Daemon(*arguments) as daemon, opened(browser, daemon) as page:
        assert page.locator("#classify select option").all_inner_texts() == ["vit_linformer", "token_classifier"]
        page.set_input_files("#classify input[type=file]", picture)
        submit(page, "classify")
        with open(picture, "rb") as file:
            request = urllib.request.Request(daemon.url + "/predict", file.read(), {"Content-Type": "image/png"})
        with urllib.request.urlopen(request) as answer:
            best = json.load(answer)[0]
        assert page.locator("#classify .guess").first.inner_text().split("\n")[0] == best["label"]
        assert page.evaluate("document.querySelector('#classify img').naturalWidth") > 0
        page.select_option("#classify [name=model]", "token_classifier")
        page.fill("#classify textarea", "5 17 3")
        submit(page, "classify")
        assert page.locator("#classify .guess").count() == 3
        assert "No loaded model can do this." in page.inner_text("#generate")
        assert "linformer_encoder does not return logits over a vocabulary" in page.inner_text("#generate")
        assert "tagger needs the inputs ids and kinds" in page.inner_text("#fill")
        assert page.locator("#look select[name=model] option").all_inner_texts() == ["token_classifier"]
        submit(page, "look")
        assert page.inner_text("#cell").startswith('layer 0, head 0, row 0 "5", column 0: 0.')


def pointer_and_keys_show_the_attention_of_a_cell(browser):
    text = "This option can be used more than once."
    with Daemon() as daemon, opened(browser, daemon) as page:
        submit(page, "look")
        inputs = [{"name": "x", "datatype": "BYTES", "shape": [1], "data": [text]}]
        outputs = daemon.post("/v2/models/builtin/infer", {"inputs": inputs, "outputs": [{"name": f"attention.{i}"} for i in range(4)]})["outputs"]

        def expected(layer, head, row, column):
            _, heads, n, k = outputs[layer]["shape"]
            return outputs[layer]["data"][(head * n + row) * k + column]

        def check():
            found = re.fullmatch(r'layer (\d+), head (\d+), row (\d+) "(.+)", column (\d+): (\S+)', page.inner_text("#cell"))
            layer, head, row, column = (int(found.group(i)) for i in (1, 2, 3, 5))
            assert found.group(4) == text[row].replace(" ", "␣")
            assert math.isclose(float(found.group(6)), expected(layer, head, row, column), rel_tol=1e-3), found.group(0)
            return layer, head, row, column

        assert check() == (0, 0, 0, 0)
        page.focus("#heads")
        for press in ("ArrowRight", "ArrowRight", "ArrowDown", "PageDown"):
            page.keyboard.press(press)
        assert check() == (0, 1, 1, 2)
        page.keyboard.press("End")
        page.keyboard.press("PageUp")
        page.keyboard.press("PageUp")
        assert check() == (3, 3, 1, 31)
        assert page.inner_text("#one-title") == "Layer 3, head 3"
        page.locator("#heads").scroll_into_view_if_needed()
        box = page.locator("#heads").bounding_box()
        places = set()
        for share in (.2, .35, .5, .65, .8):
            page.mouse.move(box["x"] + share * box["width"], box["y"] + share * box["height"])
            places.add(check())
        assert len(places) >= 3
        page.select_option("#look [name=layer]", "2")
        submit(page, "look")
        assert check()[0] == 0 or page.inner_text("#cell").startswith("layer 2")


def the_saved_picture_is_that_of_the_daemon(browser):
    with Daemon() as daemon, opened(browser, daemon) as page:
        submit(page, "look")
        with page.expect_download() as download:
            page.click("#look [name=save]")
        with open(download.value.path(), "rb") as file:
            saved = file.read()
        text = urllib.parse.quote("This option can be used more than once.")
        assert saved == daemon.get(f"/v2/models/builtin/attention.png?text={text}&scale=each")
        assert Image.open(io.BytesIO(saved)).format == "PNG"


def the_program_in_console_md_draws_a_picture(browser):
    """The Python program in docs/console.md runs without changes."""
    with open("docs/console.md") as file:
        program = re.search(r"```python\n(.*?)```", file.read(), re.DOTALL).group(1)
    with Daemon() as daemon, tempfile.TemporaryDirectory() as folder:
        program = program.replace("http://localhost:8080", daemon.url)
        environment = {**os.environ, "MPLBACKEND": "Agg", "MPLCONFIGDIR": folder}
        subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, check=True)
        picture = Image.open(os.path.join(folder, "attention.png"))
        assert picture.format == "PNG" and len(picture.convert("RGB").getcolors(1 << 24)) > 100


# ---- From outside


@contextlib.contextmanager
def named_models(names):
    """The arguments of the daemon for models whose config.json contains these names."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = []
        for index, name in enumerate(names):
            path = os.path.join(folder, str(index))
            shutil.copytree("tests/reference/linformer_lm", path)
            with open(os.path.join(path, "config.json")) as file:
                config = json.load(file)
            with open(os.path.join(path, "config.json"), "w") as file:
                json.dump(config | {"name": name}, file)
            arguments += ["--model", path]
        yield arguments


def hostile_model_names_are_shown_as_text(browser):
    with named_models(HOSTILE) as arguments, Daemon(*arguments) as daemon, opened(browser, daemon) as page:
        assert page.locator("#model-list h3").all_inner_texts() == HOSTILE
        assert page.locator("#model-list img, #model-list b, main script").count() == 0
        for name in HOSTILE:
            page.select_option("#look [name=model]", name)
            submit(page, "look")
            assert page.locator("#look .error").count() == 0, page.inner_text("#look .error")
            page.select_option("#plan-model", name)
            page.select_option("#load-model", name)
            page.select_option("#compare [name=model]", name)
            submit(page, "compare")
            assert page.locator("#compare table.cosines").count() == 1
        assert page.title() == "linformerd console"


def hostile_texts_are_shown_as_text(browser):
    with Daemon() as daemon, opened(browser, daemon) as page:
        page.fill("#compare textarea", "\n".join(HOSTILE))
        page.fill("#fill textarea", HOSTILE[0] + "[MASK]")
        page.fill("#look textarea", HOSTILE[1])
        for form in ("compare", "fill", "look"):
            submit(page, form)
        assert page.locator("#compare ol img, #fill p img, #picture script").count() == 0
        assert page.locator("#compare ol li").count() == 2
        assert page.title() == "linformerd console"


def the_page_asks_for_the_api_key_and_does_not_store_it(browser):
    with Daemon("--api-key", KEY, "--protect-metrics") as daemon:
        with opened(browser, daemon, [r"401 \(Unauthorized\)"], ready=None) as page:
            page.wait_for_selector("#key:not([hidden])")
            page.fill("#key-text", "wrong")
            page.click("#key button.main")
            page.wait_for_function("() => document.getElementById('key-note').textContent.includes('key is wrong')")
            page.fill("#key-text", KEY)
            page.keyboard.press("Enter")
            page.wait_for_function("() => document.getElementById('state').textContent === 'ready'")
            page.wait_for_function("() => document.querySelectorAll('#plan-view tbody tr').length > 0")
            assert page.is_hidden("#key")
            for form in ("compare", "fill", "generate", "look"):
                submit(page, form)
                assert page.locator(f"#{form} .error").count() == 0
            with page.expect_download():
                page.click("#look [name=save]")
            kept = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie, location.href, document.getElementById('key-text').value]")
            assert kept == [0, 0, "", daemon.url + "/", ""]


def the_page_says_if_the_daemon_does_not_answer(browser):
    daemon = Daemon()
    with daemon, opened(browser, daemon, ["ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET", "503"]) as page:
        daemon.process.terminate()
        page.wait_for_function("() => document.getElementById('state').textContent === 'the daemon does not answer'")


TESTS = [
    the_page_shows_models_and_version_of_the_daemon, axe_finds_no_fault_of_accessibility,
    a_phone_needs_no_sideways_scrolling, all_controls_are_reached_by_tab,
    nothing_moves_if_the_user_prefers_less_motion, scripts_and_styles_from_elsewhere_have_no_effect,
    charts_follow_the_metrics, a_hidden_or_paused_page_requests_nothing, the_page_says_if_the_models_have_changed,
    the_page_draws_each_step_of_the_plan, compared_texts_are_sorted_by_similarity,
    masks_in_a_text_are_filled_with_likely_letters, the_streamed_text_is_that_of_generate,
    the_stop_button_ends_a_generation, the_page_offers_only_what_a_model_can_do,
    pointer_and_keys_show_the_attention_of_a_cell, the_saved_picture_is_that_of_the_daemon,
    the_program_in_console_md_draws_a_picture, hostile_model_names_are_shown_as_text, hostile_texts_are_shown_as_text,
    the_page_asks_for_the_api_key_and_does_not_store_it, the_page_says_if_the_daemon_does_not_answer,
]


def take_screenshots(browser, folder):
    """Writes the pictures of docs/console.md."""
    with Daemon("--threads", "1") as daemon:
        for name, width, height, scheme in (("desktop-light", 1280, 1500, "light"), ("desktop-dark", 1280, 1400, "dark"), ("phone", 360, 780, "light")):
            with opened(browser, daemon, color_scheme=scheme, viewport={"width": width, "height": height}) as page:
                for turn in range(150):
                    daemon.post("/embed", {"inputs": ["some text to embed " * (1 + turn * 7 % 5)] * (1 + turn * 5 % 9)})
                    if turn % 4 == 0:
                        daemon.post("/generate", {"inputs": "The", "parameters": {"max_new_tokens": 8 + turn * 3 % 40}})
                    page.wait_for_timeout(100)
                use_all_forms(page)
                page.evaluate("document.querySelectorAll('details').forEach((node) => { node.open = false; })")
                start = {"desktop-light": "header", "desktop-dark": "#try", "phone": "header"}[name]
                page.locator(start).evaluate("(node) => node.scrollIntoView({ behavior: 'instant' })")
                page.mouse.move(0, 0)
                shot = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
                shot = shot.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
                shot.save(os.path.join(folder, f"{name}.png"), optimize=True)
        with open(os.path.join(folder, "attention.png"), "wb") as file:
            file.write(daemon.get("/v2/models/builtin/attention.png?text=This+option+can+be+used+more+than+once.&layer=3&cell=6"))


def main():
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    chosen = [test for test in TESTS if not sys.argv[1:] or test.__name__ in sys.argv[1:]]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        if os.environ.get("SCREENSHOTS"):
            take_screenshots(browser, os.environ["SCREENSHOTS"])
            return 0
        failed = tap.run([(test.__name__.replace("_", " "), functools.partial(test, browser)) for test in chosen])
        browser.close()
    return 1 if failed else 0


sys.exit(main())
