/* --explain, as scripts read it: the plan on standard output. Standard error is empty, or has one line with a refusal.
 */
#include "tests/http/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs it in a shell with the redirections given, reads what it prints, terminated, and gives its exit status. */
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

static void a_plan_comes_without_log_lines(void **state)
{
    (void)state;
    char text[1 << 16];
    assert_int_equal(explain("tests/reference/linformer_lm", "2>/dev/null", text, sizeof text), 0);
    assert_non_null(strstr(text, "add_positions"));
    assert_int_equal(explain("tests/reference/linformer_lm", "2>&1 >/dev/null", text, sizeof text), 0);
    assert_string_equal(text, "");
}

static void a_refusal_is_one_line(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_comes_without_log_lines),
        cmocka_unit_test(a_refusal_is_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
