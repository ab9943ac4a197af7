/* Tests the model of every reference case with batches of random items, which differ in lengths, masks, optional inputs
 * and requested outputs. Each item's results are compared with those of the same item run alone. SEED chooses the
 * items. */
#include "engine/engine.h"
#include "tests/unit/loaded.h"
#include "tests/unit/tensors.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define CASES_FOLDER "tests/reference"
#define MIN_CASES 82
#define ITEMS 6
#define ROUNDS 4
#define TOKENS 256     /* maximum number of tokens of a batch */
#define LONGEST 40     /* maximum number of rows of an item, even if the model accepts more */
#define WIDEST 3       /* maximum number of sequences of a call */
#define SIDE 8         /* maximum height and width of an image */
#define TRIES 1000     /* maximum number of attempts to make an item that the model accepts */
#define MAX_OUTPUTS 8  /* maximum number of requested outputs besides the first */
#define TOLERANCE 1e-6 /* relative L2 difference that is allowed if the model is not batch invariant */

/* An item, its inputs, and memory for its results. */
struct sample {
    struct engine_item item;
    struct engine_extra extras[MAX_OUTPUTS];
    void *inputs[ENGINE_MAX_INPUTS];
    float *results;
    int64_t n_results; /* number of floats in `results` */
};

/* ---- Random items ---- */

static void fill(const struct model_input *input, void *data, int64_t count, int64_t columns)
{
    for (int64_t i = 0; i < count; i++) {
        if (input->kind == INPUT_IDS)
            ((int32_t *)data)[i] = (int32_t)random_size(0, input->vocabulary - 1);
        else if (input->kind == INPUT_ROWS)
            ((float *)data)[i] = random_float();
        /* If a row of the mask hides all scores, the result of LinearMultiheadAttention is NaN. The first score of each
         * row is therefore visible. */
        else
            ((uint8_t *)data)[i] =
                input->kind == INPUT_ATTENTION_MASK && i % columns == 0 ? 0 : (uint8_t)random_size(0, 1);
    }
}

static int64_t random_length(const struct model_input *input)
{
    int64_t most = input->max_length < LONGEST ? input->max_length : LONGEST;
    return random_size(input->min_length < most ? input->min_length : most, most);
}

/* Sets the input to random data. Sometimes leaves out an optional input. */
static void give_input(const struct model_info *info, struct sample *sample, int index, int64_t width)
{
    const struct model_input *input = &info->inputs[index];
    struct engine_item *item = &sample->item;
    int64_t columns = input->kind == INPUT_ROWS ? input->columns : 1;
    if (input->kind == INPUT_IGNORED || input->refused || (input->optional && random_size(0, 3) == 0))
        return;
    if (input->like >= 0 && !item->inputs[input->like].data)
        return;
    int64_t length = input->like >= 0 ? item->inputs[input->like].length : random_length(input);
    if (input->layout == LAYOUT_IMAGE) {
        length = random_size(1, SIDE);
        width = random_size(1, SIDE);
    }
    if (input->kind == INPUT_ATTENTION_MASK) {
        columns = input->columns ? input->columns : item->inputs[input->columns_like].length;
        item->inputs[index].columns = columns;
    }
    int64_t rows = length * (width && input->kind != INPUT_ATTENTION_MASK ? width : 1);
    sample->inputs[index] = malloc((size_t)(rows * columns + 1) * 4);
    fill(input, sample->inputs[index], rows * columns, columns);
    item->inputs[index].data = sample->inputs[index];
    item->inputs[index].length = length;
    item->inputs[index].width = width;
}

static int64_t product(int rank, const int64_t *shape)
{
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    return count;
}

/* Requests the output, the last hidden state, the pooled vector, and some of the other outputs. For a model of images,
 * only outputs can be requested. */
static void want_results(const struct loaded *loaded, struct sample *sample)
{
    const struct model_info *info = model_info(loaded->model);
    struct engine_item *item = &sample->item;
    int64_t shape[ENGINE_MAX_RANK], places[MAX_OUTPUTS];
    int64_t elements = product(model_output_shape(loaded->model, item, 0, shape), shape);
    item->n_rows = elements / info->output_columns;
    bool has_hidden = info->inputs[0].layout != LAYOUT_IMAGE;
    sample->n_results = elements + (has_hidden ? (item->n_rows + 1) * info->hidden_columns : 0);
    for (int i = 1; i < info->n_outputs && item->n_extras < MAX_OUTPUTS; i++) {
        if (random_size(0, 1))
            continue;
        places[item->n_extras] = sample->n_results;
        sample->extras[item->n_extras++].output = i;
        sample->n_results += product(model_output_shape(loaded->model, item, i, shape), shape);
    }
    sample->results = calloc((size_t)sample->n_results, sizeof(float));
    item->extras = sample->extras;
    for (int i = 0; i < item->n_extras; i++)
        sample->extras[i].data = sample->results + places[i];
    item->output = sample->results;
    if (!has_hidden)
        return;
    item->hidden = sample->results + elements;
    item->pooled = item->hidden + item->n_rows * info->hidden_columns;
    item->pooling = (enum pooling)random_size(0, POOLING_COUNT - 1);
}

