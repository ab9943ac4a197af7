/* The same model as safetensors, as a file of torch.save, and in shards (tests/torch/make.py). All forms must give the
 * same bits. If a file of torch.save calls a function, the daemon refuses it, and does not start. */
#include "tests/http/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CASE "linformer_pytorch_no_ff"

static const char *const forms[] = {"plain", "strided", "wrapped", "protocol4", "shards", "shards_bin"};

static void copy_file(const char *from, const char *to)
{
    size_t length;
    struct error error;
    char *bytes = file_read(from, 1 << 20, &length, &error);
    if (!bytes)
        fail_msg("%s", error.message);
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    free(bytes);
}

/* Makes the folder PARENT/FORM with copies of the case's config.json and of the files of the form. */
static void make_model(const char *parent, const char *form)
{
    char folder[256], command[1200];
    snprintf(folder, sizeof folder, "%s/%s", parent, form);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(command, sizeof command, "cp tests/torch/%s/* %s/ && cp " CASES_FOLDER "/" CASE "/config.json %s/", form,
             folder, folder);
    assert_int_equal(system(command), 0);
}

static void all_forms_of_a_torch_file_have_the_same_results(void **state)
{
    (void)state;
    char *folder = folder_make();
    for (size_t i = 0; i < LENGTH(forms); i++)
        make_model(folder, forms[i]);
    struct daemon *daemon =
        daemon_start(ARGUMENTS("--model", folder, "--model", CASES_FOLDER "/" CASE, "--max-batch-tokens", "512"));
    struct weights *calls = case_calls(CASES_FOLDER, CASE);
    struct infer_request body;
    int count = 0;
    for (; (body = case_body(calls, count)).bytes; count++) {
        struct infer_answer expected = infer_send(daemon, CASE, &body);
        case_compare(calls, count, &expected, 1e-5);
        for (size_t i = 0; i < LENGTH(forms); i++) {
            struct infer_answer found = infer_send(daemon, forms[i], &body);
            assert_int_equal(found.length, expected.length);
            assert_memory_equal(found.bytes, expected.bytes, found.length);
            infer_answer_free(&found);
        }
        infer_answer_free(&expected);
        infer_body_free(&body);
    }
    assert_true(count > 0);
    weights_close(calls);
    daemon_stop(daemon);
    folder_remove(folder);
    free(folder);
}

static void a_file_that_calls_a_function_is_refused(void **state)
{
    (void)state;
    char *folder = folder_make(), path[256];
    snprintf(path, sizeof path, "%s/config.json", folder);
    copy_file(CASES_FOLDER "/" CASE "/config.json", path);
    snprintf(path, sizeof path, "%s/model.pt", folder);
    copy_file("tests/fuzz/corpus/pickle/system.pt", path);
    char *log = daemon_refused(ARGUMENTS("--model", folder));
    if (!strstr(log, "model.pt: the file uses posix.system, which is not supported"))
        fail_msg("%s", log);
    free(log);
    folder_remove(folder);
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_forms_of_a_torch_file_have_the_same_results),
        cmocka_unit_test(a_file_that_calls_a_function_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
