/* Connects the elements of the page to the functions of the other parts, and starts the reading of metrics. */

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
    $("heads").addEventListener("pointerdown", (event) => { const cell = view.layers && cellAt(event); if (cell) { Object.assign(view, cell); markCell(); drawOne(); } });
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
