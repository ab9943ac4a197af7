/* Tests of the keys `labels`, `image` and `tokenizer` of config.json, which are checked against a loaded model. */
#include "server/served_model.h"
#include "server/tokenizer/text_codec.h"
#include "tests/fake_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int64_t vocabulary; /* number of ids of the models that read ids */
static const char *folder; /* folder of the model, which may contain a tokenizer */

/* Makes a model whose output is a vector of `columns` elements, and whose input has this kind and shape. */
static struct model *make_model(enum input_kind kind, int rank, const int64_t *shape, int64_t columns, int n_tensors)
{
    static const char *const outputs[] = {"scores"};
    struct model_input input = {.name = "img", .kind = kind, .layout = LAYOUT_TENSOR, .rank = rank, .columns = 1};
    memcpy(input.shape, shape, (size_t)rank * sizeof *shape);
    struct model_info info = {.architecture = "module",
                              .inputs = &input,
                              .n_inputs = 1,
                              .outputs = outputs,
                              .n_outputs = 1,
                              .n_tensors = n_tensors,
                              .vocabulary = kind == INPUT_IDS ? vocabulary : 0,
                              .output_columns = columns,
                              .gives_vector = true};
    return fake_model(&info);
}

struct opened {
    int status;
    struct served_model served;
    struct model_config config;
    struct error error;
};

static void open_model(struct opened *opened, struct model *model, const char *keys)
{
    char text[512];
    snprintf(text, sizeof text, "{\"architecture\": \"module\", \"kwargs\": {}%s%s}", *keys ? ", " : "", keys);
    *opened = (struct opened){.served = {.name = "m", .model = model}};
    if (model_config_parse(text, strlen(text), "config.json", &opened->config, &opened->error) != 0)
        fail_msg("%s", opened->error.message);
    opened->status = served_model_open(&opened->served, folder, NULL, &opened->config, &opened->error);
}

static void close_model(struct opened *opened)
{
    served_model_free(&opened->served);
    model_config_free(&opened->config);
    model_close(opened->served.model);
}

static const int64_t picture[] = {3, 16, 24}, free_picture[] = {3, -1, -1}, two_channels[] = {2, 16, 24}, ids[] = {-1};

static void expect_failure(struct model *model, const char *keys, const char *message)
{
    struct opened opened;
    open_model(&opened, model, keys);
    assert_int_equal(opened.status, -1);
    assert_string_equal(opened.error.message, message);
    close_model(&opened);
}

static void labels_must_be_as_many_as_columns(void **state)
{
    (void)state;
    struct opened opened;
    open_model(&opened, make_model(INPUT_IDS, 1, ids, 3, 0), "\"labels\": [\"a\", \"b\", \"a\"]");
    assert_int_equal(opened.status, 0);
    assert_string_equal(opened.served.labels[1].text, "b");
    assert_true(opened.served.labels[0].is_repeated_later);
    assert_false(opened.served.labels[1].is_repeated_later);
    assert_false(opened.served.labels[2].is_repeated_later);
    close_model(&opened);
    expect_failure(make_model(INPUT_IDS, 1, ids, 3, 0), "\"labels\": [\"a\", \"b\"]",
                   "labels: found 2 names; expected 3, one for each column of output \"scores\"");
    expect_failure(make_model(INPUT_IDS, 1, ids, 3, 2), "\"labels\": [\"a\", \"b\"]",
                   "labels: the model outputs tensors; expected one output (batch, classes)");
}

static void models_of_pictures_must_have_three_channels(void **state)
{
    (void)state;
    static const struct {
        enum input_kind kind;
        int rank;
        const int64_t *shape;
        const char *keys;
        int64_t height, width;
    } cases[] = {
        {INPUT_ROWS, 3, picture, "", 16, 24},
        {INPUT_ROWS, 3, picture, "\"image\": {\"size\": [16, 24], \"crop\": \"none\"}", 16, 24},
        {INPUT_ROWS, 3, free_picture, "\"image\": {\"size\": 32}", 32, 32},
        {INPUT_ROWS, 3, free_picture, "", 0, 0},
        {INPUT_ROWS, 3, two_channels, "", 0, 0},
        {INPUT_IDS, 3, picture, "", 0, 0},
        {INPUT_IDS, 1, ids, "", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened opened;
        open_model(&opened, make_model(cases[i].kind, cases[i].rank, cases[i].shape, 3, 0), cases[i].keys);
        if (opened.status != 0)
            fail_msg("%s", opened.error.message);
        assert_int_equal(opened.served.image.height, cases[i].height);
        assert_int_equal(opened.served.image.width, cases[i].width);
        if (i == 1)
            assert_false(opened.served.image.crop);
        close_model(&opened);
    }
}

static void an_image_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    expect_failure(make_model(INPUT_ROWS, 3, picture, 3, 0), "\"image\": {\"size\": [24, 16]}",
                   "image: size is [24, 16] (height, width); expected [16, 24], that of input \"img\"");
    expect_failure(make_model(INPUT_ROWS, 3, picture, 3, 0), "\"image\": {\"size\": [24, 24]}",
                   "image: size is [24, 24] (height, width); expected [16, 24], that of input \"img\"");
    expect_failure(make_model(INPUT_ROWS, 3, picture, 3, 0), "\"image\": {\"size\": 16}",
                   "image: size is [16, 16] (height, width); expected [16, 24], that of input \"img\"");
    expect_failure(make_model(INPUT_ROWS, 3, picture, 3, 0), "\"image\": {}",
                   "image: size is [224, 224] (height, width); expected [16, 24], that of input \"img\"");
    expect_failure(
        make_model(INPUT_ROWS, 3, two_channels, 3, 0), "\"image\": {\"size\": [16, 24]}",
        "image: input \"img\" of the model has shape (batch, 2, 16, 24); expected (batch, 3, height, width)");
    expect_failure(make_model(INPUT_IDS, 1, ids, 3, 0), "\"image\": {}",
                   "image: input \"img\" of the model does not accept floats of shape (batch, 3, height, width)");
}

