/* --explain, as scripts read it: the plan is on standard output. Standard error is empty, or contains one line with a
 * refusal. */
#include "tests/http/daemon.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs --explain in a shell with the given redirections. Reads the output into `text`, and returns the exit status. */
static int explain(const char *folder, const char *redirections, char *text, size_t size)
{
    const char *binary = getenv("LINFORMERD");
    char command[512];
    snprintf(command, sizeof command, "'%s' --explain '%s' %s", binary ? binary : "build/linformerd", folder,
             redirections);
    FILE *printed = popen(command, "r");
    assert_non_null(printed);
    size_t length = fread(text, 1, size - 1, printed);
    text[length] = '\0';
    return WEXITSTATUS(pclose(printed));
}

static void a_plan_is_written_without_log_lines(void **state)
{
    (void)state;
    char text[1 << 16];
    assert_int_equal(explain("tests/reference/linformer_lm", "2>/dev/null", text, sizeof text), 0);
    assert_non_null(strstr(text, "add_positions"));
    assert_int_equal(explain("tests/reference/linformer_lm", "2>&1 >/dev/null", text, sizeof text), 0);
    assert_string_equal(text, "");
}

/* The output gives the cost of a new token. If a new token runs the whole sequence again, the output names the step
 * that causes this. */
static void explain_names_the_step_that_makes_tokens_costly(void **state)
{
    (void)state;
    char text[1 << 16], step[128];
    assert_int_equal(explain("tests/reference/linear_attention_lm_causal", "2>/dev/null", text, sizeof text), 0);
    assert_non_null(strstr(
        text,
        "a new row costs the same after any number of rows. A slot, the state of one sequence, has 4672 bytes, and 64 "
        "slots have 299008 bytes\n"));
    assert_null(strstr(text, "runs the whole sequence again"));

    assert_int_equal(explain("tests/reference/linformer_pytorch_lm_causal", "2>/dev/null", text, sizeof text), 0);
    const char *reason = strstr(text, "each new token runs the whole sequence again: step ");
    assert_non_null(reason);
    int number = atoi(reason + strlen("each new token runs the whole sequence again: step "));
    assert_non_null(strstr(reason, ", project_sequence linformer.seq.0.fn.heads.0.E.weight, needs all positions"));
    snprintf(step, sizeof step, "\n%4d project_sequence ", number); /* the row of this step in the table of steps */
    assert_non_null(strstr(text, step));

    /* This model is not causal. */
    assert_int_equal(explain("tests/reference/linformer_lm", "2>/dev/null", text, sizeof text), 0);
    assert_null(strstr(text, "new token"));
    assert_null(strstr(text, "new row"));
}

static void a_refused_model_is_reported_in_one_line(void **state)
{
    (void)state;
    char folder[] = "/tmp/linformerd-explain-XXXXXX", config[64], text[4096];
    assert_non_null(mkdtemp(folder));
    snprintf(config, sizeof config, "%s/config.json", folder);
    FILE *file = fopen(config, "w");
    assert_non_null(file);
    fputs("{\"architecture\": 7}", file);
    fclose(file);
    assert_int_equal(explain(folder, "2>&1", text, sizeof text), 1);
    remove(config);
    rmdir(folder);
    assert_int_equal(strncmp(text, "linformerd: /tmp/linformerd-explain-", 36), 0);
    assert_non_null(strstr(text, "architecture"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

/* ---- Modules ---- */

#define MODULES "tests/modules/reference/"

/* Expects a line that begins with "node NAME: OPERATION (". */
static void expect_node(const char *module, const char *text, const json_t *name, const char *operation)
{
    char line[256];
    snprintf(line, sizeof line, "\nnode %s: %s (", json_string_value(name), operation);
    if (json_is_string(name) && !strstr(text, line))
        fail_msg("%s: no line \"%s\"", module, line + 1);
}

static void expect_all_nodes(const char *module)
{
    char path[256], *text = malloc(1 << 20);
    snprintf(path, sizeof path, MODULES "%s", module);
    assert_non_null(text);
    assert_int_equal(explain(path, "2>/dev/null", text, 1 << 20), 0);
    snprintf(path, sizeof path, MODULES "%s/config.json", module);
    json_t *config = json_load_file(path, 0, NULL), *node, *name;
    const json_t *nodes = json_object_get(json_object_get(config, "graph"), "nodes");
    size_t i, k;
    assert_true(json_array_size(nodes) > 0);
    json_array_foreach (nodes, i, node) {
        const char *op = json_string_value(json_object_get(node, "op"));
        const json_t *to = json_object_get(node, "to");
        op = strcmp(op, "leaf") == 0 ? json_string_value(json_object_get(node, "class")) : op;
        if (json_is_string(to))
            expect_node(module, text, to, op);
        json_array_foreach (to, k, name)
            expect_node(module, text, name, op);
    }
    json_decref(config);
    free(text);
}

/* The output names each operation and each leaf of a module. */
static void explain_names_all_nodes_of_modules(void **state)
{
    (void)state;
    struct dirent **entries;
    int count = scandir(MODULES, &entries, NULL, alphasort), modules = 0;
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') {
            expect_all_nodes(entries[i]->d_name);
            modules++;
        }
        free(entries[i]);
    }
    assert_true(modules >= 16);
    free(entries);
}

/* Sizes are formulas. Their variables are the names of sizes in the graph. The expected formulas were derived by
 * hand. */
static void explain_shows_sizes_of_modules_as_formulas(void **state)
{
    (void)state;
    static const struct {
        const char *module, *line;
    } lines[] = {
        {"token_classifier", "node embedding: embedding (batch, n, 16)"},
        {"token_classifier", "node linformer: linformer.Linformer (batch, n, 16)"},
        {"token_classifier", "node linear: linear (batch, 3)"},
        /* the module has 1 + (n - 200) // 100 windows of 200 samples, one window every 100 samples */
        {"biot", "node stft: stft (batch, 101, n//100 - 1, 2)"},
        {"biot",
         "node transformer: linear_attention_transformer.LinearAttentionTransformer (batch, 3*(n//100) - 3, 16)"},
        {"biot", "input x: v0, floats (batch, 3, n)"},
        {"forecast", "node body: linformer_pytorch.Linformer (batch*n, 7, 12)"},
        {"unet_block", "node attention: linear_attention_transformer.ImageLinearAttention (batch, 16, 4, 6)"},
        {"two_towers", "node add_1: add (batch, document_1, 16)"},
        {"two_towers", "output output.1: (batch, 8)"},
        {"volume_patches", "node permute: permute (batch, 2, 2, 2, 2, 4, 4, 2)"},
    };
    char path[256], line[256], *text = malloc(1 << 20);
    assert_non_null(text);
    for (size_t i = 0; i < LENGTH(lines); i++) {
        snprintf(path, sizeof path, MODULES "%s", lines[i].module);
        assert_int_equal(explain(path, "2>/dev/null", text, 1 << 20), 0);
        snprintf(line, sizeof line, "\n%s\n", lines[i].line);
        if (!strstr(text, line))
            fail_msg("%s: no line \"%s\"", lines[i].module, lines[i].line);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_written_without_log_lines),
        cmocka_unit_test(explain_names_the_step_that_makes_tokens_costly),
        cmocka_unit_test(a_refused_model_is_reported_in_one_line),
        cmocka_unit_test(explain_names_all_nodes_of_modules),
        cmocka_unit_test(explain_shows_sizes_of_modules_as_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
