"use strict";
/* The script of the console. It reads the routes of the daemon, and draws what they return. Text from outside enters the
 * page through textContent alone. The page runs under a strict policy: no eval, no inline handlers, no markup from
 * strings. Paths are relative, because a proxy may serve the page at another path than "/". */
(() => {
const $ = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const POINTS = 120;          /* values of a chart */
const POLL_MS = 1000, CALM_POLL_MS = 5000;
const MOST_WEIGHTS = 4e6;    /* most weights of attention to fetch at once */
let key = null;              /* the API key. It is kept nowhere else */
let models = [];             /* as in /info */

/* ---- The page ---- */

/* Makes an element. Children are nodes, or texts. */
function element(tag, properties, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
        if (name in node) node[name] = value;
        else node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
}

function drawn(tag, attributes) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
}

function count(value) {
    const units = ["", " k", " M", " G", " T", " P"];
    let unit = 0;
    while (Math.abs(value) >= 1000 && unit < units.length - 1) { value /= 1000; unit++; }
    return (unit === 0 && Number.isInteger(value) ? String(value) : value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)) +
        units[unit];
}

const whole = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");

function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit++; }
    return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

function duration(seconds) {
    const s = Math.floor(seconds), parts = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
    if (parts[0]) return `${parts[0]} d ${parts[1]} h`;
    if (parts[1]) return `${parts[1]} h ${parts[2]} min`;
    return parts[2] ? `${parts[2]} min ${s % 60} s` : `${s} s`;
}

/* ---- Requests ---- */

class Refused extends Error {
    constructor(status, message) { super(message); this.status = status; }
}

async function call(path, options = {}) {
    const headers = { ...(options.headers || {}) };
    if (key !== null) headers.Authorization = `Bearer ${key}`;
    if (options.body) headers["Content-Type"] = "application/json";
    const answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit", redirect: "error" });
    if (answer.ok) return answer;
    let message = `status ${answer.status}`;
    try {
        const body = await answer.json();
        message = typeof body.error === "string" ? body.error : (body.error && body.error.message) || message;
    } catch { /* the body is not JSON */ }
    if (answer.status === 401) askForKey(message);
    throw new Refused(answer.status, message);
}

const post = (path, body, more) => call(path, { method: "POST", body: JSON.stringify(body), ...more });
const modelPath = (name, rest) => `v2/models/${encodeURIComponent(name)}${rest}`;

function askForKey(message) {
    $("key").hidden = false;
    $("key-note").textContent = key === null ? "" : message;
    $("key-note").className = "answer error";
    state("an API key is needed", "bad");
}

/* Runs an action of a form. Shows its failure in `place`. */
async function attempt(form, place, action) {
    const button = form.querySelector("button.main");
    button.disabled = true;
    try {
        await action();
    } catch (failure) {
        if (failure.name !== "AbortError")
            place.replaceChildren(element("p", { className: "error", textContent: failure.message }));
    } finally {
        button.disabled = false;
    }
}

/* ---- Facts ---- */

function state(text, mood) {
    const node = $("state");
    if (node.textContent !== text) node.textContent = text;
    node.className = mood;
}

function facts(list) {
    $("facts").replaceChildren(...list.map(([name, value]) =>
        element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: value }))));
}

/* ---- Metrics ---- */

/* Parses the text format of Prometheus to a list of {name, labels, value}. */
function samplesOf(text) {
    const samples = [], unescape = (value) => value.replace(/\\(.)/g, (_, c) => c === "n" ? "\n" : c);
    for (const line of text.split("\n")) {
        const match = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
        if (!match) continue;
        const labels = {};
        for (const [, name, value] of (match[2] || "").matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g))
            labels[name] = unescape(value);
        samples.push({ name: match[1], labels, value: Number(match[3]) });
    }
    return samples;
}

/* The sums of samples over the chosen models, by name. Histograms of durations keep their buckets. */
function summary(samples, model) {
    const sums = new Map(), buckets = new Map();
    for (const { name, labels, value } of samples) {
        if (model && labels.model !== model) continue;
        if (name === "linformerd_request_duration_seconds_bucket" && labels.model) {
            buckets.set(labels.le, (buckets.get(labels.le) || 0) + value);
            continue;
        }
        if (name === "linformerd_requests_total" && !labels.model) continue;
        sums.set(name, (sums.get(name) || 0) + value);
    }
    return { get: (name) => sums.get(`linformerd_${name}`) || 0, has: (name) => sums.has(`linformerd_${name}`), buckets };
}

/* The duration that a share of the requests between two readings did not exceed, in milliseconds. */
function quantile(before, after, share) {
    const bounds = [...after.buckets.keys()].map((le) => [le === "+Inf" ? Infinity : Number(le), le])
        .sort((a, b) => a[0] - b[0]);
    const counts = bounds.map(([, le]) => after.buckets.get(le) - (before.buckets.get(le) || 0));
    const total = counts.length ? counts[counts.length - 1] : 0;
    if (!(total > 0)) return null;
    let lower = 0, below = 0;
    for (let i = 0; i < bounds.length; i++) {
        if (counts[i] >= share * total) {
            const upper = bounds[i][0] === Infinity ? lower : bounds[i][0];
            const inside = counts[i] - below;
            return 1000 * (lower + (upper - lower) * (inside > 0 ? (share * total - below) / inside : 1));
        }
        lower = bounds[i][0];
        below = counts[i];
    }
    return null;
}

