#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_ARGUMENTS 16

/* The arguments, the environment and the results of one call of settings_read. Unused elements of the lists are
 * NULL. */
struct reading {
    char *argv[MAX_ARGUMENTS]; /* without argv[0] */
    char *environment[MAX_ARGUMENTS];
    struct settings settings;
    enum settings_action action;
    const char *explain;
    struct error error;
};

static int read_settings(struct reading *reading)
{
    char *argv[MAX_ARGUMENTS + 2] = {"linformerd"};
    int argc = 1;
    for (int i = 0; i < MAX_ARGUMENTS && reading->argv[i]; i++)
        argv[argc++] = reading->argv[i];
    return settings_read(argc, argv, reading->environment, &reading->settings, &reading->action, &reading->explain,
                         &reading->error);
}

static void accept(struct reading *reading)
{
    if (read_settings(reading) != 0)
        fail_msg("%s", reading->error.message);
}

static void refuse(struct reading reading, const char *message)
{
    assert_int_equal(read_settings(&reading), -1);
    assert_string_equal(reading.error.message, message);
    assert_null(reading.settings.host);
}
#define ARGUMENTS(...) ((struct reading){.argv = {__VA_ARGS__}})
#define VARIABLES(...) ((struct reading){.environment = {__VA_ARGS__}})

/* Writes a file of settings. `path` ends in XXXXXX, which mkstemp replaces. */
static void write_file(char *path, const char *text)
{
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
}

static void refuse_file(const char *text, const char *message)
{
    char path[] = "/tmp/linformerd-settings-XXXXXX", expected[600];
    write_file(path, text);
    snprintf(expected, sizeof expected, "%s: %s", path, message);
    refuse(ARGUMENTS("--config", path), expected);
    unlink(path);
}

static void absent_settings_have_defaults(void **state)
{
    (void)state;
    struct reading reading = {0};
    accept(&reading);
    const struct settings *settings = &reading.settings;
    assert_int_equal(reading.action, SETTINGS_SERVE);
    assert_null(reading.explain);
    assert_int_equal(settings->n_models, 0);
    assert_string_equal(settings->host, "127.0.0.1");
    assert_int_equal(settings->port, 8080);
    assert_int_equal(settings->device.kind, DEVICE_AUTO);
    assert_int_equal(settings->dtype, DTYPE_AUTO);
    assert_int_equal(settings->kernels, SET_AUTO);
    assert_int_equal(settings->products, LIBRARY_AUTO);
    assert_int_equal(settings->threads, 0);
    assert_int_equal(settings->cuda_f32, CUDA_F32_TENSOR);
    assert_int_equal(settings->cuda_tuning_ms, 3000);
    assert_int_equal(settings->http_threads, 2);
    assert_int_equal(settings->max_batch_tokens, 0);
    assert_int_equal(settings->max_batch_requests, 128);
    assert_int_equal(settings->max_batch_ms, 50);
    assert_int_equal(settings->max_client_batch_size, 2048);
    assert_int_equal(settings->max_queue_tokens, 1048576);
    assert_int_equal(settings->max_queue_requests, 16384);
    assert_int_equal(settings->max_queue_ms, 0);
    assert_int_equal(settings->request_timeout_ms, 60000);
    assert_int_equal(settings->connection_timeout_s, 60);
    assert_int_equal(settings->drain_delay_ms, 0);
    assert_int_equal(settings->max_connections, 16384);
    assert_int_equal(settings->payload_limit, 0);
    assert_null(settings->api_key);
    assert_int_equal(settings->log_format, LOG_FORMAT_TEXT);
    assert_int_equal(settings->log_level, LOG_LEVEL_INFO);
    settings_free(&reading.settings);
    settings_free(&reading.settings);
}

static void flags_take_values_in_both_ways(void **state)
{
    (void)state;
    struct reading reading = ARGUMENTS("--port", "0", "--host=::1", "--log-level", "debug", "--log-format=json",
                                       "--device", "cuda:0,cuda:12", "--api-key=a=b", "--port=65535");
    accept(&reading);
    assert_int_equal(reading.settings.port, 65535); /* of two equal flags, the last one is effective */
    assert_string_equal(reading.settings.host, "::1");
    assert_int_equal(reading.settings.log_level, LOG_LEVEL_DEBUG);
    assert_int_equal(reading.settings.log_format, LOG_FORMAT_JSON);
    assert_int_equal(reading.settings.device.kind, DEVICE_CUDA);
    assert_int_equal(reading.settings.device.count, 2);
    assert_int_equal(reading.settings.device.indices[0], 0);
    assert_int_equal(reading.settings.device.indices[1], 12);
    assert_string_equal(reading.settings.api_key, "a=b");
    settings_free(&reading.settings);
}

