/* Checkpoints in several files, and checkpoints whose tensors have other names than those of the class. Such names have
 * a prefix from a wrapper, or come from an older version of the library. Surplus tensors are ignored because `ignore`
 * in config.json lists them. The results must agree with the library. */
#include "tests/http/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 1e-5

/* The tensors of each reference case have one of these prefixes. The names of linformer.Linformer begin with "net."
 * even without a prefix. */
static const char *const prefixes[] = {"module.", "net.", "_orig_mod.", "model.", "", "_orig_mod.module."};

static void set_name(struct checkpoint_tensor *tensor, const char *prefix)
{
    static const char list[] = "pos_emb.weights.";
    char *name = malloc(strlen(prefix) + strlen(tensor->name) + 1);
    strcpy(name, prefix);
    strcat(name, tensor->name);
    char *found = strstr(name, list);
    if (found) /* the name in axial-positional-embedding up to 0.2.1 */
        found[sizeof list - 2] = '_';
    free(tensor->name);
    tensor->name = name;
}

/* In __metadata__, the name of a missing tensor maps to the name of a tensor with the same data. This function adds the
 * prefix to both names. */
static void set_metadata(struct checkpoint *checkpoint, const char *prefix)
{
    json_t *renamed = json_object(), *value;
    const char *key;
    json_object_foreach (checkpoint->metadata, key, value) {
        char alias[512], name[512];

        snprintf(alias, sizeof alias, "%s%s", prefix, key);
        snprintf(name, sizeof name, "%s%s", prefix, json_string_value(value));
        json_object_set_new(renamed, alias, json_string(name));
    }
    json_decref(checkpoint->metadata);
    checkpoint->metadata = renamed;
}

static void set_ignore(struct checkpoint *checkpoint, const char *ignore)
{
    json_t *config = json_loads(checkpoint->config, 0, NULL);
    assert_non_null(config);
    json_object_set_new(config, "ignore", json_loads(ignore, 0, NULL));
    free(checkpoint->config);
    checkpoint->config = json_dumps(config, 0);
    json_decref(config);
}

static void write_renamed(const char *case_name, const char *prefix, const char *folder)
{
    struct checkpoint checkpoint = checkpoint_read(case_name);
    char path[512];
    for (size_t i = 0; i < checkpoint.count; i++)
        set_name(&checkpoint.tensors[i], prefix);
    set_metadata(&checkpoint, prefix);
    checkpoint_add(&checkpoint, "n_averaged", 1);
    snprintf(path, sizeof path, "%sema_shadow.weight", prefix);
    checkpoint_add(&checkpoint, path, 3);
    set_ignore(&checkpoint, "[\"n_averaged\", \"ema_*.weig*\"]");
    snprintf(path, sizeof path, "%s/%s", folder, case_name);
    checkpoint_write(&checkpoint, path, 0);
    checkpoint_free(&checkpoint);
}

static void compare_case(const struct daemon *daemon, const char *name)
{
    struct weights *calls = case_calls(CASES_FOLDER, name);
    struct infer_request body;
    for (int index = 0; (body = case_body(calls, index)).bytes; index++) {
        struct infer_answer answer = infer_send(daemon, name, &body);

        case_compare(calls, index, &answer, TOLERANCE);
        infer_answer_free(&answer);
        infer_body_free(&body);
    }
    weights_close(calls);
}

/* Renames folder/model.safetensors to the name of part `number` of a checkpoint of two files. */
static void rename_part(const char *folder, int number)
{
    char from[600], to[600];
    snprintf(from, sizeof from, "%s/model.safetensors", folder);
    snprintf(to, sizeof to, "%s/model-%05d-of-00002.safetensors", folder, number);
    assert_int_equal(rename(from, to), 0);
}

/* Writes every second tensor into one file, and the others into another file. */
static void write_parts(const char *case_name, const char *folder)
{
    json_t *map = json_object(), *index = json_pack("{s:{s:i}, s:o}", "metadata", "total_size", 1, "weight_map", map);
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, case_name);
    for (int part = 0; part < 2; part++) {
        struct checkpoint checkpoint = checkpoint_read(case_name);
        size_t kept = 0;

        for (size_t i = 0; i < checkpoint.count; i++) {
            struct checkpoint_tensor swapped = checkpoint.tensors[kept];

            if (i % 2 != (size_t)part)
                continue;
            checkpoint.tensors[kept++] = checkpoint.tensors[i];
            checkpoint.tensors[i] = swapped;
        }
        for (size_t i = 0; i < kept; i++)
            json_object_set_new(
                map, checkpoint.tensors[i].name,
                json_string(part ? "model-00002-of-00002.safetensors" : "model-00001-of-00002.safetensors"));
        size_t count = checkpoint.count;
        checkpoint.count = kept;
        checkpoint_write(&checkpoint, path, 0);
        checkpoint.count = count;
        checkpoint_free(&checkpoint);
        rename_part(path, part + 1);
    }
    strcat(path, "/model.safetensors.index.json");
    assert_int_equal(json_dump_file(index, path, 0), 0);
    json_decref(index);
}