const per = (a, b) => b > 0 ? a / b : null;
const milliseconds = (value) => value < 10 ? value.toFixed(2) : value.toFixed(value < 100 ? 1 : 0);
/* Each series is a function of two readings and of the seconds between them. null: there is no value. */
const CHARTS = [
    { name: "Tokens", unit: "/s", series: [["tokens", (a, b, s) => (b.get("batch_tokens_sum") - a.get("batch_tokens_sum")) / s]] },
    { name: "Requests", unit: "/s", series: [["requests", (a, b, s) => (b.get("requests_total") - a.get("requests_total")) / s]] },
    { name: "Latency", unit: "ms", format: milliseconds, gaps: true,
      series: [["median", (a, b) => quantile(a, b, .5)], ["95 %", (a, b) => quantile(a, b, .95)]] },
    { name: "Queue", unit: "sequences", series: [["waiting", (a, b) => b.get("queue_requests")]] },
    { name: "Batch size", unit: "sequences", gaps: true,
      series: [["mean", (a, b) => per(b.get("batch_items_sum") - a.get("batch_items_sum"), b.get("batch_items_count") - a.get("batch_items_count"))]] },
    { name: "Generations", unit: "", needs: "generation_slots",
      series: [["running", (a, b) => b.get("generations_running")], ["waiting", (a, b) => b.get("generations_waiting")]] },
    { name: "New tokens", unit: "/s", needs: "generation_slots",
      series: [["tokens", (a, b, s) => (b.get("generation_tokens_total") - a.get("generation_tokens_total")) / s]] },
];

class Chart {
    constructor(plan) {
        this.plan = plan;
        this.values = plan.series.map(() => []);
        this.now = element("span", { className: "now", textContent: "–" });
        this.least = element("span", { textContent: "" });
        this.svg = drawn("svg", { viewBox: "0 0 300 80", preserveAspectRatio: "none", role: "img" });
        this.area = drawn("path", { class: "area" });
        this.lines = plan.series.map((_, i) => drawn("path", { class: i ? "second" : "first" }));
        for (const y of [1, 40, 79]) this.svg.append(drawn("line", { x1: 0, x2: 300, y1: y, y2: y, class: "grid" }));
        this.svg.append(this.area, ...this.lines);
        const legend = plan.series.length < 2 ? [] : plan.series.map(([name], i) =>
            element("span", { className: i ? "key-second" : "key-first", textContent: name }));
        this.figure = element("figure", { className: "chart" },
            element("figcaption", {}, element("span", { className: "name", textContent: plan.name }), this.now),
            this.svg, element("div", { className: "scale" }, this.least, ...legend, legend.length ? null : calm.matches ? "10 min" : "2 min"));
        this.row = element("tr", {});
    }

    text(value) { return value === null ? "–" : (this.plan.format || count)(value); }

    add(before, after, seconds) {
        this.figure.hidden = Boolean(this.plan.needs) && !after.has(this.plan.needs);
        this.plan.series.forEach(([, read], i) => {
            const value = read(before, after, seconds);
            this.values[i].push(value === null && !this.plan.gaps ? 0 : value);
            if (this.values[i].length > POINTS) this.values[i].shift();
        });
    }

    draw() {
        const known = this.values.flat().filter((value) => value !== null), top = Math.max(0, ...known) || 1;
        const x = (i, n) => (300 * (POINTS - n + i)) / (POINTS - 1), y = (value) => 79 - 78 * (value / top);
        this.values.forEach((values, line) => {
            let path = "", pen = false;
            values.forEach((value, i) => {
                if (value === null) { pen = false; return; }
                const alone = !pen && (i + 1 === values.length || values[i + 1] === null);
                path += `${pen ? "L" : "M"}${x(i, values.length).toFixed(1)} ${y(value).toFixed(1)}${alone ? "h1.5" : ""}`;
                pen = true;
            });
            this.lines[line].setAttribute("d", path || "M0 79");
            if (line === 0 && !this.plan.gaps && values.length > 1)
                this.area.setAttribute("d", `${path}V79H${x(0, values.length).toFixed(1)}Z`);
        });
        const last = this.values.map((values) => values[values.length - 1] ?? null);
        const shown = this.plan.gaps ? this.values.map((values) => values.findLast((value) => value !== null) ?? null) : last;
        this.now.replaceChildren(shown.map((value) => this.text(value)).join(" · "),
            element("small", { textContent: this.plan.unit ? ` ${this.plan.unit}` : "" }));
        this.least.textContent = `top ${known.length ? this.text(top) : "–"}`;
        this.svg.setAttribute("aria-label", `${this.plan.name}, ${this.plan.unit || "sequences"}: ` + this.plan.series.map(
            ([name], i) => `${name} ${this.text(shown[i])}`).join(", ") + `, most ${this.text(known.length ? top : null)}`);
        this.tabulate(shown);
    }

