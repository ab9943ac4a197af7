/* The table of a model's plan, and the colours of heat maps. */

/* ---- The plan ---- */

const ROW = 24, ARCS = 76;

/* An arc beside the table, from one row to another. A longer arc reaches further to the left, up to a limit. */
function arc(from, to, role) {
    const y1 = from * ROW + ROW / 2, y2 = to * ROW + ROW / 2, reach = Math.min(ARCS - 18, 8 + 9 * Math.log2(1 + to - from));
    const x = ARCS - 10, d = to - from === 1 ? `M${x} ${y1}V${y2}` : `M${x} ${y1}C${x - reach} ${y1} ${x - reach} ${y2} ${x} ${y2}`;
    return drawn("path", { d, class: role === "z" ? "z" : "x" });
}

/* The index of the last step before `row` that writes this value. -1 if there is none. */
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

/* The colour of a value from 0 to 1, as [red, green, blue]. */
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
