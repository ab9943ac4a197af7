/* Several models in one daemon, named one by one or as a folder of models. Also models with several inputs, on routes
 * that accept only one input. */
#include "engine/cpu/vector.h"
#include "tests/http/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CASES "tests/reference/"

static const char *name_at(const json_t *models, size_t index)
{
    return json_string_value(json_object_get(json_array_get(models, index), "id"));
}

/* Makes a folder with links to two models, and with an empty folder. The test removes it. */
static void make_folder(char *folder)
{
    char path[256], target[4096], here[2048];
    assert_non_null(mkdtemp(folder));
    assert_non_null(getcwd(here, sizeof here));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i ? "b" : "a");
        snprintf(target, sizeof target, "%s/" CASES "%s", here, i ? "linformer_lm" : "linformer_encoder");
        assert_int_equal(symlink(target, path), 0);
    }
    snprintf(path, sizeof path, "%s/empty", folder);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void remove_folder(const char *folder)
{
    static const char *const names[] = {"a", "b", "empty"};
    char path[256];
    for (size_t i = 0; i < LENGTH(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

static void all_models_of_a_folder_are_served(void **state)
{
    (void)state;
    char folder[] = "/tmp/linformerd-models-XXXXXX";
    make_folder(folder);
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", "first=" CASES "linformer_lm", "--model", folder));
    struct answer list = daemon_get(daemon, "/v1/models");
    const json_t *models = json_object_get(list.json, "data");
    assert_int_equal(json_array_size(models), 3);
    assert_string_equal(name_at(models, 0), "first");
    assert_string_equal(name_at(models, 1), "a");
    assert_string_equal(name_at(models, 2), "b");
    answer_free(&list);
    json_t *one = daemon_post_json(daemon, "/logits", "{\"model\": \"b\", \"inputs\": [1, 2, 3]}");
    json_t *other = daemon_post_json(daemon, "/logits", "{\"inputs\": [1, 2, 3]}");
    assert_true(json_equal(one, other));
    json_decref(one);
    json_decref(other);
    daemon_stop(daemon);
    remove_folder(folder);
}

static void several_inputs_are_named_with_their_kinds(void **state)
{
    (void)state;
    static const char *const expected[][2] = {{"query", "floats"},
                                              {"key", "floats"},
                                              {"value", "floats"},
                                              {"key_padding_mask", "ignored"},
                                              {"attn_mask", "attention_mask"}};
    struct daemon *daemon = daemon_start(
        ARGUMENTS("--model", CASES "linear_multihead_attention_default", "--model", CASES "linear_attention_lm"));
    struct answer answer = daemon_get(daemon, "/info");
    const json_t *models = json_object_get(answer.json, "models"), *input;
    size_t index;
    json_array_foreach (json_object_get(json_array_get(models, 0), "inputs"), index, input) {
        assert_true(index < LENGTH(expected));
        assert_string_equal(json_string_value(json_object_get(input, "name")), expected[index][0]);
        assert_string_equal(json_string_value(json_object_get(input, "kind")), expected[index][1]);
    }
    assert_int_equal(index, LENGTH(expected));
    for (index = 0; index < 2; index++) {
        input = json_array_get(json_object_get(json_array_get(models, 1), "inputs"), index);
        assert_string_equal(json_string_value(json_object_get(input, "name")), index ? "input_mask" : "x");
        assert_string_equal(json_string_value(json_object_get(input, "kind")), index ? "mask" : "ids");
    }
    answer_free(&answer);
    expect_failure(daemon, "/embed", "{\"embeddings\": [[1]]}", 422, "Validation",
                   "needs the inputs \"query\", \"key\", \"value\", but \"key\" is missing");
    daemon_stop(daemon);
}

static void expect_refused(const char *const *arguments, const char *part)
{
    char *log = daemon_refused(arguments);
    if (!strstr(log, part))
        fail_msg("\"%s\" is not in: %s", part, log);
    free(log);
}

static void folders_without_a_model_are_refused_by_name(void **state)
{
    (void)state;
    char folder[] = "/tmp/linformerd-models-XXXXXX", path[128];
    make_folder(folder);
    snprintf(path, sizeof path, "%s/empty", folder);
    expect_refused(ARGUMENTS("--model", path), "empty/config.json");
    snprintf(path, sizeof path, "%s/none", folder);
    expect_refused(ARGUMENTS("--model", path), "none/config.json");
    snprintf(path, sizeof path, "name=%s", folder);
    expect_refused(ARGUMENTS("--model", path), "the folder contains folders of models");
    expect_refused(ARGUMENTS("--model", folder, "--model", "b=" CASES "linformer_lm"), "two models are named");
    remove_folder(folder);
}

/* Makes a folder with a config.json and empty files of these names, at most 3. Expects a refusal whose message contains
 * `part`. */
static void expect_weights_refused(const char *const *names, const char *part)
{
    char folder[] = "/tmp/linformerd-models-XXXXXX", path[128];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *config = fopen(path, "w");
    assert_non_null(config);
    fputs("{\"architecture\": \"linformer.LinformerLM\"}", config);
    fclose(config);
    for (size_t i = 0; i < 3 && names[i]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        fclose(fopen(path, "w"));
    }
    expect_refused(ARGUMENTS("--model", folder), part);
    expect_refused(ARGUMENTS("--explain", folder), part);
    for (size_t i = 0; i < 3 && names[i]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    snprintf(path, sizeof path, "%s/config.json", folder);
    remove(path);
    rmdir(folder);
}

static void weights_of_another_format_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *names[3], *expected;
    } cases[] = {
        {{"last.ckpt"},
         ": expected model.safetensors, found last.ckpt: load the weights into the class and save the model with "
         "weights/export.py"},
        {{"weights.h5", "notes.txt"}, "found weights.h5: load the weights"},
        {{"mine.safetensors", "optimizer.pt", "notes.txt"},
         ": expected model.safetensors or model.pt, found mine.safetensors, optimizer.pt: rename the file, or add "
         "model.safetensors.index.json"},
        {{"pytorch_model.bin"}, "/pytorch_model.bin: has 0 bytes, expected a file of torch.save"},
        {{"model.pth", "pytorch_model.bin"}, "/model.pth: has 0 bytes"},
        {{"notes.txt"}, "/model.safetensors: cannot be opened: No such file or directory"},
        {{"model.safetensors", "pytorch_model.bin"}, "/model.safetensors: is empty, expected a safetensors file"},
        {{"model.safetensors.index.json", "pytorch_model.bin"}, "/model.safetensors.index.json: "},
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        expect_weights_refused(cases[i].names, cases[i].expected);
}

/* In this test, the files of oneDNN are empty. */
static void onednn_that_does_not_open_is_reported(void **state)
{
    (void)state;
    static const char *const names[] = {"libdnnl.so.2", "libdnnl.so.3", "libdnnl.so.3.6"};
    char folder[] = "/tmp/linformerd-models-XXXXXX", path[128];
    enum instruction_set set;
    struct error error;
    if (instruction_set_choose(SET_AUTO, &set, &error) != 0 || set != SET_AVX512)
        skip(); /* without AVX-512, the daemon would not look for the library */
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < LENGTH(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        fclose(fopen(path, "w"));
    }
    setenv("LD_LIBRARY_PATH", folder, 1);
    expect_refused(ARGUMENTS("--model", "/nowhere"), "products run without oneDNN");
    unsetenv("LD_LIBRARY_PATH");
    for (size_t i = 0; i < LENGTH(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_models_of_a_folder_are_served),
        cmocka_unit_test(folders_without_a_model_are_refused_by_name),
        cmocka_unit_test(weights_of_another_format_are_named),
        cmocka_unit_test(onednn_that_does_not_open_is_reported),
        cmocka_unit_test(several_inputs_are_named_with_their_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