    tabulate(shown) {
        const rows = this.plan.series.map(([name], i) => {
            const known = this.values[i].filter((value) => value !== null);
            const mean = known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
            const numbers = [shown[i], known.length ? Math.min(...known) : null, mean, known.length ? Math.max(...known) : null];
            return element("tr", {}, element("th", { scope: "row", textContent: `${this.plan.name}: ${name} ${this.plan.unit}` }),
                ...numbers.map((value) => element("td", { className: "number", textContent: this.text(value) })));
        });
        this.rows = this.figure.hidden ? [] : rows;
    }
}

const load = { charts: CHARTS.map((plan) => new Chart(plan)), before: null, paused: false, timer: 0, busy: false, changed: false };

function reading(samples) {
    return summary(samples, $("load-model").value);
}

function drawLoad() {
    load.charts.forEach((chart) => chart.draw());
    $("numbers").replaceChildren(...load.charts.flatMap((chart) => chart.rows));
}

function resetLoad() {
    load.before = null;
    for (const chart of load.charts) chart.values = chart.values.map(() => []);
    drawLoad();
}

/* Whether the daemon has loaded or unloaded models since the page was opened. */
function modelsChanged(samples) {
    const names = samples.filter(({ name }) => name === "linformerd_queue_requests").map(({ labels }) => labels.model);
    return models.length > 0 && names.sort().join("\n") !== models.map(({ name }) => name).sort().join("\n");
}

async function readMetrics() {
    const samples = samplesOf(await (await call("metrics")).text());
    const at = performance.now(), total = summary(samples, "");
    const after = reading(samples);
    const before = load.before;
    load.before = { at, model: $("load-model").value, after };
    showFacts(total);
    load.changed = modelsChanged(samples);
    if (!before || before.model !== load.before.model) return;
    if (after.get("batch_tokens_count") < before.after.get("batch_tokens_count")) return; /* the daemon has started again */
    load.charts.forEach((chart) => chart.add(before.after, after, (at - before.at) / 1000));
    drawLoad();
}

async function readHealth() {
    try {
        const health = await (await call("health")).json();
        state(health.status === "ok" ? "ready" : "degraded: a device has failed", health.status === "ok" ? "good" : "bad");
    } catch (failure) {
        state(failure instanceof Refused ? failure.message : "the daemon does not answer", "bad");
    }
}

const resting = () => load.paused || document.hidden;

/* Reads once, and plans the next reading. A slow answer makes the pause longer, so that the page never adds much load. */
async function poll() {
    clearTimeout(load.timer);
    if (resting() || load.busy) return;
    load.busy = true;
    const begun = performance.now();
    let note = "";
    try {
        await readMetrics();
        note = load.changed ? "The models have changed. Reload this page to see them." : "";
        if (!resting() && (key !== null || $("key").hidden)) await readHealth();
    } catch (failure) {
        note = failure instanceof Refused ? `no metrics: ${failure.message}` : "";
        if (!(failure instanceof Refused)) state("the daemon does not answer", "bad");
        load.before = null;
    }
    load.busy = false;
    $("load-note").textContent = note;
    const wait = Math.max(calm.matches ? CALM_POLL_MS : POLL_MS, 10 * (performance.now() - begun));
    load.timer = setTimeout(poll, wait);
}

let infoFacts = [];
function showFacts(metrics) {
    facts([...infoFacts, ["up", duration(metrics.get("uptime_seconds"))], ["memory", bytes(metrics.get("resident_memory_bytes"))],
        ["connections", String(metrics.get("connections"))]]);
}

/* ---- Models ---- */

const gives = (model, route) => (model.routes || []).includes(route);
const required = (model) => model.inputs.filter((input) => !input.optional);
const kindOf = (model) => model.image ? "image" : model.inputs[0].kind === "ids" ? "ids" : "floats";

/* Why a model cannot compute from one text, one list of ids or one image. "" if it can. */
function inputFault(model) {
    if (required(model).length > 1) return `needs the inputs ${required(model).map((input) => input.name).join(" and ")}`;
    if (kindOf(model) === "floats") return "takes rows of floats, not texts or ids";
    return "";
}

const FAULTS = {
    compare: (model) => inputFault(model) || "gives no vector for an input",
    fill: (model) => inputFault(model) || (!model.has_logits ? "gives no logits over a vocabulary"
        : !model.tokenizer ? "has no tokenizer, so it has no mask token" : "has a tokenizer without a mask token"),
    generate: (model) => !model.has_logits ? "gives no logits over a vocabulary" : "is not causal: it reads tokens on both sides",
    classify: (model) => inputFault(model) || "gives rows for tokens, not scores for classes",
    look: (model) => inputFault(model) || (kindOf(model) === "image" ? "takes images, and this form sends texts"
        : "has no attention over k rows that it can return"),
};
const ROUTES = { compare: "/embed", fill: "/fill-mask", generate: "/generate", classify: "/predict", look: "/v2/models/{}/attention.png" };

/* The models that serve a form. Models that take only floats are left out. */
function able(form) {
    return models.filter((model) => gives(model, ROUTES[form.id]) &&
        (kindOf(model) !== "floats") && (form.id !== "compare" || kindOf(model) !== "image"));
}

