/* The list of models, and which of them can serve a form. */

const gives = (model, route) => (model.routes || []).includes(route);
const required = (model) => model.inputs.filter((input) => !input.optional);
const kindOf = (model) => model.image ? "image" : model.inputs[0].kind === "ids" ? "ids" : "floats";

/* The reason why a model cannot compute from a single text, list of ids or image. "" if it can. */
function inputFault(model) {
    if (required(model).length > 1) return `needs the inputs ${required(model).map((input) => input.name).join(" and ")}`;
    if (kindOf(model) === "floats") return "accepts rows of floats, not texts or ids";
    return "";
}

const FAULTS = {
    compare: (model) => inputFault(model) || "does not return one vector for an input",
    fill: (model) => inputFault(model) || (!model.has_logits ? "does not return logits over a vocabulary"
        : !model.tokenizer ? "has no tokenizer, so it has no mask token" : "has a tokenizer without a mask token"),
    generate: (model) => !model.has_logits ? "does not return logits over a vocabulary" : "is not causal: it reads tokens on both sides",
    classify: (model) => inputFault(model) || "returns rows for tokens, not scores for classes",
    look: (model) => inputFault(model) || (kindOf(model) === "image" ? "accepts images, but this form sends texts"
        : "has no attention over k rows that it can return"),
};
const ROUTES = { compare: "/embed", fill: "/fill-mask", generate: "/generate", classify: "/predict", look: "/v2/models/{}/attention.png" };

/* The models that can serve a form. Models that only accept floats are omitted, because forms cannot send floats. */
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

/* Fills the list of models of a form. If no model can serve the form, shows the reason for each model. */
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
