#!/bin/bash
# rooms.sh: the folders server, engine, weights and config, called rooms, include each other in one direction: server ->
# engine -> weights. All may include config. Only the public header of another room may be included: config/config.h,
# weights/weights.h, engine/engine.h.
# Within engine, all folders may include engine/plan, which includes no other folder. engine/families includes only
# engine/plan. engine/families/module includes engine/plan, and engine/families/family.h, which it implements. A backend
# (engine/cpu, engine/cuda) includes engine/plan, and engine/backend.h, which it implements. Families and backends do
# not include each other. The files directly in engine/ may include all of these.
# Within server/dialects, each dialect has a folder. openai and ollama also include native, which reads the same inputs.
# native includes one header of v2. No other dialect includes another.
# The lists below contain the rules within server.
set -euo pipefail

# Reads lines "FILE INCLUDED", and prints the forbidden ones.
forbidden() {
    awk '
        BEGIN {
            below["server"] = "engine weights config"; below["engine"] = "weights config"
            below["weights"] = "config"; below["config"] = ""
            inside["engine/plan"] = ""; inside["engine/families"] = "engine/plan"
            inside["engine/families/module"] = "engine/plan engine/families/family.h"
            inside["engine/cpu"] = inside["engine/cuda"] = "engine/plan engine/backend.h"
            inside["server/common"] = ""; inside["server/images"] = "server/common"
            inside["server/text"] = inside["server/jobs"] = "server/common"
            inside["server/tracing"] = "server/common server/text"
            inside["server/http"] = "server/common server/text server/tracing server/jobs"
            inside["server/generation"] = inside["server/http"] " server/http"
            inside["server/dialects"] = inside["server/generation"] " server/generation server/tokenizer/text_codec.h"
            inside["server/dialects/v2"] = inside["server/dialects"] " server/dialects server/images"
            inside["server/dialects/native"] = inside["server/dialects/v2"] " server/dialects/v2/attention.h" \
                " server/console/console.h"
            inside["server/dialects/openai"] = inside["server/dialects/ollama"] = \
                inside["server/dialects"] " server/dialects server/dialects/native"
            split("native openai ollama v2", dialects, " ")
            for (i in dialects) # the list of all dialects includes the table of each
                inside["server/dialects"] = inside["server/dialects"] \
                    " server/dialects/" dialects[i] "/" dialects[i] ".h"
            inside["server/tokenizer"] = "server/common"
            # The other rooms that these folders may include. Any other folder has the rule of its whole room.
            outside["server/tracing"] = outside["server/text"] = outside["server/images"] = outside["server/tokenizer"] = "config"
            outside["server/console"] = ""
            outside["server/common"] = outside["server/jobs"] = "engine config"
            outside["server/http"] = outside["server/generation"] = outside["server/dialects"] = "engine config"
            for (i in dialects) outside["server/dialects/" dialects[i]] = "engine config"
        }
        function room(path) { return path ~ /\// ? substr(path, 1, index(path, "/") - 1) : "" }
        function part(path) { sub(/\/[^\/]*$/, "", path); return path }
        function listed(word, list) { return index(" " list " ", " " word " ") }
        function allowed(from, to) {
            if (room(to) != room(from))
                return to == room(to) "/" room(to) ".h" &&
                       listed(room(to), part(from) in outside ? outside[part(from)] : below[room(from)])
            if (part(from) == part(to)) return 1
            if (part(from) in inside) return listed(part(to), inside[part(from)]) || listed(to, inside[part(from)])
            return part(from) == room(from)
        }
        {
            to = $2
            if (to !~ /^(server|engine|weights|config)\//) to = part($1) "/" to # beside the file
            if (!allowed($1, to)) print $1 " must not include " to
        }'
}

# Reads lines "FILE INCLUDED", and prints the circles among modules.
circles() {
    awk '
        function module(path) { sub(/\.[a-z]+$/, "", path); return path }
        {
            to = $2
            if (to !~ /\//) { to = $1; sub(/[^\/]*$/, $2, to) } # beside the file
            if (module($1) != module(to)) print module($1), module(to)
        }' | { tsort 2>&1 || true; } | grep '^tsort:' || true
}

# Reads lines "FILE:#include …" of grep, and prints "FILE INCLUDED". In angle brackets, only files of these folders
# count.
included() {
    sed -nE 's/^([^:]+):.*include[[:blank:]]*("|<((server|engine|weights|config|tests)\/))([^">]+)[">]$/\1 \3\5/p'
}

includes() {
    grep -rEo '^[[:blank:]]*#[[:blank:]]*include[[:blank:]]*("[^"]+"|<[^>]+>)' --include='*.[ch]' --include='*.cu*' "$@" |
        included
}

echo 1..4

# Tests of the rule itself, so that it cannot pass by checking nothing.
good='server/main.c engine/engine.h
engine/cpu/gemm.c engine/plan/plan.h
engine/cpu/cpu.c engine/backend.h
engine/plan/plan.c engine/plan/item.h
engine/families/linformer.c engine/plan/builder.h
engine/families/module/graph.h engine/families/family.h
engine/families/module/tensor.c engine/plan/axes.h
engine/explain.c engine/cpu/cpu.h
weights/parse.c config/config.h
config/text.c text.h
server/models.c weights/weights.h
server/daemon.c server/dialects/dialects.h
server/common/metrics.h engine/engine.h
server/text/writer.c server/common/failure.h
server/images/png.c server/common/log.h
server/images/images.h config/config.h
server/dialects/dialects.c server/dialects/v2/v2.h
server/dialects/native/native.c server/dialects/openapi.h
server/dialects/native/pictures.c server/images/images.h
server/dialects/openai/openai.c server/dialects/native/embed.h
server/jobs/batcher.c server/common/log.h
server/http/request.h server/jobs/batcher.h
server/http/http.c server/text/json_body.h
server/tokenizer/encode.c server/tokenizer/parts.h
server/tokenizer/encode.c config/config.h
server/dialects/native/native.c server/tokenizer/text_codec.h
server/dialects/native/native.c server/console/console.h
server/dialects/native/native.c server/http/request.h'
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
engine/families/linformer.c engine/families/module/graph.h
engine/families/module/module.c engine/families/families.h
engine/families/module/module.c engine/backend.h
engine/cpu/gemm.c engine/families/families.h
weights/parse.c config/text.h
weights/builtin/table.c weights/parse.h
server/common/log.c server/limits.h
server/common/log.c server/text/writer.h
server/common/log.c weights/weights.h
server/text/writer.c server/jobs/job.h
server/text/writer.c server/http/request.h
server/text/writer.c engine/engine.h
server/images/images.c server/text/writer.h
server/images/images.c engine/engine.h
server/text/writer.c server/images/images.h
server/jobs/batcher.c server/images/images.h
server/http/http.c server/images/images.h
server/jobs/batcher.c server/text/writer.h
server/jobs/batcher.c server/http/workers.h
server/jobs/batcher.c weights/weights.h
server/http/http.c server/dialects/dialects.h
server/http/http.c server/daemon.h
server/http/http.c weights/weights.h
server/dialects/items.c server/dialects/native/body.h
server/dialects/v2/infer.c server/dialects/native/body.h
server/dialects/native/body.c server/dialects/v2/infer.h
server/dialects/native/body.c server/dialects/openai/openai.h
server/dialects/openai/openai.c server/images/images.h
server/dialects/native/native.c server/models.h
server/dialects/native/native.c weights/weights.h
server/tokenizer/encode.c engine/engine.h
server/tokenizer/encode.c server/text/writer.h
server/dialects/native/native.c server/tokenizer/parts.h
server/dialects/native/native.c server/tokenizer/tokenizer.h
server/http/request.h server/tokenizer/text_codec.h
server/console/page.c server/http/request.h
server/console/page.c engine/engine.h'
lines='server/main.c:#include "engine/engine.h"
server/main.c:#include <stdio.h>
server/text/writer.c:#  include <engine/engine.h>
server/text/writer.c:#include<engine/engine.h>
server/text/writer.c:#include "engine/engine.h"'
good+=$'\n'$(included <<<"$lines" | sed -n 1p)
bad+=$'\n'$(included <<<"$lines" | sed 1d)
failed=0
if [ -z "$(forbidden <<<"$good")" ] && [ "$(forbidden <<<"$bad" | wc -l)" = "$(wc -l <<<"$bad")" ]; then
    echo "ok 1 - the rule tells good includes from bad"
else
    failed=1
    echo "not ok 1 - the rule tells good includes from bad"
    forbidden <<<"$good" | sed 's/^/# /'
fi

found=$(includes server engine weights config | forbidden)
if [ -z "$found" ]; then
    echo "ok 2 - includes between folders go one way"
else
    failed=1
    echo "not ok 2 - includes between folders go one way"
    echo "# ${found//$'\n'/$'\n'# }"
fi

# ---- Circles
chain='engine/a.c engine/a.h
engine/a.c engine/b.h
engine/b.c c.h'
circle="$chain
engine/c.h engine/a.h"
if [ -z "$(circles <<<"$chain")" ] && [ -n "$(circles <<<"$circle")" ]; then
    echo "ok 3 - the rule tells a circle of includes from a chain"
else
    failed=1
    echo "not ok 3 - the rule tells a circle of includes from a chain"
fi

found=$(includes server engine weights config tests | circles)
if [ -z "$found" ]; then
    echo "ok 4 - no includes of modules form a circle"
else
    failed=1
    echo "not ok 4 - no includes of modules form a circle"
    echo "# ${found//$'\n'/$'\n'# }"
fi
exit $failed