const chosen = (form) => models.find((model) => model.name === form.elements.model.value);
const sendsIds = (form, model) => !model.tokenizer || Boolean(form.elements.ids && form.elements.ids.checked);

function options(select, names) {
    const before = select.value;
    select.replaceChildren(...names.map((name) => element("option", { value: name, textContent: name })));
    if (names.includes(before)) select.value = before;
}

/* Fills the list of models of a form. A form that no model serves says why. */
function offer(form) {
    const list = able(form);
    if (list.length) {
        options(form.elements.model, list.map((model) => model.name));
        changeModel(form);
        return;
    }
    const title = form.querySelector("h2, h3");
    form.replaceChildren(title.closest(".head") || title, element("p", { textContent: "No loaded model can do this." }),
        element("ul", { className: "quiet" }, ...models.map((model) =>
            element("li", {}, element("b", { textContent: model.name }), ` ${FAULTS[form.id](model)}.`))));
    form.classList.add("unable");
}

function changeModel(form) {
    const model = chosen(form), ids = form.elements.ids;
    if (ids) {
        ids.closest("label").hidden = kindOf(model) === "image";
        ids.disabled = !model.tokenizer;
        if (!model.tokenizer) ids.checked = true;
        else if (form.dataset.tokenizer === "none") ids.checked = false;
        form.dataset.tokenizer = model.tokenizer || "none";
    }
    const text = form.elements.text;
    if (text && !model.tokenizer && kindOf(model) === "ids" && !/^[\d\s,]*$/.test(text.value))
        text.value = form.id === "compare" ? "5 17 3\n5 17 4\n9 2" : "5 17 3 9 2 8";
    if (form.id === "classify") {
        form.querySelector(".for-image").hidden = kindOf(model) !== "image";
        form.querySelector(".for-text").hidden = kindOf(model) === "image";
    }
    if (form.id === "look") {
        const layers = attentionLayers.get(model.name);
        if (layers) layerOptions(form, layers);
        else readLayers(form, model);
    }
}

function modelCard(model) {
    const rows = [["class", model.architecture], ["takes", model.inputs.map((input) => `${input.name}${input.optional ? "?" : ""}`).join(", ")
        + ` · ${model.image ? `images ${model.image.join(" × ")}` : `up to ${whole(model.inputs[0].max_length)} rows`}`],
    ["gives", model.gives + (model.has_logits ? `, logits over ${whole(model.vocabulary)} ids` : `, ${model.output_columns} columns`)],
    ["text", model.tokenizer || "no tokenizer: ids only"], ["parameters", whole(model.parameters)],
    ["memory", `${bytes(model.weights_bytes)} weights, ${bytes(model.arena_bytes)} arena`
        + (model.slots ? `, ${model.slots} slots of ${bytes(model.slot_bytes)}` : "")],
    ["runs on", `${model.device}, ${model.dtype}${model.batch_invariant ? ", batch invariant" : ""}`],
    ["padding", model.padding]];
    if (kindOf(model) === "floats") rows[3][1] = "none: rows of floats";
    if (model.notice) rows.push(["notice", model.notice]);
    return element("article", { className: "card model" }, element("h3", { textContent: model.name }),
        element("dl", {}, ...rows.flatMap(([name, value]) => [element("dt", { textContent: name }),
            element("dd", { textContent: value, className: name === "class" ? "mono" : "" })])),
        element("ul", { className: "chips", "aria-label": "Routes that serve this model" }, ...(model.routes || []).map((route) =>
            element("li", { textContent: route.replace("/v2/models/{}", "…") })), element("li", { textContent: "…/infer" })));
}

async function readInfo() {
    const info = await (await call("info")).json();
    models = info.models;
    $("key").hidden = true;
    infoFacts = [["version", info.version], ["device", `${info.device}, ${info.dtype}`], ["kernels", info.kernels]];
    facts(infoFacts);
    $("model-list").replaceChildren(...models.map(modelCard));
    $("load-model").replaceChildren(element("option", { value: "", textContent: "all models" }),
        ...models.map((model) => element("option", { value: model.name, textContent: model.name })));
    options($("plan-model"), models.map((model) => model.name));
    for (const form of [$("compare"), $("fill"), $("generate"), $("classify"), $("look")]) offer(form);
    await readPlan(true);
}

/* ---- The plan ---- */

const ROW = 24, ARCS = 76;

/* An arc from one row to another one at the left of the table. Longer arcs reach further. */
function arc(from, to, role) {
    const y1 = from * ROW + ROW / 2, y2 = to * ROW + ROW / 2, reach = Math.min(ARCS - 18, 8 + 9 * Math.log2(1 + to - from));
    const x = ARCS - 10, d = to - from === 1 ? `M${x} ${y1}V${y2}` : `M${x} ${y1}C${x - reach} ${y1} ${x - reach} ${y2} ${x} ${y2}`;
    return drawn("path", { d, class: role === "z" ? "z" : "x" });
}

