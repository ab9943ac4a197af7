/* request: memory and model of one request. */
#include "server/request.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct block {
    struct block *next;
    max_align_t data[];
};

void request_open(struct request *request, struct service *service, const char *body, size_t body_length)
{
    memset(request, 0, sizeof *request);
    request->service = service;
    request->body = body;
    request->body_length = body_length;
    request->answer_type = "application/json";
}

void request_close(struct request *request)
{
    for (struct block *block = request->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    request->blocks = NULL;
    writer_free(&request->answer);
    budget_take(&request->service->results, -request->charged);
    request->charged = 0;
}

void *request_memory(struct request *request, int64_t count, size_t size)
{
    size_t bytes;

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
    struct budget *results = &request->service->results;

    if (bytes > results->limit - request->charged)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "the results would take %lld bytes, this server gives them %lld: ask for fewer inputs at "
                           "once, for less of each, or for top_k",
                           (long long)bytes, (long long)results->limit);
    if (!budget_take(results, bytes))
        return failure_set(&request->failure, FAILURE_OVERLOADED,
                           "the results of other requests take the memory that this one needs; try again later");
    request->charged += bytes;
    return 0;
}

int request_model(struct request *request, const char *name)
{
    const struct http_options *options = &request->service->options;
    char names[256] = "";
    size_t length = 0;

    for (int64_t i = 0; i < options->n_models; i++) {
        if (!name || strcmp(options->models[i].name, name) == 0) {
            request->model_index = i;
            request->info = model_info(options->models[i].model);
            return 0;
        }
    }
    for (int64_t i = 0; i < options->n_models && length < sizeof names; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, "%s\"%s\"", i > 0 ? ", " : "",
                                   options->models[i].name);
    return failure_set(&request->failure, FAILURE_NO_MODEL, "there is no model \"%.100s\" here, only %s",
                       name ? name : "", names);
}

const struct model *request_engine_model(const struct request *request)
{
    return request->service->options.models[request->model_index].model;
}

const char *request_model_name(const struct request *request)
{
    return request->service->options.models[request->model_index].name;
}
