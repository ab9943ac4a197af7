#!/bin/bash
# rooms.sh: folders depend one way, server -> engine -> weights, and all may read config. From another folder only its
# public header may be included: config/config.h, weights/weights.h, engine/engine.h. Within engine, the families and
# the backends don't see each other. Tests may include anything.
set -euo pipefail

# "FILE INCLUDED" lines in, the forbidden ones out.
forbidden() {
    awk '
        BEGIN {
            below["server"] = "engine weights config"; below["engine"] = "weights config"
            below["weights"] = "config"; below["config"] = ""
        }
        function room(path) { return path ~ /\// ? substr(path, 1, index(path, "/") - 1) : "" }
        function part(path) { sub(/\/[^\/]*$/, "", path); return path }
        function allowed(from, to) {
            if (room(to) != room(from))
                return index(" " below[room(from)] " ", " " room(to) " ") && to == room(to) "/" room(to) ".h"
            # inside a folder: its own part, the part around it, and the parts below that one
            return part(from) == part(to) || index(part(from), part(to) "/") == 1 || index(part(to), part(from) "/") == 1
        }
        {
            to = $2
            if (to !~ /^(server|engine|weights|config)\//) to = part($1) "/" to # beside the file
            if (!allowed($1, to)) print $1 " must not include " to
        }'
}

echo 1..2

# The rule itself, so that it cannot pass by looking at nothing.
good='server/main.c engine/engine.h
engine/cpu/gemm.c engine/plan.h
engine/plan.c engine/cpu/cpu.h
weights/parse.c config/config.h
config/text.c text.h'
bad='engine/plan.c server/batcher.h
config/error.c weights/weights.h
weights/parse.c engine/engine.h
server/main.c engine/plan.h
engine/families/linformer.c engine/cpu/cpu.h
engine/cpu/gemm.c engine/families/families.h
weights/parse.c config/text.h'
if [ -z "$(forbidden <<<"$good")" ] && [ "$(forbidden <<<"$bad" | wc -l)" = "$(wc -l <<<"$bad")" ]; then
    echo "ok 1 - the rule tells good from bad"
else
    echo "not ok 1 - the rule tells good from bad"
    forbidden <<<"$good" | sed 's/^/# /'
fi

found=$(grep -rEo '^ *# *include *"[^"]+"' --include='*.[ch]' --include='*.cu*' server engine weights config |
    sed -E 's/^([^:]+):.*"([^"]+)"$/\1 \2/' | forbidden)
if [ -z "$found" ]; then
    echo "ok 2 - folders depend one way"
else
    echo "not ok 2 - folders depend one way"
    echo "# ${found//$'\n'/$'\n'# }"
    exit 1
fi