/* ---- Texts ---- */

#define REFERENCE "tests/tokenizers/reference"

static void expect_tokenizer(enum input_kind kind, const char *keys, const char *name)
{
    struct opened opened;
    open_model(&opened, make_model(kind, 1, ids, 3, 0), keys);
    if (opened.status != 0)
        fail_msg("%s", opened.error.message);
    assert_int_equal(opened.served.codec != NULL, name != NULL);
    if (name)
        assert_string_equal(text_codec_name(opened.served.codec), name);
    assert_int_equal(opened.served.tokenizes, name && strcmp(name, "byte") != 0);
    close_model(&opened);
}

/* The folder REFERENCE contains no tokenizer.json. The tokenizer of its file bert.json has 598 ids. */
static void a_tokenizer_must_be_a_file_or_bytes(void **state)
{
    (void)state;
    folder = REFERENCE;
    vocabulary = 598;
    expect_tokenizer(INPUT_IDS, "", NULL);
    expect_tokenizer(INPUT_IDS, "\"tokenizer\": null", NULL);
    expect_tokenizer(INPUT_IDS, "\"tokenizer\": \"bert.json\"", "bert.json");
    expect_tokenizer(INPUT_IDS, "\"tokenizer\": {\"type\": \"byte\"}", "byte");
    expect_tokenizer(INPUT_ROWS, "", NULL);
}

static void tokenizer_json_needs_no_key(void **state)
{
    (void)state;
    char made[] = "/tmp/linformerd-served-XXXXXX", path[64], target[4096];
    assert_non_null(mkdtemp(made));
    assert_non_null(realpath(REFERENCE "/bert.json", target));
    snprintf(path, sizeof path, "%s/tokenizer.json", made);
    assert_int_equal(symlink(target, path), 0);
    folder = made;
    vocabulary = 598;
    expect_tokenizer(INPUT_IDS, "", "tokenizer.json");
    expect_tokenizer(INPUT_IDS, "\"tokenizer\": null", NULL);
    expect_tokenizer(INPUT_IDS, "\"tokenizer\": {\"type\": \"byte\"}", "byte");
    struct opened opened;
    open_model(&opened, make_model(INPUT_ROWS, 1, ids, 3, 0), "");
    assert_int_equal(opened.status, 0);
    assert_null(opened.served.codec);
    assert_true(opened.served.codec_unused);
    close_model(&opened);
    unlink(path);
    rmdir(made);
}

static void a_tokenizer_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    folder = REFERENCE;
    vocabulary = 597;
    expect_failure(make_model(INPUT_IDS, 1, ids, 3, 0), "\"tokenizer\": \"bert.json\"",
                   "tokenizer \"bert.json\" returns ids up to 597, but the model accepts only ids below 597");
    expect_failure(make_model(INPUT_ROWS, 1, ids, 3, 0), "\"tokenizer\": \"bert.json\"",
                   "tokenizer \"bert.json\" returns ids, but input \"img\" of the model accepts no ids");
    expect_failure(make_model(INPUT_ROWS, 1, ids, 3, 0), "\"tokenizer\": {\"type\": \"byte\"}",
                   "tokenizer \"byte\" returns ids, but input \"img\" of the model accepts no ids");
    expect_failure(make_model(INPUT_IDS, 1, ids, 3, 0), "\"tokenizer\": \"none.json\"",
                   REFERENCE "/none.json: cannot be opened: No such file or directory");
    vocabulary = 258;
    expect_failure(make_model(INPUT_IDS, 1, ids, 3, 0), "\"tokenizer\": {\"type\": \"byte\"}",
                   "tokenizer \"byte\" returns ids up to 258, but the model accepts only ids below 258. With "
                   "\"offset\": 0, the ids "
                   "are the bytes, up to 255");
    vocabulary = 97;
    expect_failure(make_model(INPUT_IDS, 1, ids, 3, 0), "\"tokenizer\": {\"type\": \"byte\", \"offset\": 0}",
                   "tokenizer \"byte\" returns ids up to 255, but the model accepts only ids below 97");
    vocabulary = 1000;
    struct opened opened;
    open_model(&opened, make_model(INPUT_IDS, 1, ids, 3, 0), "\"tokenizer\": \"texts.json\"");
    assert_int_equal(opened.status, -1);
    assert_non_null(strstr(opened.error.message, REFERENCE "/texts.json"));
    close_model(&opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_must_be_as_many_as_columns),
        cmocka_unit_test(models_of_pictures_must_have_three_channels),
        cmocka_unit_test(an_image_that_does_not_fit_is_refused),
        cmocka_unit_test(a_tokenizer_must_be_a_file_or_bytes),
        cmocka_unit_test(tokenizer_json_needs_no_key),
        cmocka_unit_test(a_tokenizer_that_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
