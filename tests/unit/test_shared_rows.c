/* Tests of items that share a source: the inputs of an encoder, or a context. Their results must have the same bits as
 * those of items with copies of the source, if the model is batch invariant. The rows of a shared encoder are computed
 * once. SEED chooses lengths, ids and floats. */
#include "engine/families/family.h"
#include "engine/plan/padder.h"
#include "tests/unit/loaded.h"
#include "tests/unit/tensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ITEMS 5
#define TOKENS 512

/* The items of a batch. Each item has its own input sequence. The other inputs are those of the first item, or copies
 * of them. */
struct items {
    struct engine_item list[ITEMS];
    void *memory[ITEMS][ENGINE_MAX_INPUTS]; /* the memory of each input, NULL if the input is that of another item */
    float *outputs[ITEMS];
};

static bool is_given(const struct model_input *input)
{
    return input->kind == INPUT_IDS || input->kind == INPUT_ROWS;
}

static void *random_rows(const struct model_input *input, int64_t length)
{
    int64_t count = length * (input->kind == INPUT_ROWS ? input->columns : 1);
    union {
        int32_t id;
        float value;
    } *rows = calloc((size_t)count, sizeof *rows);
    for (int64_t i = 0; i < count; i++) {
        if (input->kind == INPUT_IDS)
            rows[i].id = (int32_t)random_size(0, input->vocabulary - 1);
        else
            rows[i].value = random_float();
    }
    return rows;
}

static int64_t random_length(const struct model_input *input)
{
    return random_size(input->min_length > 0 ? input->min_length : 1, input->max_length < 40 ? input->max_length : 40);
}

static size_t bytes_of(const struct model_input *input, int64_t length)
{
    return (size_t)(length * (input->kind == INPUT_ROWS ? input->columns : 1)) * sizeof(float);
}

static void make_items(const struct model *model, struct items *items)
{
    const struct model_info *info = model_info(model);
    memset(items, 0, sizeof *items);
    for (int i = 0; i < ITEMS; i++) {
        for (int k = 0; k < info->n_inputs; k++) {
            struct engine_input *input = &items->list[i].inputs[k];
            if (!is_given(&info->inputs[k]))
                continue;
            *input = items->list[0].inputs[k];
            if (i > 0 && k != info->sequence_input)
                continue;
            input->length = info->inputs[k].like < 0 ? random_length(&info->inputs[k])
                                                     : items->list[i].inputs[info->inputs[k].like].length;
            input->data = items->memory[i][k] = random_rows(&info->inputs[k], input->length);
        }
        items->list[i].n_rows = model_hidden_rows(model, &items->list[i]);
        items->outputs[i] = calloc((size_t)(items->list[i].n_rows * info->output_columns), sizeof(float));
        items->list[i].output = items->outputs[i];
    }
}

/* Copies the items. Each copy has its own memory for all inputs. */
static void copy_items(const struct model *model, const struct items *from, struct items *to)
{
    const struct model_info *info = model_info(model);
    memset(to, 0, sizeof *to);
    for (int i = 0; i < ITEMS; i++) {
        to->list[i] = from->list[i];
        for (int k = 0; k < info->n_inputs; k++) {
            struct engine_input *input = &to->list[i].inputs[k];
            size_t bytes = bytes_of(&info->inputs[k], input->length);
            if (!input->data)
                continue;
            to->memory[i][k] = malloc(bytes);
            memcpy(to->memory[i][k], input->data, bytes);
            input->data = to->memory[i][k];
        }
        to->outputs[i] = calloc((size_t)(to->list[i].n_rows * info->output_columns), sizeof(float));
        to->list[i].output = to->outputs[i];
    }
}

static void free_items(struct items *items)
{
    for (int i = 0; i < ITEMS; i++) {
        for (int k = 0; k < ENGINE_MAX_INPUTS; k++)
            free(items->memory[i][k]);
        free(items->outputs[i]);
    }
}

static void expect_same(const struct model *model, const struct items *found, const struct items *expected)
{
    const struct model_info *info = model_info(model);
    for (int i = 0; i < ITEMS; i++) {
        int64_t count = found->list[i].n_rows * info->output_columns;
        for (int64_t n = 0; n < count && !info->batch_invariant; n++)
            assert_float_equal(found->outputs[i][n], expected->outputs[i][n], 1e-5);
        if (info->batch_invariant)
            assert_memory_equal(found->outputs[i], expected->outputs[i], (size_t)count * sizeof(float));
    }
}

