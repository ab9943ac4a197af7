/* The forms: compare, fill, generate, classify. */

/* ---- Texts and ids ---- */

function idsOf(text) {
    const words = text.split(/[\s,]+/).filter(Boolean);
    if (!words.length || words.some((word) => !/^\d{1,9}$/.test(word))) throw new Error(`"${text.slice(0, 40)}" is not a list of ids such as 5 17 3`);
    return words.map(Number);
}

const inputOf = (form, model, text) => sendsIds(form, model) ? idsOf(text) : text;

/* ---- Try it: compare ---- */

async function compare(form) {
    const model = chosen(form), place = form.querySelector(".answer");
    const lines = form.elements.text.value.split("\n").map((line) => line.trim()).filter(Boolean);
    if (lines.length < 2) throw new Error("Write at least two lines.");
    if (lines.length > 40) throw new Error("Write at most 40 lines.");
    const body = { model: model.name, inputs: lines.map((line) => inputOf(form, model, line)), normalize: true };
    const vectors = await (await post("embed", body)).json();
    const cosines = vectors.map((a) => vectors.map((b) => a.reduce((sum, value, i) => sum + value * b[i], 0)));
    const off = cosines.flatMap((row, i) => row.filter((_, j) => i !== j)), low = Math.min(...off), high = Math.max(...off);
    const scaled = (value) => high - low > 1e-9 ? (value - low) / (high - low) : 1;
    const order = lines.map((_, i) => i).slice(1).sort((a, b) => cosines[0][b] - cosines[0][a]);
    const table = element("table", { className: "cosines" }, element("caption", { className: "quiet",
        textContent: "Cosine of each pair. The colours span the pairs' values." }),
    element("thead", {}, element("tr", {}, element("td", {}), ...lines.map((_, i) => element("th", { scope: "col", className: "number", textContent: String(i + 1) })))),
    element("tbody", {}, ...lines.map((line, i) => element("tr", {}, element("th", { scope: "row", textContent: `${i + 1} ${line}` }),
        ...lines.map((_, j) => {
            const cell = element("td", { textContent: i === j ? "1" : cosines[i][j].toFixed(3) });
            paint(cell, i === j ? 1 : scaled(cosines[i][j]));
            return cell;
        })))));
    place.replaceChildren(element("p", { className: "quiet", textContent: "Nearest to the first line:" }),
        element("ol", { className: "nearest" }, ...order.map((i) => element("li", {}, lines[i], element("span", { className: "quiet", textContent: ` ${cosines[0][i].toFixed(4)}` })))),
        element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Cosines" }, table));
}

/* ---- Try it: fill ---- */

/* A list of names with a bar for each score. `list` contains [name, score]. */
function bars(list) {
    const most = Math.max(1e-30, ...list.map(([, score]) => score));
    return element("div", {}, ...list.map(([name, score]) => {
        const bar = element("i", {});
        bar.style.width = `${Math.max(0, (100 * score) / most)}%`;
        return element("div", { className: "guess" }, element("span", { className: "mono", textContent: name }), element("span", {}, bar),
            element("span", { className: "quiet", textContent: score.toFixed(score < .001 ? 5 : 3) }));
    }));
}

const visible = (text) => text === "" ? "∅" : text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥");

async function fill(form) {
    const model = chosen(form), place = form.querySelector(".answer"), text = form.elements.text.value;
    const body = { model: model.name, inputs: text, parameters: { top_k: Number(form.elements.top.value) || 4 } };
    const answer = await (await post("fill-mask", body)).json();
    const masks = Array.isArray(answer[0]) ? answer : [answer];
    const parts = text.split("[MASK]"), line = element("p", { className: "text" });
    parts.forEach((part, i) => {
        const guess = i < parts.length - 1 && masks[i] ? masks[i][0].token_str : null;
        line.append(guess?.startsWith(" ") ? part.trimEnd() : part, ...(guess === null ? [] : [element("mark", { textContent: guess })]));
    });
    place.replaceChildren(...(parts.length === masks.length + 1 ? [line] : []), element("div", { className: "guesses" }, ...masks.map((guesses, i) =>
        element("div", {}, element("p", { className: "quiet", textContent: `mask ${i + 1}` }), bars(guesses.map((guess) => [visible(guess.token_str), guess.score]))))));
}

/* ---- Try it: generate ---- */

/* Parses each event of a stream of server-sent events as JSON, and calls `hear` with the result. */
async function events(answer, hear) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = "";;) {
        const { value, done } = await reader.read();
        if (done) return;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines)
            if (line.startsWith("data:") && line.slice(5).trim() !== "[DONE]") hear(JSON.parse(line.slice(5)));
    }
}