/* The last step in front of `row` that writes the value. -1 if none does. */
function writer(steps, row, value) {
    for (let i = row - 1; i >= 0; i--)
        if (steps[i].writes && steps[i].writes.value === value) return i;
    return -1;
}

const shape = (value) => value ? `${value.shape[0]} × ${value.shape[1]}` : "";

function stepRow(step, index, most, total) {
    const bar = element("i", {});
    bar.style.width = `${most > 0 ? (3.6 * step.flops) / most : 0}rem`;
    const share = total > 0 ? (100 * step.flops) / total : 0;
    const weights = step.weights.map((weight) => weight.name).join(", ");
    return element("tr", {}, element("td", {}), element("td", { className: "number quiet", textContent: String(index) }),
        element("td", { className: "operation", textContent: step.operation }),
        element("td", { textContent: step.reads.map(shape).join(", ") }), element("td", { textContent: shape(step.writes) || "result" }),
        element("td", { className: "share" }, element("span", { className: "bar" }, bar, step.flops ? `${share.toFixed(1)} %` : "")),
        element("td", { className: "number", textContent: step.flops ? count(step.flops) : "" }),
        element("td", { className: "number", textContent: bytes(step.bytes) }),
        element("td", { textContent: [step.settings, weights].filter(Boolean).join(" · ") }),
        element("td", { className: "formula", textContent: step.formula }));
}

function drawPlan(plan) {
    const steps = plan.steps.map((step, index) => ({ ...step, index })).filter((step) => step.runs);
    const most = Math.max(0, ...steps.map((step) => step.flops));
    const svg = drawn("svg", { class: "arcs", width: ARCS, height: Math.max(1, steps.length * ROW), "aria-hidden": "true" });
    steps.forEach((step, row) => {
        for (const read of step.reads) {
            const from = writer(steps, row, read.value);
            if (from >= 0) svg.append(arc(from, row, read.role));
        }
    });
    steps.forEach((_, row) => svg.append(drawn("circle", { cx: ARCS - 10, cy: row * ROW + ROW / 2, r: 2.6 })));
    const heads = ["flow", "step", "operation", "reads", "writes", "share", "FLOPs", "bytes", "settings and weights", "formula"];
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads.map((name, i) =>
        element("th", { scope: "col", textContent: name, className: [1, 6, 7].includes(i) ? "number" : "" })))),
    element("tbody", {}, ...steps.map((step) => stepRow(step, step.index, most, plan.flops))));
    $("plan-view").replaceChildren(svg, table);
    const left = plan.steps.length - steps.length;
    $("plan-note").textContent = `${steps.length} steps, ${count(plan.flops)} FLOPs for ${plan.rows} rows` +
        (left ? `; ${left} steps are for inputs of other lengths` : "");
}

async function readPlan(first) {
    const name = $("plan-model").value, model = models.find((one) => one.name === name);
    if (!model) return;
    const field = $("plan-tokens"), most = model.inputs[0].max_length;
    field.max = most;
    if (first || !(Number(field.value) >= 1 && Number(field.value) <= most)) field.value = Math.min(256, most);
    try {
        drawPlan(await (await call(`${modelPath(name, "/plan")}?tokens=${Number(field.value)}`)).json());
    } catch (failure) {
        $("plan-view").replaceChildren();
        $("plan-note").textContent = failure.message;
    }
}

/* ---- Colours of heat maps ---- */

const STOPS = [[240, 245, 248], [178, 212, 226], [84, 158, 190], [22, 98, 140], [8, 40, 78]];
const DARK_STOPS = [[24, 33, 40], [24, 63, 88], [28, 110, 150], [98, 178, 212], [222, 243, 252]];

/* The colour of a value from 0 to 1, as red, green and blue. */
function colour(value) {
    const stops = dark.matches ? DARK_STOPS : STOPS;
    const place = Math.min(1, Math.max(0, value)) * (stops.length - 1), part = Math.min(stops.length - 2, Math.floor(place));
    return stops[part].map((low, i) => Math.round(low + (stops[part + 1][i] - low) * (place - part)));
}