/* Builds the plan of a reference case. The test frees it. */
static struct plan *plan_of(const char *name)
{
    char path[256];
    struct model_config config;
    struct weights *weights;
    struct plan_builder builder;
    struct plan *plan;
    struct error error;
    snprintf(path, sizeof path, "tests/reference/%s/config.json", name);
    must(model_config_read(path, &config, &error), &error);
    snprintf(path, sizeof path, "tests/reference/%s/model.safetensors", name);
    must(weights_open(path, &weights, &error), &error);
    must(weights_read(weights, &error), &error);
    must(plan_begin(&builder, weights, &error), &error);
    const struct family_class *class = family_find(config.architecture, &error);
    assert_non_null(class);
    class->build(&builder, class->name, &config);
    must(plan_finish(&builder, TOKENS, ITEMS, &plan), &error);
    weights_close(weights);
    model_config_free(&config);
    return plan;
}

/* Returns the number of rows of the first input in a batch of the items. `shares` tells whether the batch shares
 * rows. */
static int64_t rows_of_source(const struct plan *plan, const struct items *items, bool shares)
{
    struct batch batch;
    struct error error;
    must(padder_open(plan, &batch, &error), &error);
    batch.shares = shares;
    padder_lay_out(plan, &batch, items->list, ITEMS);
    int64_t rows = batch.layouts[plan->values[plan->inputs[0].value].axis].item_starts[ITEMS];
    padder_free(plan, &batch);
    return rows;
}

static void compare(const char *name)
{
    const struct engine_options options = {.device = {DEVICE_CPU},
                                           .dtype = DTYPE_F32,
                                           .threads = 2,
                                           .all_threads = true,
                                           .max_batch_tokens = TOKENS,
                                           .max_batch_requests = ITEMS};
    struct loaded loaded = {0};
    struct items items, copies;
    struct error error;
    must(load_with(&options, "", name, NULL, &loaded, &error), &error);
    for (int round = 0; round < 4; round++) {
        make_items(loaded.model, &items);
        copy_items(loaded.model, &items, &copies);
        for (int i = 0; i < ITEMS; i++)
            must(model_check(loaded.model, &items.list[i], &error), &error);
        must(model_run(loaded.model, 0, copies.list, ITEMS, &error), &error);
        must(model_run(loaded.model, 0, items.list, ITEMS, &error), &error);
        expect_same(loaded.model, &items, &copies);
        free_items(&items);
        free_items(&copies);
    }
    unload(&loaded);
}

static void an_encoder_runs_once_for_several_targets(void **state)
{
    (void)state;
    compare("linear_attention_encoder_decoder");
}

static void rows_of_a_source_are_counted_once(void **state)
{
    (void)state;
    struct plan *plan = plan_of("linear_attention_encoder_decoder");
    static const int32_t ids[80] = {0};
    static const uint8_t mask[80] = {0};
    struct items items = {0};
    for (int i = 0; i < ITEMS; i++) {
        items.list[i].inputs[0] = (struct engine_input){.data = ids, .length = 16};
        items.list[i].inputs[1] = (struct engine_input){.data = ids, .length = 1 + i};
    }
    assert_int_equal(rows_of_source(plan, &items, true), 16);
    assert_int_equal(rows_of_source(plan, &items, false), 16 * ITEMS); /* without sharing, each item has its own rows */
    items.list[2].inputs[2] = (struct engine_input){.data = mask, .length = 16};
    assert_int_equal(rows_of_source(plan, &items, true), 3 * 16); /* one item has a mask, so its source differs */
    items.list[2].inputs[2].data = NULL;
    items.list[2].inputs[2].length = 0;
    items.list[1].inputs[0].data = ids + 1;
    assert_int_equal(rows_of_source(plan, &items, true), 3 * 16);
    items.list[1].inputs[0] = items.list[0].inputs[0];
    items.list[4].n_extras = 1;
    assert_int_equal(rows_of_source(plan, &items, true), 2 * 16); /* attention weights are not shared */
    items.list[4].n_extras = 0;
    items.list[3].slot = 1;
    assert_int_equal(rows_of_source(plan, &items, true), 3 * 16);
    plan_free(plan);
}

static void a_context_may_be_shared(void **state)
{
    (void)state;
    compare("linear_attention_context_linformer");
    compare("linformer_attention");
    compare("linformer_pytorch_enc_dec");
    compare("linformer_pytorch_decoder");
    compare("keras_default");
    compare("keras_unprojected"); /* keys and values are not projected, and have the same number of rows */
    compare("keras_separate_sizes");
}

int main(void)
{
    uint64_t seed = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : 20261123;
    random_seed(seed);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_encoder_runs_once_for_several_targets),
        cmocka_unit_test(rows_of_a_source_are_counted_once),
        cmocka_unit_test(a_context_may_be_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