let stream = null; /* the AbortController of the latest generation */

async function generate(form) {
    const model = chosen(form), place = form.querySelector(".answer"), measure = form.querySelector(".measure");
    const text = form.elements.text.value, temperature = Number(form.elements.temperature.value);
    const parameters = { max_new_tokens: Number(form.elements.count.value) || 60, do_sample: temperature > 0 };
    if (temperature > 0) parameters.temperature = temperature;
    const fresh = element("span", {});
    const box = element("p", { className: "text stream", tabIndex: 0, role: "group", "aria-label": "Generated text" }, element("span", { className: "given", textContent: text }), fresh);
    const begun = performance.now();
    let first = 0, tokens = 0, waiting = "";
    /* Tokens may arrive faster than the browser can lay out the page. So new text is added once for each frame. */
    const show = () => {
        if (!waiting) return;
        fresh.append(waiting);
        waiting = "";
        box.scrollTop = box.scrollHeight;
    };
    stream = new AbortController();
    form.elements.stop.disabled = false;
    measure.textContent = "";
    try {
        const answer = await post("generate_stream", { model: model.name, inputs: inputOf(form, model, text), parameters }, { signal: stream.signal });
        place.replaceChildren(box);
        await events(answer, (event) => {
            if (event.error) throw new Error(typeof event.error === "string" ? event.error : event.error.message);
            if (!event.token) return;
            first = first || performance.now();
            tokens++;
            if (!waiting) requestAnimationFrame(show);
            waiting += model.tokenizer ? event.token.text : ` ${event.token.id}`;
        });
    } finally {
        form.elements.stop.disabled = true;
        show();
        const seconds = (performance.now() - first) / 1000;
        if (tokens)
            measure.textContent = `${tokens} tokens, the first after ${milliseconds(first - begun)} ms` + (tokens > 1 && seconds > 0 ? `, then ${count((tokens - 1) / seconds)} a second` : "");
    }
}

/* ---- Try it: classify ---- */

function base64(buffer) {
    const data = new Uint8Array(buffer);
    let text = "";
    for (let i = 0; i < data.length; i += 8192) text += String.fromCharCode(...data.subarray(i, i + 8192));
    return btoa(text);
}

let preview = null; /* the URL of the image that is shown */

async function classify(form) {
    const model = chosen(form), place = form.querySelector(".answer"), image = kindOf(model) === "image";
    const file = form.elements.file.files[0];
    if (image && !file) throw new Error("Choose a file first.");
    const inputs = image ? base64(await file.arrayBuffer()) : inputOf(form, model, form.elements.text.value);
    const answer = await (await post("predict", { model: model.name, inputs, top_k: Math.min(10, model.output_columns) })).json();
    const list = Array.isArray(answer[0]) ? answer[0] : answer;
    const nodes = [bars(list.map((one) => [one.label, one.score]))];
    if (preview) URL.revokeObjectURL(preview);
    preview = image ? URL.createObjectURL(file) : null;
    if (image) nodes.unshift(element("img", { className: "preview", src: preview, alt: `The chosen image ${file.name}` }));
    place.replaceChildren(...nodes);
}