/* The relative luminance of a colour, as WCAG defines it. */
function luminance(rgb) {
    const [r, g, b] = rgb.map((c) => c / 255 <= .03928 ? c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
}

function paint(cell, value) {
    const rgb = colour(value), l = luminance(rgb);
    cell.style.backgroundColor = `rgb(${rgb.join(" ")})`;
    cell.style.color = 1.05 / (l + .05) > (l + .05) / .05 ? "#fff" : "#000";
}

/* ---- Texts and ids ---- */

function idsOf(text) {
    const words = text.split(/[\s,]+/).filter(Boolean);
    if (!words.length || words.some((word) => !/^\d{1,9}$/.test(word))) throw new Error(`"${text.slice(0, 40)}" is no list of ids such as 5 17 3`);
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

/* A list of names with bars for their scores. */
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
    parts.forEach((part, i) => line.append(part, ...(i < parts.length - 1 && masks[i] ? [element("mark", { textContent: masks[i][0].token_str })] : [])));
    place.replaceChildren(...(parts.length === masks.length + 1 ? [line] : []), element("div", { className: "guesses" }, ...masks.map((guesses, i) =>
        element("div", {}, element("p", { className: "quiet", textContent: `mask ${i + 1}` }), bars(guesses.map((guess) => [visible(guess.token_str), guess.score]))))));
}

/* ---- Try it: generate ---- */

/* Calls `hear` with each event of a stream of server-sent events, parsed from JSON. */
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

let stream = null; /* aborts the running generation */

async function generate(form) {
    const model = chosen(form), place = form.querySelector(".answer"), measure = form.querySelector(".measure");
    const text = form.elements.text.value, temperature = Number(form.elements.temperature.value);
    const parameters = { max_new_tokens: Number(form.elements.count.value) || 60, do_sample: temperature > 0 };
    if (temperature > 0) parameters.temperature = temperature;
    const fresh = element("span", {});
    const box = element("p", { className: "text stream", tabIndex: 0, role: "group", "aria-label": "Generated text" }, element("span", { className: "given", textContent: text }), fresh);
    const begun = performance.now();
    let first = 0, tokens = 0, waiting = "";
    /* Tokens may come faster than a page can be laid out, so new text is shown once a frame. */
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

let preview = null; /* the URL of the shown image */

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

/* ---- Attention ---- */

const attentionLayers = new Map(); /* by model: list of {name, shape} */

function layerOptions(form, layers) {
    const before = form.elements.layer.value;
    form.elements.layer.replaceChildren(element("option", { value: "", textContent: "all" }),
        ...layers.map((_, i) => element("option", { value: String(i), textContent: String(i) })));
    if (before !== "" && Number(before) < layers.length) form.elements.layer.value = before;
}

async function readLayers(form, model) {
    try {
        const outputs = (await (await call(modelPath(model.name, ""))).json()).outputs;
        const layers = outputs.filter((output) => /^attention\.\d+$|^attention_scores$/.test(output.name));
        attentionLayers.set(model.name, layers);
        if (chosen(form) === model) layerOptions(form, layers);
    } catch { /* the layers stay "all" */ }
}

/* The ids of the form's text, and a label for each of them. */
async function tokensOf(form, model) {
    const text = form.elements.text.value;
    if (sendsIds(form, model)) return idsOf(text).map((id) => ({ id, text: String(id) }));
    const tokens = (await (await post("tokenize", { model: model.name, inputs: text })).json())[0];
    return tokens.map((token) => ({ id: token.id, text: token.text }));
}

/* Splits an answer of /infer with binary outputs. */
async function tensors(answer) {
    const buffer = await answer.arrayBuffer(), length = Number(answer.headers.get("Inference-Header-Content-Length"));
    const json = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 0, length)));
    let at = length;
    return json.outputs.map((output) => {
        const size = output.parameters.binary_data_size, values = new Float32Array(buffer.slice(at, at + size));
        at += size;
        return { name: output.name, shape: output.shape, values };
    });
}

const view = { layers: null, tokens: [], places: [], layer: 0, head: 0, row: 0, column: 0, form: null };

async function look(form) {
    const model = chosen(form), layers = attentionLayers.get(model.name) || [];
    const wanted = form.elements.layer.value === "" ? layers : [layers[Number(form.elements.layer.value)]];
    const tokens = await tokensOf(form, model), n = tokens.length;
    const weights = wanted.reduce((sum, layer) => sum + layer.shape.slice(1).reduce((product, size) => product * (size < 0 ? n : size), 1), 0);
    if (weights > MOST_WEIGHTS) throw new Error(`These are ${count(weights)} weights. Choose one layer, or a shorter text.`);
    const answer = await post(modelPath(model.name, "/infer"), {
        inputs: [{ name: model.inputs[0].name, datatype: "INT64", shape: [1, n], data: tokens.map((token) => token.id) }],
        outputs: wanted.map((layer) => ({ name: layer.name, parameters: { binary_data: true } })),
    });
    const first = form.elements.layer.value === "" ? 0 : Number(form.elements.layer.value);
    view.layers = (await tensors(answer)).map((output, i) => {
        const [heads, rows, keys] = output.shape.slice(-3);
        return { number: first + i, heads, n: rows, k: keys, values: output.values };
    });
    Object.assign(view, { tokens, layer: 0, head: 0, row: 0, column: 0, form });
    form.querySelector(".answer").replaceChildren();
    form.elements.save.disabled = false;
    $("picture").hidden = false;
    drawAttention();
}

const most = (values) => { let top = 0; for (const value of values) if (value > top) top = value; return top; };

function headValues(layer, head) {
    return layer.values.subarray(head * layer.n * layer.k, (head + 1) * layer.n * layer.k);
}

/* Draws the weights of one head into a rectangle of a canvas. */
function drawHead(context, values, layer, top, x, y, width, height) {
    const image = new ImageData(layer.k, layer.n), table = [];
    for (let i = 0; i < 256; i++) table.push(colour(i / 255));
    for (let i = 0; i < values.length; i++) {
        const rgb = table[top > 0 ? Math.max(0, Math.min(255, Math.round((255 * values[i]) / top))) : 0];
        image.data.set(rgb, 4 * i);
        image.data[4 * i + 3] = 255;
    }
    const own = element("canvas", { width: layer.k, height: layer.n });
    own.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = width < layer.k || height < layer.n;
    context.drawImage(own, x, y, width, height);
}

