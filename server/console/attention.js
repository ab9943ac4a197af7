/* The weights of attention: an overview of all heads, one head in detail, and a picture file that the daemon draws. */

const attentionLayers = new Map(); /* name of a model -> list of {name, shape} */

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
    } catch { /* "all" stays the only choice of a layer */ }
}

/* The tokens of the form's text, as a list of {id, text}. */
async function tokensOf(form, model) {
    const text = form.elements.text.value;
    if (sendsIds(form, model)) return idsOf(text).map((id) => ({ id, text: String(id) }));
    const tokens = (await (await post("tokenize", { model: model.name, inputs: text })).json())[0];
    return tokens.map((token) => ({ id: token.id, text: token.text }));
}

/* Splits an answer of /infer whose outputs are binary, into a list of {name, shape, values}. */
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
    if (weights > MAX_WEIGHTS) throw new Error(`These are ${count(weights)} weights. Choose one layer, or a shorter text.`);
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

const largest = (values) => { let top = 0; for (const value of values) if (value > top) top = value; return top; };

function headValues(layer, head) {
    return layer.values.subarray(head * layer.n * layer.k, (head + 1) * layer.n * layer.k);
}

/* Draws the weights of one head into a rectangle of a canvas. `top` is the value with the last colour. */
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

/* Draws the scale of colours from 0 to the largest value. `end` is the text at its end. */
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
    const each = view.form.elements.each.checked, all = Math.max(...view.layers.map((layer) => largest(layer.values)));
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
            drawHead(context, values, layer, each ? largest(values) : all, x, y, width, heightOf(layer));
            view.places.push({ l, h, x, y, width, height: heightOf(layer) });
        }
        y += heightOf(layer) + gap;
    });
    drawRamp(each ? "the largest weight of each head" : all.toPrecision(3));
    canvas.setAttribute("aria-label", `Attention of ${view.layers.length} layers with up to ${heads} heads, ${view.tokens.length} tokens`);
    view.overview = element("canvas", { width: canvas.width, height: canvas.height });
    view.overview.getContext("2d").drawImage(canvas, 0, 0);
    markCell();
    drawOne();
}

/* Marks the chosen head and the chosen weight in the overview, and writes the value of this weight. */
function markCell() {
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

/* Draws the chosen head in detail, with its tokens beside its rows, and lists its largest weights. */
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
    drawHead(context, values, layer, largest(values), left, 20, width, layer.n * row);
    $("one-title").textContent = `Layer ${layer.number}, head ${view.head}`;
    const order = [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, 12);
    $("largest").replaceChildren(...order.map((i) => {
        const at = Math.floor(i / layer.k), label = view.tokens[at] ? visible(view.tokens[at].text) : "";
        return element("tr", {}, ...[at, label, i % layer.k, values[i].toPrecision(4)].map((value, c) =>
            element("td", { className: c === 1 ? "mono" : "number", textContent: String(value) })));
    }));
}

/* The head and the weight of the overview at the pointer. null if there is none. */
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
    markCell();
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

/* Fetches a picture of the attention, which the daemon draws, and offers it as a file. */
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