static void free_sample(struct sample *sample)
{
    for (int i = 0; i < ENGINE_MAX_INPUTS; i++)
        free(sample->inputs[i]);
    free(sample->results);
}

static void make_sample(const struct loaded *loaded, struct sample *sample)
{
    const struct model_info *info = model_info(loaded->model);
    struct error error;
    for (int i = 0; i < TRIES; i++) {
        int64_t width = info->inputs[0].layout == LAYOUT_CALL ? random_size(1, WIDEST) : 0;
        memset(sample, 0, sizeof *sample);
        for (int input = 0; input < info->n_inputs; input++)
            give_input(info, sample, input, width);
        if (model_check(loaded->model, &sample->item, &error) == 0) {
            want_results(loaded, sample);
            must(model_check(loaded->model, &sample->item, &error), &error);
            return;
        }
        free_sample(sample);
    }
    fail_msg("no random item is one that the model takes: %s", error.message);
}

/* ---- Together and alone ---- */

static void compare(const struct loaded *loaded, const float *found, const float *expected, int64_t n)
{
    double difference = 0, norm = 0;
    if (model_info(loaded->model)->batch_invariant) {
        assert_memory_equal(found, expected, (size_t)n * sizeof(float));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        difference += pow((double)found[i] - (double)expected[i], 2);
        norm += pow((double)expected[i], 2);
    }
    assert_true(sqrt(difference) <= TOLERANCE * sqrt(norm));
}

static void compare_alone(const struct loaded *loaded, const struct sample *sample)
{
    struct error error;
    size_t bytes = (size_t)sample->n_results * sizeof(float);
    float *together = malloc(bytes);
    memcpy(together, sample->results, bytes);
    memset(sample->results, 0, bytes);
    must(model_run(loaded->model, 0, &sample->item, 1, &error), &error);
    compare(loaded, sample->results, together, sample->n_results);
    free(together);
}

/* Runs a batch of random items, and compares each item's results with those of the same item run alone. Returns the
 * number of items. */
static int64_t run_batch(const struct loaded *loaded)
{
    struct sample samples[ITEMS];
    struct engine_item items[ITEMS];
    struct error error;
    int64_t count = 0, room = TOKENS;
    for (; count < ITEMS; count++) {
        make_sample(loaded, &samples[count]);
        room -= model_item_tokens(loaded->model, &samples[count].item);
        if (room < 0 && count > 0) {
            free_sample(&samples[count]);
            break;
        }
        items[count] = samples[count].item;
    }
    must(model_run(loaded->model, 0, items, count, &error), &error);
    for (int64_t i = count - 1; i >= 0; i--) {
        compare_alone(loaded, &samples[i]);
        free_sample(&samples[i]);
    }
    return count;
}

static void test_case(void **state)
{
    struct engine_options options = {.device = {DEVICE_CPU},
                                     .dtype = DTYPE_F32,
                                     .threads = 2,
                                     .max_batch_tokens = TOKENS,
                                     .max_batch_requests = ITEMS};
    struct loaded loaded = {0};
    struct error error;
    int64_t most = 0;
    must(load_with(&options, *state, "", NULL, &loaded, &error), &error);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t count = run_batch(&loaded);
        most = count > most ? count : most;
    }
    assert_true(most > 1);
    unload(&loaded);
}

static int is_case(const struct dirent *entry)
{
    char path[512];
    snprintf(path, sizeof path, CASES_FOLDER "/%s/config.json", entry->d_name);
    return entry->d_name[0] != '.' && access(path, F_OK) == 0;
}

int main(void)
{
    const char *given = getenv("SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20261121;
    struct dirent **entries;
    int count = scandir(CASES_FOLDER, &entries, is_case, alphasort);
    if (count < MIN_CASES) {
        fprintf(stderr, "%d cases in " CASES_FOLDER ", expected %d: run from the root of the repository\n", count,
                MIN_CASES);
        return 1;
    }
    random_seed(seed);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    struct CMUnitTest *tests = calloc((size_t)count, sizeof *tests);
    for (int i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){entries[i]->d_name, test_case, NULL, NULL, entries[i]->d_name};
    int failed = _cmocka_run_group_tests("batches of random items", tests, (size_t)count, NULL, NULL);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    free(tests);
    return failed;
}
