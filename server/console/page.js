/* The console: functions for all its parts, requests, and facts about the daemon. Text from outside enters the page
 * only as text nodes and as values of properties. The page runs under a strict policy: no eval, no inline handlers, no
 * markup from strings. Paths are relative, because a proxy may serve the page at another path than "/".
 *
 * console.mk joins the parts in one function: page.js, metrics.js, models.js, plan.js, try.js, attention.js, start.js.
 * A part may call functions of later parts, but only after all parts have been read. */
const $ = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const POINTS = 120;          /* maximum number of values of each line of a chart */
const POLL_MS = 1000, CALM_POLL_MS = 5000;
const MAX_WEIGHTS = 4e6;    /* maximum number of attention weights in one request */
let key = null;              /* the API key. It is not kept in any storage */
let models = [];             /* the models that /info lists */

/* ---- The page ---- */

/* Makes an element. Children are nodes or texts. */
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
    } catch { /* the body is not JSON, so the message stays the status */ }
    if (answer.status === 401) askForKey(message);
    throw new Refused(answer.status, message);
}

const post = (path, body, more) => call(path, { method: "POST", body: JSON.stringify(body), ...more });
const modelPath = (name, rest) => `v2/models/${encodeURIComponent(name)}${rest}`;

function askForKey(message) {
    $("key").hidden = false;
    $("key-note").textContent = key === null ? "" : message;
    $("key-note").className = "answer error";
    state("an API key is required", "bad");
}

/* Runs the action of a form, and disables its button meanwhile. Shows a failure in `place`. */
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