/* Sets the size of a canvas in CSS pixels, and returns its context. */
function canvasOf(canvas, width, height) {
    const ratio = Math.min(2, devicePixelRatio || 1);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    return context;
}

/* Draws the colours from 0 to the largest value. */
function drawRamp(end) {
    const context = canvasOf($("ramp"), 128, 10);
    for (let x = 0; x < 128; x++) {
        context.fillStyle = `rgb(${colour(x / 127).join(" ")})`;
        context.fillRect(x, 0, 1, 10);
    }
    $("ramp-end").textContent = end;
}

const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function drawAttention() {
    if (!view.layers) return;
    const canvas = $("heads"), room = Math.max(280, canvas.parentElement.clientWidth - 8), left = 58, gap = 8, top = 20;
    const heads = Math.max(...view.layers.map((layer) => layer.heads)), keys = Math.max(...view.layers.map((layer) => layer.k));
    const width = Math.max(48, Math.min(320, Math.floor((room - left) / heads) - gap, keys * 12));
    const heightOf = (layer) => Math.max(36, Math.min(190, layer.n * 5));
    const height = top + view.layers.reduce((sum, layer) => sum + heightOf(layer) + gap, 0);
    const context = canvasOf(canvas, left + heads * (width + gap), height);
    const each = view.form.elements.each.checked, all = Math.max(...view.layers.map((layer) => most(layer.values)));
    context.fillStyle = token("--quiet");
    context.font = "12px system-ui, sans-serif";
    for (let h = 0; h < heads; h++) context.fillText(width > 60 ? `head ${h}` : String(h), left + h * (width + gap), top - 7);
    view.places = [];
    let y = top;
    view.layers.forEach((layer, l) => {
        context.fillStyle = token("--quiet");
        context.fillText(`layer ${layer.number}`, 0, y + 12);
        for (let h = 0; h < layer.heads; h++) {
            const values = headValues(layer, h), x = left + h * (width + gap);
            drawHead(context, values, layer, each ? most(values) : all, x, y, width, heightOf(layer));
            view.places.push({ l, h, x, y, width, height: heightOf(layer) });
        }
        y += heightOf(layer) + gap;
    });
    drawRamp(each ? "the largest weight of each head" : all.toPrecision(3));
    canvas.setAttribute("aria-label", `Attention of ${view.layers.length} layers with up to ${heads} heads, ${view.tokens.length} tokens`);
    view.overview = element("canvas", { width: canvas.width, height: canvas.height });
    view.overview.getContext("2d").drawImage(canvas, 0, 0);
    mark();
    drawOne();
}

/* Marks the cell of the cursor, and writes its value. */
function mark() {
    const canvas = $("heads"), context = canvas.getContext("2d"), layer = view.layers[view.layer];
    const place = view.places.find((one) => one.l === view.layer && one.h === view.head);
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(view.overview, 0, 0);
    context.restore();
    const w = place.width / layer.k, h = place.height / layer.n;
    context.strokeStyle = token("--second");
    context.lineWidth = 1.5;
    context.strokeRect(place.x - 1.5, place.y - 1.5, place.width + 3, place.height + 3);
    context.strokeRect(place.x + view.column * w - .75, place.y + view.row * h - .75, w + 1.5, h + 1.5);
    const label = view.tokens[view.row] ? ` "${visible(view.tokens[view.row].text)}"` : "";
    $("cell").textContent = `layer ${layer.number}, head ${view.head}, row ${view.row}${label}, column ${view.column}: ` +
        headValues(layer, view.head)[view.row * layer.k + view.column].toPrecision(4);
}

/* Draws the chosen head with the tokens at its rows. */
function drawOne() {
    const layer = view.layers[view.layer], values = headValues(layer, view.head), row = layer.n <= 80 ? 15 : Math.max(1, Math.min(15, 1200 / layer.n));
    const room = Math.max(280, $("one").parentElement.clientWidth - 8), left = 84, width = Math.max(120, Math.min(room - left, layer.k * 24));
    const context = canvasOf($("one"), left + width, 22 + layer.n * row);
    context.fillStyle = token("--quiet");
    context.font = "12px ui-monospace, 'DejaVu Sans Mono', monospace";
    const step = Math.max(1, Math.ceil(14 / row)), column = Math.max(1, Math.ceil(30 / (width / layer.k)));
    for (let i = 0; i < layer.k; i += column) context.fillText(String(i), left + (i * width) / layer.k, 13);
    context.textAlign = "right";
    for (let i = 0; i < layer.n; i += step)
        context.fillText((view.tokens[i] ? visible(view.tokens[i].text) : String(i)).slice(0, 10), left - 8, 18 + i * row + Math.min(row, 12), left - 10);
    drawHead(context, values, layer, most(values), left, 20, width, layer.n * row);
    $("one-title").textContent = `Layer ${layer.number}, head ${view.head}`;
    const order = [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, 12);
    $("largest").replaceChildren(...order.map((i) => {
        const at = Math.floor(i / layer.k), label = view.tokens[at] ? visible(view.tokens[at].text) : "";
        return element("tr", {}, ...[at, label, i % layer.k, values[i].toPrecision(4)].map((value, c) =>
            element("td", { className: c === 1 ? "mono" : "number", textContent: String(value) })));
    }));
}