static void a_checkpoint_in_several_files_is_served(void **state)
{
    (void)state;
    static const char *const names[] = {"linear_attention_lm_causal", "linformer_encoder", "keras_default"};
    char *folder = folder_make();
    for (size_t i = 0; i < LENGTH(names); i++)
        write_parts(names[i], folder);
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", folder, "--max-batch-tokens", "512"));
    for (size_t i = 0; i < LENGTH(names); i++)
        compare_case(daemon, names[i]);
    daemon_stop(daemon);
    folder_remove(folder);
    free(folder);
}

static void renamed_tensors_have_the_same_results(void **state)
{
    (void)state;
    struct cases cases = cases_find(CASES_FOLDER, MIN_CASES);
    char *folder = folder_make();
    for (size_t i = 0; i < cases.count; i++)
        write_renamed(cases.names[i], prefixes[i % LENGTH(prefixes)], folder);
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", folder, "--max-batch-tokens", "512"));
    for (size_t i = 0; i < cases.count; i++)
        compare_case(daemon, cases.names[i]);
    daemon_stop(daemon);
    folder_remove(folder);
    free(folder);
    cases_free(&cases);
}

enum fault { ONE_WITHOUT, UNKNOWN_PREFIX, NOT_IGNORED, FAULTS };

static void expect_refused(enum fault fault, const char *part)
{
    struct checkpoint checkpoint = checkpoint_read("linformer_lm");
    char *folder = folder_make(), path[512];
    for (size_t i = fault == ONE_WITHOUT; i < checkpoint.count; i++)
        set_name(&checkpoint.tensors[i], fault == UNKNOWN_PREFIX ? "wrapped." : "module.");
    if (fault == NOT_IGNORED)
        checkpoint_add(&checkpoint, "module.ema_weight", 3);
    set_ignore(&checkpoint, "[\"ema\", \"*.ema\", \"ema_*t_\", \"EMA_*\"]");
    snprintf(path, sizeof path, "%s/broken", folder);
    checkpoint_write(&checkpoint, path, 0);
    char *log = daemon_refused(ARGUMENTS("--model", folder));
    if (!strstr(log, part))
        fail_msg("\"%s\" is not in: %s", part, log);
    checkpoint_free(&checkpoint);
    folder_remove(folder);
    free(folder);
    free(log);
}

static void names_without_a_common_prefix_are_refused(void **state)
{
    (void)state;
    expect_refused(ONE_WITHOUT, " is missing");
    expect_refused(UNKNOWN_PREFIX, "is missing; the file has \\\"wrapped.");
    expect_refused(NOT_IGNORED, "tensor \\\"module.ema_weight\\\" [3] has no counterpart");
}

/* The second model fails to load, so the daemon ends without a signal. */
static void a_prefix_of_all_tensor_names_is_logged(void **state)
{
    (void)state;
    char *folder = folder_make();
    struct checkpoint broken = checkpoint_read("linformer_lm");
    char path[512];
    write_renamed("linformer_encoder", "net.", folder);
    checkpoint_remove(&broken, broken.tensors[0].name);
    snprintf(path, sizeof path, "%s/unloadable", folder);
    checkpoint_write(&broken, path, 0);
    checkpoint_free(&broken);
    char *log = daemon_refused(ARGUMENTS("--model", folder));
    if (!strstr(log, "removed a prefix from tensor names name=linformer_encoder prefix=net."))
        fail_msg("no line says so: %s", log);
    folder_remove(folder);
    free(folder);
    free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renamed_tensors_have_the_same_results),
        cmocka_unit_test(a_checkpoint_in_several_files_is_served),
        cmocka_unit_test(names_without_a_common_prefix_are_refused),
        cmocka_unit_test(a_prefix_of_all_tensor_names_is_logged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