static void flag_beats_variable_beats_file_beats_default(void **state)
{
    (void)state;
    char path[] = "/tmp/linformerd-settings-XXXXXX", variable[64];
    write_file(path, "{\"port\": 1, \"threads\": 1, \"http_threads\": 1, \"model\": [\"a\", \"n=b\"], "
                     "\"api_key\": \"k\", \"log_level\": \"error\"}");
    snprintf(variable, sizeof variable, "LINFORMERD_CONFIG=%s", path);
    struct reading reading = {.argv = {"--port=3"},
                              .environment = {"HOME=/", "LINFORMERD_PORT=2", "LINFORMERD_THREADS=2", variable}};
    accept(&reading);
    assert_int_equal(reading.settings.port, 3);
    assert_int_equal(reading.settings.threads, 2);
    assert_int_equal(reading.settings.http_threads, 1);
    assert_int_equal(reading.settings.max_batch_tokens, 0);
    assert_string_equal(reading.settings.api_key, "k");
    assert_int_equal(reading.settings.log_level, LOG_LEVEL_ERROR);
    assert_int_equal(reading.settings.n_models, 2);
    assert_string_equal(reading.settings.models[1].name, "n");
    settings_free(&reading.settings);

    /* If the flag --config is given, the file that the variable names is not read. */
    reading = (struct reading){.argv = {"--config", path}, .environment = {"LINFORMERD_CONFIG=/nonexistent"}};
    accept(&reading);
    assert_int_equal(reading.settings.port, 1);
    settings_free(&reading.settings);
    unlink(path);
}

static void a_switch_is_true_by_its_name_alone(void **state)
{
    (void)state;
    char path[] = "/tmp/linformerd-settings-XXXXXX";
    struct reading reading = ARGUMENTS("--port=1");
    accept(&reading);
    assert_false(reading.settings.strict || reading.settings.auto_truncate);
    settings_free(&reading.settings);
    reading = ARGUMENTS("--strict", "--port=1");
    accept(&reading);
    assert_true(reading.settings.strict && !reading.settings.auto_truncate);
    settings_free(&reading.settings);

    write_file(path, "{\"strict\": true, \"auto_truncate\": true}");
    reading = (struct reading){.argv = {"--config", path, "--auto-truncate=false"},
                               .environment = {"LINFORMERD_STRICT=false"}};
    accept(&reading);
    assert_false(reading.settings.strict || reading.settings.auto_truncate);
    settings_free(&reading.settings);
    unlink(path);
    refuse(ARGUMENTS("--strict=yes"), "--strict: expected one of false, true, found 'yes'");
    refuse(ARGUMENTS("--strict="), "--strict: the value is empty");
    refuse(VARIABLES("LINFORMERD_STRICT=1"), "LINFORMERD_STRICT: expected one of false, true, found '1'");
}

static void a_file_may_name_one_model(void **state)
{
    (void)state;
    char path[] = "/tmp/linformerd-settings-XXXXXX";
    write_file(path, "{\"model\": \"name=a,b\"}");
    struct reading reading = ARGUMENTS("--config", path);
    accept(&reading);
    assert_int_equal(reading.settings.n_models, 1);
    assert_string_equal(reading.settings.models[0].name, "name");
    assert_string_equal(reading.settings.models[0].path, "a,b");
    settings_free(&reading.settings);
    unlink(path);
}

static void models_of_a_stronger_source_replace_the_others(void **state)
{
    (void)state;
    struct reading reading = {.argv = {"--model", "a", "--model=b"}, .environment = {"LINFORMERD_MODEL=c,d,e"}};
    accept(&reading);
    assert_int_equal(reading.settings.n_models, 2);
    assert_string_equal(reading.settings.models[0].path, "a");
    assert_string_equal(reading.settings.models[1].path, "b");
    settings_free(&reading.settings);
    reading = VARIABLES("LINFORMERD_MODEL=c,name=d");
    accept(&reading);
    assert_int_equal(reading.settings.n_models, 2);
    assert_null(reading.settings.models[0].name);
    assert_string_equal(reading.settings.models[1].name, "name");
    assert_string_equal(reading.settings.models[1].path, "d");
    settings_free(&reading.settings);
}