/* The cell of the overview at a point of the pointer. null if there is none. */
function cellAt(event) {
    const box = $("heads").getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const place = view.places.find((one) => x >= one.x && x < one.x + one.width && y >= one.y && y < one.y + one.height);
    if (!place) return null;
    const layer = view.layers[place.l];
    return { layer: place.l, head: place.h, row: Math.floor(((y - place.y) * layer.n) / place.height),
        column: Math.floor(((x - place.x) * layer.k) / place.width) };
}

function moveTo(cell, choose) {
    const changed = cell.layer !== view.layer || cell.head !== view.head;
    Object.assign(view, cell);
    mark();
    if (choose && changed) drawOne();
}

function nextHead(step) {
    const index = view.places.findIndex((one) => one.l === view.layer && one.h === view.head);
    const place = view.places[(index + step + view.places.length) % view.places.length], layer = view.layers[place.l];
    return { layer: place.l, head: place.h, row: Math.min(view.row, layer.n - 1), column: Math.min(view.column, layer.k - 1) };
}

function pressKey(event) {
    if (!view.layers || event.ctrlKey || event.altKey || event.metaKey) return;
    const layer = view.layers[view.layer], at = (row, column) => ({ layer: view.layer, head: view.head,
        row: Math.max(0, Math.min(layer.n - 1, row)), column: Math.max(0, Math.min(layer.k - 1, column)) });
    const moves = { ArrowUp: () => at(view.row - 1, view.column), ArrowDown: () => at(view.row + 1, view.column),
        ArrowLeft: () => at(view.row, view.column - 1), ArrowRight: () => at(view.row, view.column + 1),
        Home: () => at(view.row, 0), End: () => at(view.row, layer.k - 1),
        PageUp: () => nextHead(-1), PageDown: () => nextHead(1) };
    if (!moves[event.key]) return;
    event.preventDefault();
    moveTo(moves[event.key](), true);
}

/* Fetches the picture that the daemon draws, and offers it as a file. */
async function savePicture(form) {
    const model = chosen(form), query = new URLSearchParams();
    const text = form.elements.text.value;
    if (sendsIds(form, model)) query.set("ids", idsOf(text).join(","));
    else query.set("text", text);
    if (form.elements.layer.value !== "") query.set("layer", form.elements.layer.value);
    if (form.elements.each.checked) query.set("scale", "each");
    const blob = await (await call(`${modelPath(model.name, "/attention.png")}?${query}`)).blob();
    const url = URL.createObjectURL(blob), link = element("a", { href: url, download: "attention.png" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
    form.querySelector(".answer").replaceChildren(element("p", { className: "quiet", textContent: `attention.png: ${bytes(blob.size)}` }));
}

/* ---- The start ---- */

const ACTIONS = { compare, fill, generate, classify, look };

function connect() {
    for (const [id, action] of Object.entries(ACTIONS)) {
        const form = $(id);
        form.addEventListener("submit", (event) => {
            event.preventDefault();
            if (!form.elements.model) return;
            attempt(form, form.querySelector(".answer"), () => action(form));
        });
        form.elements.model.addEventListener("change", () => changeModel(form));
    }
    $("generate").elements.stop.addEventListener("click", () => stream && stream.abort());
    $("look").elements.save.addEventListener("click", () => attempt($("look"), $("look").querySelector(".answer"), () => savePicture($("look"))));
    $("look").elements.each.addEventListener("change", drawAttention);
    $("heads").addEventListener("pointermove", (event) => { const cell = view.layers && cellAt(event); if (cell) moveTo(cell, false); });
    $("heads").addEventListener("pointerdown", (event) => { const cell = view.layers && cellAt(event); if (cell) { Object.assign(view, cell); mark(); drawOne(); } });
    $("heads").addEventListener("keydown", pressKey);
    $("key").addEventListener("submit", (event) => {
        event.preventDefault();
        key = $("key-text").value;
        $("key-text").value = "";
        start();
    });
    $("pause").addEventListener("click", () => {
        load.paused = !load.paused;
        load.before = null;
        $("pause").setAttribute("aria-pressed", String(load.paused));
        poll();
    });
    $("load-model").addEventListener("change", () => { resetLoad(); poll(); });
    $("plan-model").addEventListener("change", () => readPlan(true));
    $("plan-tokens").addEventListener("change", () => readPlan(false));
    document.addEventListener("visibilitychange", () => { load.before = null; poll(); });
    dark.addEventListener("change", drawAttention);
    let resized = 0;
    addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(drawAttention, 150); });
}

async function start() {
    try {
        await readInfo();
    } catch (failure) {
        if (!(failure instanceof Refused && failure.status === 401)) state(failure.message, "bad");
    }
    poll();
}

$("charts").replaceChildren(...load.charts.map((chart) => chart.figure));
drawLoad();
connect();
start();
})();
