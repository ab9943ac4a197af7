#include "engine/plan/builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int plan_fail(struct plan_builder *builder, const char *format, ...)
{
    if (builder->failed)
        return PLAN_NONE;
    builder->failed = true;
    va_list arguments;
    va_start(arguments, format);
    char message[sizeof builder->error->message];
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    error_set(builder->error, "%s", message);
    return PLAN_NONE;
}

void *plan_grow(struct plan_builder *builder, void *array, int *count, size_t size)
{
    void **elements = array;
    if ((*count & (*count - 1)) == 0) {
        size_t room = *count ? 2 * (size_t)*count : 1;
        void *larger = realloc(*elements, room * size);
        if (!larger) {
            plan_fail(builder, "out of memory while building the plan");
            return NULL;
        }
        *elements = larger;
    }
    void *element = (char *)*elements + (size_t)*count * size;
    memset(element, 0, size);
    ++*count;
    return element;
}

int plan_begin(struct plan_builder *builder, const struct weights *weights, struct error *error)
{
    memset(builder, 0, sizeof *builder);
    builder->weights = weights;
    builder->error = error;
    for (size_t i = 0; i < weights_count(weights); i++)
        builder->all_elements += weights_at(weights, i)->elements;
    builder->plan = calloc(1, sizeof *builder->plan);
    builder->used = calloc(weights_count(weights) + 1, sizeof *builder->used);
    if (!builder->plan || !builder->used) {
        free(builder->plan);
        free(builder->used);
        return error_set(error, "out of memory while building the plan");
    }
    builder->plan->output_name = "output";
    builder->plan->hidden_axis = PLAN_NONE;
    return 0;
}