static void a_model_s_name_has_no_slash(void **state)
{
    (void)state;
    static const struct {
        char *text;
        const char *name, *path;
    } cases[] = {
        {"dir", NULL, "dir"},         {"name=dir", "name", "dir"},          {"name=/a=b", "name", "/a=b"},
        {"./a=b/c", NULL, "./a=b/c"}, {"/models/a=b", NULL, "/models/a=b"}, {"a b=c,d", "a b", "c,d"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reading reading = ARGUMENTS("--model", cases[i].text);
        accept(&reading);
        assert_string_equal(reading.settings.models[0].path, cases[i].path);
        if (cases[i].name)
            assert_string_equal(reading.settings.models[0].name, cases[i].name);
        else
            assert_null(reading.settings.models[0].name);
        settings_free(&reading.settings);
    }
    refuse(ARGUMENTS("--model", "=a"), "--model: the name before = is empty in '=a'; if this is a folder, write ./=a");
    refuse(ARGUMENTS("--model", "a="), "--model: expected a folder or NAME=FOLDER, found 'a='");
    refuse(ARGUMENTS("--model="), "--model: expected a folder or NAME=FOLDER, found ''");
    refuse(ARGUMENTS("--model", "a=x", "--model=b=y", "--model=a=z"), "two models have the name 'a'");
    refuse(VARIABLES("LINFORMERD_MODEL=a,,b"), "LINFORMERD_MODEL: expected a folder or NAME=FOLDER, found ''");
    refuse(VARIABLES("LINFORMERD_MODEL="), "LINFORMERD_MODEL: expected a folder or NAME=FOLDER, found ''");
}

static void check_has_no_value_and_no_variable(void **state)
{
    (void)state;
    struct reading reading = ARGUMENTS("--check", "--threads=2");
    accept(&reading);
    assert_int_equal(reading.action, SETTINGS_CHECK);
    assert_int_equal(reading.settings.threads, 2);
    settings_free(&reading.settings);
    refuse(ARGUMENTS("--check=1"), "--check does not accept a value");
    refuse(VARIABLES("LINFORMERD_CHECK=1"), "unknown environment variable LINFORMERD_CHECK; linformerd --help lists "
                                            "all settings");
}

static void auto_is_the_same_as_no_value(void **state)
{
    (void)state;
    struct reading reading = ARGUMENTS("--max-batch-tokens=5", "--max-batch-tokens", "auto");
    reading.environment[0] = "LINFORMERD_PAYLOAD_LIMIT=auto";
    accept(&reading);
    assert_int_equal(reading.settings.max_batch_tokens, 0);
    assert_int_equal(reading.settings.payload_limit, 0);
    settings_free(&reading.settings);
    char path[] = "/tmp/linformerd-settings-XXXXXX";
    write_file(path, "{\"payload_limit\": \"auto\", \"max_batch_tokens\": 7}");
    reading = ARGUMENTS("--config", path);
    accept(&reading);
    unlink(path);
    assert_int_equal(reading.settings.max_batch_tokens, 7);
    assert_int_equal(reading.settings.payload_limit, 0);
    settings_free(&reading.settings);
    refuse(ARGUMENTS("--port=auto"), "--port: expected a number from 0 to 65535, found 'auto'");
    refuse_file("{\"payload_limit\": \"much\"}", "payload_limit: expected an integer or \"auto\", found '\"much\"'");
}

static void help_and_version_override_faults(void **state)
{
    (void)state;
    struct reading reading = ARGUMENTS("--nonsense", "--port", "x", "--help", "--version");
    reading.environment[0] = "LINFORMERD_NONSENSE=1";
    accept(&reading);
    assert_int_equal(reading.action, SETTINGS_HELP);
    settings_free(&reading.settings);
    reading = ARGUMENTS("-h");
    accept(&reading);
    assert_int_equal(reading.action, SETTINGS_HELP);
    reading = ARGUMENTS("stray", "--version");
    accept(&reading);
    assert_int_equal(reading.action, SETTINGS_VERSION);
    refuse(ARGUMENTS("--help=all"), "--help does not accept a value");
}

static void explain_accepts_a_folder(void **state)
{
    (void)state;
    struct reading reading = ARGUMENTS("--threads=1", "--explain", "dir");
    accept(&reading);
    assert_int_equal(reading.action, SETTINGS_EXPLAIN);
    assert_string_equal(reading.explain, "dir");
    assert_int_equal(reading.settings.threads, 1);
    settings_free(&reading.settings);
    reading = ARGUMENTS("--explain");
    accept(&reading);
    assert_int_equal(reading.action, SETTINGS_EXPLAIN);
    assert_null(reading.explain);
    settings_free(&reading.settings);
    reading = ARGUMENTS("--explain", "--threads=2");
    accept(&reading);
    assert_int_equal(reading.action, SETTINGS_EXPLAIN);
    assert_null(reading.explain);
    assert_int_equal(reading.settings.threads, 2);
    settings_free(&reading.settings);
    refuse(ARGUMENTS("--explain="), "--explain: the value is empty");
    refuse(VARIABLES("LINFORMERD_EXPLAIN=dir"),
           "unknown environment variable LINFORMERD_EXPLAIN; linformerd --help lists all settings");
}

static void refuses_values_and_names_their_source(void **state)
{
    (void)state;
    refuse(ARGUMENTS("--port", "65536"), "--port: expected a number from 0 to 65535, found '65536'");
    refuse(ARGUMENTS("--port", "-1"), "--port: expected a number from 0 to 65535, found '-1'");
    refuse(ARGUMENTS("--port", "0x50"), "--port: expected a number from 0 to 65535, found '0x50'");
    refuse(ARGUMENTS("--port", " 80"), "--port: expected a number from 0 to 65535, found ' 80'");
    refuse(ARGUMENTS("--port", "+80"), "--port: expected a number from 0 to 65535, found '+80'");
    refuse(ARGUMENTS("--port", "80 "), "--port: expected a number from 0 to 65535, found '80 '");
    refuse(ARGUMENTS("--port", "-"), "--port: expected a number from 0 to 65535, found '-'");
    refuse(ARGUMENTS("--port", "99999999999999999999"),
           "--port: expected a number from 0 to 65535, found '99999999999999999999'");
    refuse(ARGUMENTS("--max-batch-tokens", "0"),
           "--max-batch-tokens: expected auto or tokens from 1 to 2147483647, found '0'");
    refuse(VARIABLES("LINFORMERD_REQUEST_TIMEOUT_MS=1s"),
           "LINFORMERD_REQUEST_TIMEOUT_MS: expected milliseconds from 0 to 86400000, found '1s'");
    refuse(ARGUMENTS("--log-level=loud"), "--log-level: expected one of error, warning, info, debug, found 'loud'");
    refuse(ARGUMENTS("--dtype=f64"), "--dtype: expected one of auto, f32, tf32, bf16, f16, found 'f64'");
    refuse(ARGUMENTS("--kernels=sse"), "--kernels: expected one of auto, avx512, avx2, baseline, found 'sse'");
    refuse(ARGUMENTS("--products=mkl"), "--products: expected one of auto, onednn, openblas, found 'mkl'");
    refuse(ARGUMENTS("--host="), "--host: the value is empty");
    refuse(VARIABLES("LINFORMERD_PORT="), "LINFORMERD_PORT: the value is empty");
    refuse(VARIABLES("LINFORMERD_CONFIG="), "LINFORMERD_CONFIG: the value is empty");
    refuse(ARGUMENTS("--config="), "--config: the value is empty");
    refuse(ARGUMENTS("--config=/nonexistent"), "/nonexistent: cannot be opened: No such file or directory");
}

static void names_choose_values_of_enums(void **state)
{
    (void)state;
    struct reading reading = ARGUMENTS("--dtype=bf16", "--kernels=avx2", "--products=openblas", "--cuda-f32=plain");
    accept(&reading);
    assert_int_equal(reading.settings.dtype, DTYPE_BF16);
    assert_int_equal(reading.settings.kernels, SET_AVX2);
    assert_int_equal(reading.settings.products, LIBRARY_OPENBLAS);
    assert_int_equal(reading.settings.cuda_f32, CUDA_F32_PLAIN);
    settings_free(&reading.settings);
    static const char *const dtypes[] = {"auto", "f32", "tf32", "bf16", "f16"};
    static const char *const sets[] = {"auto", "avx512", "avx2", "baseline"};
    for (int i = 0; i < DTYPE_COUNT; i++)
        assert_string_equal(dtype_name((enum dtype)i), dtypes[i]);
    for (int i = 0; i < SET_COUNT; i++)
        assert_string_equal(instruction_set_name((enum instruction_set)i), sets[i]);
}

static void names_and_lists_of_devices_are_accepted(void **state)
{
    (void)state;
    static const struct {
        char *name;
        struct device_choice choice;
    } good[] = {
        {"auto", {.kind = DEVICE_AUTO}},
        {"cpu", {.kind = DEVICE_CPU}},
        {"cuda", {.kind = DEVICE_CUDA}},
        {"cuda:all", {.kind = DEVICE_CUDA, .all = true}},
        {"cuda:0", {.kind = DEVICE_CUDA, .count = 1, .indices = {0}}},
        {"cuda:999", {.kind = DEVICE_CUDA, .count = 1, .indices = {999}}},
        {"cuda:1,cuda:0", {.kind = DEVICE_CUDA, .count = 2, .indices = {1, 0}}},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char name[DEVICE_CHOICE_NAME_BYTES];
        struct reading reading = ARGUMENTS("--device", good[i].name);
        accept(&reading);
        const struct device_choice *choice = &reading.settings.device, *expected = &good[i].choice;
        assert_int_equal(choice->kind, expected->kind);
        assert_int_equal(choice->all, expected->all);
        assert_int_equal(choice->count, expected->count);
        assert_memory_equal(choice->indices, expected->indices, sizeof choice->indices);
        assert_string_equal(device_choice_name(choice, name), good[i].name);
        settings_free(&reading.settings);
    }
}

static void wrong_names_and_lists_of_devices_are_refused(void **state)
{
    (void)state;
    static char *const bad[] = {"gpu",          "cuda:",   "cuda:0,",  ",cuda:0", "cuda:x",          "cuda:0cuda:1",
                                "cpu,cuda:0",   "CPU",     "cudax",    "cuda:-1", "cuda:all,cuda:0", "auto,cuda",
                                "cuda:0,,cuda", "cuda:0 ", "cuda:1000"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char message[200];
        snprintf(message, sizeof message,
                 "--device: expected auto, cpu, cuda, a list as in cuda:0,cuda:1, or cuda:all, found '%s'", bad[i]);
        refuse(ARGUMENTS("--device", bad[i]), message);
    }
    refuse(ARGUMENTS("--device=cuda:1,cuda:0,cuda:1"), "--device: cuda:1 is named twice in 'cuda:1,cuda:0,cuda:1'");
    refuse(VARIABLES("LINFORMERD_DEVICE=cuda,cuda:00"), "LINFORMERD_DEVICE: cuda:0 is named twice in 'cuda,cuda:00'");
    refuse_file("{\"device\": \"cuda:x\"}",
                "device: expected auto, cpu, cuda, a list as in cuda:0,cuda:1, or cuda:all, found 'cuda:x'");
}

static void metrics_are_protected_by_a_key(void **state)
{
    (void)state;
    const char *message = "--protect-metrics requires an API key, but neither --api-key nor --api-key-file is set";
    refuse(ARGUMENTS("--protect-metrics"), message);
    refuse(VARIABLES("LINFORMERD_PROTECT_METRICS=true"), message);
    struct reading reading = ARGUMENTS("--protect-metrics", "--api-key", "key");
    accept(&reading);
    assert_true(reading.settings.protect_metrics);
    settings_free(&reading.settings);
    reading = ARGUMENTS("--protect-metrics", "--api-key-file", "keys");
    accept(&reading);
    settings_free(&reading.settings);
}

static void certificate_and_key_belong_together(void **state)
{
    (void)state;
    refuse(ARGUMENTS("--tls-certificate", "c.pem"),
           "--tls-certificate and --tls-key must be set together, but --tls-key is not set");
    refuse(ARGUMENTS("--tls-key", "k.pem"),
           "--tls-certificate and --tls-key must be set together, but --tls-certificate is not set");
    refuse(ARGUMENTS("--unix-socket-mode", "666x"),
           "--unix-socket-mode: expected three or four octal digits, at most 0777, found '666x'");
    refuse(ARGUMENTS("--unix-socket-mode", "4777"),
           "--unix-socket-mode: expected three or four octal digits, at most 0777, found '4777'");
}

static void name_flag(void *context, const char *flag)
{
    text_list_add(context, 200, flag);
}

/* Settings that are read again change the live settings of the running daemon. Other changed settings are only
 * named. */
static void live_settings_are_applied(void **state)
{
    (void)state;
    char named[200] = "";
    struct reading before = ARGUMENTS("--port", "1", "--threads", "2", "--model", "a", "--strict");
    struct reading after = ARGUMENTS("--port", "1", "--threads", "3", "--model", "b", "--host", "::1", "--device",
                                     "cpu", "--max-queue-tokens", "7", "--auto-truncate", "--dtype", "bf16");
    accept(&before);
    accept(&after);
    struct settings running = before.settings;
    settings_apply(&before.settings, &after.settings, &running, name_flag, named);
    assert_string_equal(named, "model, host, device, dtype, threads");
    assert_int_equal(running.max_queue_tokens, 7);
    assert_true(running.auto_truncate);
    assert_false(running.strict);
    assert_int_equal(running.threads, 2);
    named[0] = '\0';
    settings_apply(&before.settings, &before.settings, &running, name_flag, named);
    assert_string_equal(named, "");
    assert_true(running.strict);
    settings_free(&before.settings);
    settings_free(&after.settings);
}

/* Reads the longest list of devices, whose name must fit, and then one device more, which must be refused. */
static void a_list_of_devices_has_a_maximum_length(void **state)
{
    (void)state;
    char list[8 + DEVICE_CHOICE_NAME_BYTES + sizeof ",cuda:0"] = "", name[DEVICE_CHOICE_NAME_BYTES], message[200];
    for (int i = 0; i < DEVICE_CHOICE_LIMIT; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%scuda:%d", i > 0 ? "," : "", 999 - i);
    struct reading reading = ARGUMENTS("--device", list);
    accept(&reading);
    assert_int_equal(reading.settings.device.count, DEVICE_CHOICE_LIMIT);
    assert_string_equal(device_choice_name(&reading.settings.device, name), list);
    settings_free(&reading.settings);
    strcat(list, ",cuda:0");
    snprintf(message, sizeof message, "--device: expected at most %d devices, found more in '%.100s'",
             DEVICE_CHOICE_LIMIT, list);
    refuse(ARGUMENTS("--device", list), message);
}

static void refuses_unknown_names_and_suggests_near_ones(void **state)
{
    (void)state;
    refuse(ARGUMENTS("--prot", "1"), "unknown flag --prot; did you mean --port?");
    refuse(ARGUMENTS("-port", "1"), "unknown flag -port; did you mean --port?");
    refuse(ARGUMENTS("--max_batch_tokens=1"), "unknown flag --max_batch_tokens; did you mean --max-batch-tokens?");
    refuse(ARGUMENTS("--Host=x"), "unknown flag --Host; did you mean --host?");
    refuse(ARGUMENTS("--verison"), "unknown flag --verison; did you mean --version?");
    refuse(ARGUMENTS("--colour"), "unknown flag --colour; linformerd --help lists all settings");
    refuse(ARGUMENTS("-x"), "unknown flag -x; linformerd --help lists all settings");
    refuse(ARGUMENTS("--"), "unexpected argument '--'; use --model for the folder of a model");
    refuse(ARGUMENTS("-"), "unexpected argument '-'; use --model for the folder of a model");
    refuse(ARGUMENTS(""), "unexpected argument ''; use --model for the folder of a model");
    refuse(ARGUMENTS("models/a"), "unexpected argument 'models/a'; use --model for the folder of a model");
    refuse(ARGUMENTS("--port"), "--port needs a value, as in --port=N");
    refuse(ARGUMENTS("--host", "--port", "1"), "--host needs a value, as in --host=ADDRESS");
    refuse(VARIABLES("LINFORMERD_PROT=1"),
           "unknown environment variable LINFORMERD_PROT; did you mean LINFORMERD_PORT?");
    refuse(VARIABLES("LINFORMERD_port=1"),
           "unknown environment variable LINFORMERD_port; did you mean LINFORMERD_PORT?");
    refuse(VARIABLES("LINFORMERD_=1"),
           "unknown environment variable LINFORMERD_; linformerd --help lists all settings");
    char long_flag[600] = "--";
    memset(long_flag + 2, 'a', sizeof long_flag - 3);
    struct reading reading = ARGUMENTS(long_flag);
    assert_int_equal(read_settings(&reading), -1);
    assert_non_null(strstr(reading.error.message, "aaa; linformerd --help"));
}

static void variables_of_kubernetes_are_ignored(void **state)
{
    (void)state;
    struct reading reading =
        VARIABLES("LINFORMERD_SERVICE_HOST=10.0.0.1", "LINFORMERD_SERVICE_PORT=80", "LINFORMERD_SERVICE_PORT_HTTP=80",
                  "LINFORMERD_PORT=tcp://10.0.0.1:80", "LINFORMERD_PORT_80_TCP=tcp://10.0.0.1:80",
                  "LINFORMERD_PORT_80_TCP_ADDR=10.0.0.1", "LINFORMERD_API_PORT=udp://10.0.0.1:80",
                  "LINFORMERD_API_SERVICE_HOST=10.0.0.1", "LINFORMERD", "LINFORMERDX=1", "PORT=1");
    accept(&reading);
    assert_int_equal(reading.settings.port, 8080);
    settings_free(&reading.settings);
    refuse(VARIABLES("LINFORMERD_PORT=http://x"),
           "LINFORMERD_PORT: expected a number from 0 to 65535, found 'http://x'");
    refuse(VARIABLES("LINFORMERD_X=/a_SERVICE_HOST=b"),
           "unknown environment variable LINFORMERD_X; linformerd --help lists all settings");
}

static void refuses_a_bad_file(void **state)
{
    (void)state;
    refuse_file("", "is empty, expected a JSON object");
    refuse_file("[]", "expected a JSON object, found a list");
    refuse_file("{\"port\": \"80\"}", "port: expected an integer, found '\"80\"'");
    refuse_file("{\"port\": 80.5}", "port: expected an integer, found 'the fraction 80.5'");
    refuse_file("{\"port\": 65536}", "port: expected a number from 0 to 65535, found '65536'");
    refuse_file("{\"host\": 1}", "host: expected a string, found '1'");
    refuse_file("{\"host\": \"\"}", "host: the value is empty");
    refuse_file("{\"host\": null}", "host: expected a string, found 'null'");
    refuse_file("{\"log_level\": \"loud\"}", "log_level: expected one of error, warning, info, debug, found 'loud'");
    refuse_file("{\"max-batch-tokens\": 1}", "unknown key max-batch-tokens; did you mean max_batch_tokens?");
    refuse_file("{\"strict\": \"true\"}", "strict: expected true or false, found '\"true\"'");
    refuse_file("{\"strict\": 1}", "strict: expected true or false, found '1'");
    refuse_file("{\"config\": \"x\"}", "unknown key config; linformerd --help lists all settings");
    refuse_file("{\"help\": true}", "unknown key help; linformerd --help lists all settings");
    refuse_file("{\"\": true}", "unknown key ; linformerd --help lists all settings");
    refuse_file("{\"model\": 1}", "model: expected a string or a list of strings");
    refuse_file("{\"model\": [\"a\", 1]}", "model: expected a string or a list of strings");
    refuse_file("{\"model\": [\"\"]}", "model: expected a folder or NAME=FOLDER, found ''");
    refuse_file("{\"port\": 1,\n \"port\": 2}", "line 2, column 7: duplicate object key");
}

static void never_shows_the_api_key(void **state)
{
    (void)state;
    static const struct reading readings[] = {
        {.argv = {"--api-key=sec ret"}},
        {.argv = {"--api-key", "sec\nret"}},
        {.argv = {"--api-key", "first", "secret"}},
        {.argv = {"--api-keysecret"}},
        {.argv = {"-api-keysecret=x"}},
        {.argv = {"--api_key=secret"}},
        {.argv = {"--apikey", "secret"}},
        {.argv = {"--api-key", "secret", "--port", "x"}},
        {.environment = {"LINFORMERD_API_KEY=sec ret"}},
        {.environment = {"LINFORMERD_APIKEY=secret"}},
    };
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) {
        struct reading reading = readings[i];
        assert_int_equal(read_settings(&reading), -1);
        assert_null(strstr(reading.error.message, "ret"));
    }
    static const char *const files[] = {
        "{\"api_key\": secret}",       "{\"api_key\": \"sec\"ret\"}", "{\"api_key\": \"secret}",
        "{\"api_key\": \"se\ncret\"}", "{\"api_key\": \"\\secret\"}", "{\"api_key\": [\"secret\"]}",
        "{\"api_key\": \"sec ret\"}",  "{\"api_key\": \"x\"} secret",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[] = "/tmp/linformerd-settings-XXXXXX";
        write_file(path, files[i]);
        struct reading reading = ARGUMENTS("--config", path);
        assert_int_equal(read_settings(&reading), -1);
        unlink(path);
        const char *rest = reading.error.message + strlen(path);
        if (strstr(rest, "ret"))
            fail_msg("%s", rest);
    }
    refuse(ARGUMENTS("--api-key="), "--api-key: the value is empty");
}

static void help_names_every_setting_within_100_columns(void **state)
{
    (void)state;
    static const char *const names[] = {
        "--model [NAME=]DIR",
        "--host ADDRESS",
        "--port N",
        "--device DEVICE",
        "--dtype DTYPE",
        "--kernels NAME",
        "--threads N",
        "--cuda-f32 NAME",
        "--cuda-tuning-ms N",
        "--http-threads N",
        "--max-batch-tokens N",
        "--max-batch-requests N",
        "--max-client-batch-size N",
        "--max-queue-tokens N",
        "--max-queue-requests N",
        "--max-generations N",
        "--generation-percent N",
        "--request-timeout-ms N",
        "--connection-timeout-s N",
        "--max-connections N",
        "--payload-limit N",
        "--api-key KEY",
        "--protect-metrics",
        "--log-format FORMAT",
        "--log-level LEVEL",
        "--strict",
        "--auto-truncate",
        "--config FILE",
        "--explain [DIR]",
        "--check",
        "--max-batch-ms N",
        "--help",
        "--version",
        "LINFORMERD_MAX_BATCH_TOKENS",
        "LINFORMERD_MODEL",
        "LINFORMERD_CONFIG",
        "LINFORMERD_API_KEY",
        "Default: auto. Variable: LINFORMERD_MAX_BATCH_TOKENS",
        "Default: 1048576 tokens",
        "Default: 127.0.0.1",
        "Default: 8080",
        "Example:",
        "Values: auto, avx512, avx2 or baseline.",
        LINFORMERD_VERSION,
    };
    char *help = settings_help();
    assert_non_null(help);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strstr(help, names[i]))
            fail_msg("--help says nothing of %s", names[i]);
    for (const char *line = help; *line; line += strcspn(line, "\n") + 1) {
        size_t length = strcspn(line, "\n");
        assert_true(length <= 100);
        assert_true(length == 0 || line[length - 1] != ' ');
    }
    free(help);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_settings_have_defaults),
        cmocka_unit_test(flags_take_values_in_both_ways),
        cmocka_unit_test(flag_beats_variable_beats_file_beats_default),
        cmocka_unit_test(a_switch_is_true_by_its_name_alone),
        cmocka_unit_test(a_file_may_name_one_model),
        cmocka_unit_test(models_of_a_stronger_source_replace_the_others),
        cmocka_unit_test(a_model_s_name_has_no_slash),
        cmocka_unit_test(help_and_version_override_faults),
        cmocka_unit_test(explain_accepts_a_folder),
        cmocka_unit_test(check_has_no_value_and_no_variable),
        cmocka_unit_test(auto_is_the_same_as_no_value),
        cmocka_unit_test(refuses_values_and_names_their_source),
        cmocka_unit_test(names_choose_values_of_enums),
        cmocka_unit_test(names_and_lists_of_devices_are_accepted),
        cmocka_unit_test(wrong_names_and_lists_of_devices_are_refused),
        cmocka_unit_test(metrics_are_protected_by_a_key),
        cmocka_unit_test(certificate_and_key_belong_together),
        cmocka_unit_test(live_settings_are_applied),
        cmocka_unit_test(a_list_of_devices_has_a_maximum_length),
        cmocka_unit_test(refuses_unknown_names_and_suggests_near_ones),
        cmocka_unit_test(variables_of_kubernetes_are_ignored),
        cmocka_unit_test(refuses_a_bad_file),
        cmocka_unit_test(never_shows_the_api_key),
        cmocka_unit_test(help_names_every_setting_within_100_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
