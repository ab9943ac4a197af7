/* request: the memory and the model of one request. */
#include "server/http/request.h"

#include "server/common/metrics.h"

#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* When JSON values of at least this size have been freed, malloc_trim returns their pages to the system. Without
 * malloc_trim, the allocator would keep the pages, although later requests may need less memory. malloc_trim takes
 * milliseconds, so small values do not call it. */
#define TRIM_BYTES (INT64_C(16) << 20)

/* Limit on the memory of the JSON values of one body: JSON_TIMES times --payload-limit, but at least MIN_JSON_LIMIT
 * bytes. Usual JSON needs less than 5 bytes of memory for each byte of text. MIN_JSON_LIMIT is enough for a million
 * numbers or booleans. Numbers in inputs do not become JSON values, and need none of this memory. */
#define JSON_TIMES 5
#define MIN_JSON_LIMIT (INT64_C(64) << 20)

struct block {
    struct block *next;
    max_align_t data[];
};

void request_open(struct request *request, struct service *service, const char *body, size_t body_length)
{
    memset(request, 0, sizeof *request);
    request->service = service;
    request->metrics = METRICS_NO_MODEL;
    request->body = body;
    request->body_length = body_length;
    request->memory.budget = &service->results;
    request->ignored.strict = service->options.settings->strict;
    request->answer_type = "application/json";
}

void request_begin(struct request *request)
{
    request->set = model_sets_acquire(request->service->options.sets);
}

static void free_blocks(struct request *request)
{
    for (struct block *block = request->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    request->blocks = NULL;
}

/* Call it after call_release, because call_release gives back slots of a model in the set. */
static void release_models(struct request *request)
{
    if (request->set)
        model_sets_release(request->service->options.sets, request->set);
    request->set = NULL;
    request->info = NULL;
}

static void call_release(struct request *request)
{
    void (*release)(struct request *) = request->release;
    request->release = NULL;
    if (release)
        release(request);
}

void request_close(struct request *request)
{
    call_release(request);
    release_models(request);
    free_blocks(request);
    writer_free(&request->answer);
    share_end(&request->memory);
}

void request_answered(struct request *request)
{
    int64_t held = atomic_load(&request->memory.bytes);
    call_release(request);
    release_models(request);
    free_blocks(request);
    writer_shrink(&request->answer);
    int64_t kept = (int64_t)request->answer.capacity;
    if (kept < held)
        share_give(&request->memory, held - kept);
}

void *request_memory(struct request *request, int64_t count, size_t size)
{
    size_t bytes = 0;
    if (count < 0 || __builtin_mul_overflow((size_t)count, size, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct block), &bytes)) {
        failure_memory(&request->failure);
        return NULL;
    }
    struct block *block = calloc(1, bytes);
    if (!block) {
        failure_memory(&request->failure);
        return NULL;
    }
    block->next = request->blocks;
    request->blocks = block;
    return block->data;
}

int request_charge(struct request *request, int64_t bytes)
{
    int64_t held = atomic_load(&request->memory.bytes), most = budget_most(request->memory.budget);
    if (bytes > most - held)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "the request needs %lld bytes of memory, this server allows at most %lld: send fewer "
                           "inputs at once, or request less for each",
                           (long long)bytes + held, (long long)most);
    if (!share_take(&request->memory, bytes))
        return failure_set(&request->failure, FAILURE_OVERLOADED,
                           "other requests use the memory that this one needs; try again later");
    return 0;
}

void *request_take(struct request *request, int64_t count, size_t size)
{
    int64_t bytes;
    if (__builtin_mul_overflow(count, (int64_t)size, &bytes)) {
        failure_memory(&request->failure);
        return NULL;
    }
    return request_charge(request, bytes) == 0 ? request_memory(request, count, size) : NULL;
}

static int64_t json_most(const struct request *request)
{
    int64_t most = budget_most(request->memory.budget);
    int64_t times =
        request->service->options.settings->payload_limit * JSON_TIMES; /* a payload is at most 2^40 bytes */
    times = times > MIN_JSON_LIMIT ? times : MIN_JSON_LIMIT;
    return most < times ? most : times;
}

static json_t *parse_counted(struct request *request, const char *text, size_t length,
                             json_t *(*parse)(const char *text, size_t length, struct failure *failure))
{
    int64_t bytes = json_body_memory(text, length), most = json_most(request);
    if (bytes > most) {
        failure_set(&request->failure, FAILURE_TOO_LARGE,
                    "the body's JSON needs %lld bytes of memory, this server allows at most %lld: send less at "
                    "once",
                    (long long)bytes, (long long)most);
        return NULL;
    }
    if (request_charge(request, bytes) != 0)
        return NULL;
    request->json_bytes += bytes;
    return parse(text, length, &request->failure);
}

json_t *request_json(struct request *request, const char *text, size_t length)
{
    return parse_counted(request, text, length, json_body_parse);
}

json_t *request_json_list(struct request *request, const char *text, size_t length)
{
    return parse_counted(request, text, length, json_body_parse_list);
}

int request_options(struct request *request, const json_t *json, const struct option *table, size_t count, void *out)
{
    return json_body_options(json, table, count, out, &request->ignored, &request->failure);
}

void request_read_done(struct request *request)
{
    share_give(&request->memory, request->json_bytes);
    if (request->json_bytes >= TRIM_BYTES)
        malloc_trim(0);
    request->json_bytes = 0;
}

static void choose_model(struct request *request, int64_t index)
{
    const struct served_model *served = &request->set->models[index];
    request->model_index = index;
    request->info = model_info(served->model);
    request->batcher_index = served->batcher_index;
    request->metrics = served->metrics;
}

int request_model(struct request *request, const char *name)
{
    const struct model_set *set = request->set;
    for (int64_t i = 0; i < set->n_models; i++) {
        if (!name || strcmp(set->models[i].name, name) == 0) {
            choose_model(request, i);
            return 0;
        }
    }
    char names[256] = "";
    for (int64_t i = 0; i < set->n_models; i++) {
        char quoted[128];
        snprintf(quoted, sizeof quoted, "\"%s\"", set->models[i].name);
        text_list_add(names, sizeof names, quoted);
    }
    return failure_set(&request->failure, FAILURE_NO_MODEL, "there is no model \"%.100s\" here, only %s", name, names);
}

void request_first_model(struct request *request, bool (*fits)(const struct model_info *info))
{
    for (int64_t i = 0; i < request->set->n_models; i++) {
        if (!fits(model_info(request->set->models[i].model)))
            continue;
        choose_model(request, i);
        return;
    }
}

const struct model *request_engine_model(const struct request *request)
{
    return request->set->models[request->model_index].model;
}

const char *request_model_name(const struct request *request)
{
    return request->set->models[request->model_index].name;
}

bool request_auto_truncate(const struct request *request)
{
    return request->service->options.settings->auto_truncate || request->info->auto_truncate;
}
