#!/bin/bash
# rooms.sh: folders depend one way, server -> engine -> weights, and all may read config. From another folder only its
# public header may be included: config/config.h, weights/weights.h, engine/engine.h.
# Within engine, engine/plan is below all. engine/families sees engine/plan alone. A backend (engine/cpu, engine/cuda)
# sees engine/plan and engine/backend.h, which it implements. Families and backends don't see each other. engine's own
# files see all of these.
# No circles: a module is a header with the source of the same name. In the folders named below, no module includes
# another one that leads back to it. Tests may include anything.
set -euo pipefail

# "FILE INCLUDED" lines in, the forbidden ones out.
forbidden() {
    awk '
        BEGIN {
            below["server"] = "engine weights config"; below["engine"] = "weights config"
            below["weights"] = "config"; below["config"] = ""
            inside["engine/plan"] = ""; inside["engine/families"] = "engine/plan"
            inside["engine/cpu"] = inside["engine/cuda"] = "engine/plan engine/backend.h"
        }
        function room(path) { return path ~ /\// ? substr(path, 1, index(path, "/") - 1) : "" }
        function part(path) { sub(/\/[^\/]*$/, "", path); return path }
        function allowed(from, to) {
            if (room(to) != room(from))
                return index(" " below[room(from)] " ", " " room(to) " ") && to == room(to) "/" room(to) ".h"
            if (part(from) in inside)
                return part(from) == part(to) || index(" " inside[part(from)] " ", " " part(to) " ") ||
                       index(" " inside[part(from)] " ", " " to " ")
            # in other folders: its own part, the part around it, and the parts below that one
            return part(from) == part(to) || index(part(from), part(to) "/") == 1 || index(part(to), part(from) "/") == 1
        }
        {
            to = $2
            if (to !~ /^(server|engine|weights|config)\//) to = part($1) "/" to # beside the file
            if (!allowed($1, to)) print $1 " must not include " to
        }'
}

# "FILE INCLUDED" lines in, the circles among modules out.
circles() {
    awk '
        function module(path) { sub(/\.[a-z]+$/, "", path); return path }
        {
            to = $2
            if (to !~ /\//) { to = $1; sub(/[^\/]*$/, $2, to) } # beside the file
            if (module($1) != module(to)) print module($1), module(to)
        }' | { tsort 2>&1 || true; } | grep '^tsort:' || true
}

includes() {
    grep -rEo '^ *# *include *"[^"]+"' --include='*.[ch]' --include='*.cu*' "$@" | sed -E 's/^([^:]+):.*"([^"]+)"$/\1 \2/'
}

echo 1..4

# The rule itself, so that it cannot pass by looking at nothing.
good='server/main.c engine/engine.h
engine/cpu/gemm.c engine/plan/plan.h
engine/cpu/cpu.c engine/backend.h
engine/plan/plan.c engine/plan/item.h
engine/families/linformer.c engine/plan/builder.h
engine/explain.c engine/cpu/cpu.h
weights/parse.c config/config.h
config/text.c text.h'
bad='engine/plan/plan.c server/jobs/batcher.h
config/error.c weights/weights.h
weights/parse.c engine/engine.h
server/main.c engine/plan/plan.h
engine/plan/plan.c engine/engine.h
engine/plan/plan.c engine/families/family.h
engine/plan/plan.c engine/cpu/cpu.h
engine/families/linformer.c engine/backend.h
engine/cuda/cuda.cu engine/engine.h
engine/cuda/cuda.cu engine/cpu/cpu.h
engine/families/linformer.c engine/cpu/cpu.h
engine/cpu/gemm.c engine/families/families.h
weights/parse.c config/text.h'
failed=0
if [ -z "$(forbidden <<<"$good")" ] && [ "$(forbidden <<<"$bad" | wc -l)" = "$(wc -l <<<"$bad")" ]; then
    echo "ok 1 - the rule tells good from bad"
else
    failed=1
    echo "not ok 1 - the rule tells good from bad"
    forbidden <<<"$good" | sed 's/^/# /'
fi

found=$(includes server engine weights config | forbidden)
if [ -z "$found" ]; then
    echo "ok 2 - folders depend one way"
else
    failed=1
    echo "not ok 2 - folders depend one way"
    echo "# ${found//$'\n'/$'\n'# }"
fi

# ---- Circles
chain='engine/a.c engine/a.h
engine/a.c engine/b.h
engine/b.c c.h'
circle="$chain
engine/c.h engine/a.h"
if [ -z "$(circles <<<"$chain")" ] && [ -n "$(circles <<<"$circle")" ]; then
    echo "ok 3 - a circle is told from a chain"
else
    failed=1
    echo "not ok 3 - a circle is told from a chain"
fi

found=$(includes engine config | circles)
if [ -z "$found" ]; then
    echo "ok 4 - no module includes one that leads back to it"
else
    failed=1
    echo "not ok 4 - no module includes one that leads back to it"
    echo "# ${found//$'\n'/$'\n'# }"
fi
exit $failed
