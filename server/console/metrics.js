/* The charts of metrics. The page reads the metrics of the daemon repeatedly. */

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

/* Sums the samples of each metric over the chosen model, or over all models if `model` is "". The histogram of
   durations keeps its buckets. */
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

/* Estimates the duration in milliseconds that is not exceeded by this share of the requests between two readings. null
   if there were no requests. */
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
/* Each series is a function of two readings and of the seconds between them. The function returns null if there is no
   value. */
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

/* Whether the daemon has loaded or unloaded models since this page read the list of models. */
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
    if (after.get("batch_tokens_count") < before.after.get("batch_tokens_count")) return; /* the daemon has restarted */
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

/* Reads the metrics once, and plans the next reading. The pause is at least ten times as long as the reading, so that
   the page adds little load. */
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
