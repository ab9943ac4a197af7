#include "config/settings_table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define COUNT_LIMIT INT32_MAX
#define NEAR_EDITS 2

static const char *const log_formats[] = {"text", "json", NULL};                     /* index: enum log_format */
static const char *const log_levels[] = {"error", "warning", "info", "debug", NULL}; /* index: enum log_level */
static const char *const switches[] = {"false", "true", NULL};                       /* index: bool */

/* Whether the value can follow "Authorization: Bearer" in a header without being changed by proxies. */
static bool is_key(const char *value)
{
    for (const char *at = value; *at; at++)
        if (!isgraph((unsigned char)*at))
            return false;
    return true;
}

/* Whether the entry is scheme://host or scheme://host:port, as browsers write an origin. */
static bool is_origin(const char *entry, size_t length)
{
    const char *host = strstr(entry, "://");
    if (!host || host == entry || host + 3 >= entry + length)
        return false;
    for (const char *at = entry; at < host; at++)
        if (!isalnum((unsigned char)*at) && !strchr("+-.", *at))
            return false;
    for (const char *at = host + 3; at < entry + length; at++)
        if (!isgraph((unsigned char)*at) || isupper((unsigned char)*at) || strchr("/\\@?#*", *at))
            return false;
    return true;
}

/* Whether the value is "*", or a list of origins with commas between them. */
static bool is_origins(const char *value)
{
    if (strcmp(value, "*") == 0)
        return true;
    for (;; value++) {
        size_t length = strcspn(value, ",");
        if (!is_origin(value, length))
            return false;
        value += length;
        if (!*value)
            return true;
    }
}

static bool is_mode(const char *value)
{
    size_t length = strlen(value);
    return strspn(value, "01234567") == length && (length == 3 || (length == 4 && value[0] == '0'));
}

#define AT(field) .offset = offsetof(struct settings, field)

const struct setting settings_table[] = {
    {.group = "Models",
     .flag = "model",
     .kind = SETTING_MODELS,
     .value_name = "[NAME=]DIR",
     .help = "Folder with config.json and model.safetensors, or a folder that contains such folders. "
             "The flag may be repeated. The variable is a list of folders with commas between them. "
             "Without a model, the daemon serves the built-in models. NAME must not contain a slash. So "
             "the value ./a=b has no NAME, and means the folder a=b."},
    {.group = "Models",
     .flag = "model-control",
     .kind = SETTING_BOOL,
     AT(model_control),
     .fallback = "false",
     .choices = switches,
     .help = "Requests may load and unload models, as Triton's clients do. Only models of --model and "
             "--model-repository can be loaded. Set --api-key, too, if others can reach the daemon."},
    {.group = "Models",
     .flag = "model-repository",
     .kind = SETTING_TEXT,
     AT(model_repository),
     .value_name = "DIR",
     .help = "Folder whose subfolders are models. They are not loaded at the start. With --model-control, a "
             "request can load them by the names of their folders. Without --model-control, this flag has no effect."},
    {.group = "Models",
     .flag = "explain",
     .kind = SETTING_EXPLAIN,
     .value_name = "[DIR]",
     .help = "Print the plan of the model in DIR, and exit. The plan lists the operations with their "
             "shapes, FLOPs and bytes. Without DIR, print the plan of the first --model, or of the "
             "first built-in model."},
    {.group = "Models",
     .flag = "check",
     .kind = SETTING_CHECK,
     .help = "Load the models, run a first batch of each, and exit without opening a port. The exit "
             "status is 0 if all is well, and otherwise 1 or 2 with a message."},
    {.group = "Network",
     .flag = "host",
     .kind = SETTING_TEXT,
     AT(host),
     .value_name = "ADDRESS",
     .fallback = "127.0.0.1",
     .help = "Address or name on which the daemon listens. 0.0.0.0 means all addresses of the machine. unix:PATH is "
             "a Unix socket. A list with commas between its entries is allowed, too. If the service manager passes "
             "sockets (LISTEN_FDS), the daemon uses these sockets instead."},
    {.group = "Network",
     .flag = "port",
     .kind = SETTING_INTEGER,
     AT(port),
     .value_name = "N",
     .fallback = "8080",
     .minimum = 0,
     .maximum = 65535,
     .help = "Port on which the daemon listens. With 0, the system chooses a free port."},
    {.group = "Network",
     .flag = "reuse-port",
     .kind = SETTING_BOOL,
     AT(reuse_port),
     .fallback = "false",
     .choices = switches,
     .help = "Other daemons of the same user with this flag may listen on the same port (SO_REUSEPORT), or take over "
             "the Unix socket. So a second daemon can replace the first one without a refused connection. Without "
             "this flag, a port in use is an error."},
    {.group = "Network",
     .flag = "unix-socket-mode",
     .kind = SETTING_TEXT,
     AT(unix_socket_mode),
     .value_name = "MODE",
     .fallback = "0660",
     .is_valid = is_mode,
     .expected = "three or four octal digits, at most 0777",
     .help = "Permissions of the Unix sockets of --host. A client needs the permission to write."},
    {.group = "Network",
     .flag = "tls-certificate",
     .live = true,
     .kind = SETTING_TEXT,
     AT(tls_certificate),
     .value_name = "FILE",
     .help = "PEM file with the certificate of the server and the intermediate certificates. With this flag, all TCP "
             "connections are encrypted (TLS 1.2 or 1.3). Connections on Unix sockets are never encrypted. SIGHUP "
             "reads the file again."},
    {.group = "Network",
     .flag = "tls-key",
     .live = true,
     .kind = SETTING_TEXT,
     AT(tls_key),
     .value_name = "FILE",
     .help = "PEM file with the private key for --tls-certificate, without a password. SIGHUP reads the file again."},
    {.group = "Network",
     .flag = "api-key",
     .live = true,
     .kind = SETTING_TEXT,
     AT(api_key),
     .value_name = "KEY",
     .is_valid = is_key,
     .expected = "visible ASCII characters without spaces",
     .secret = true,
     .help = "Requests must contain this key in the header \"Authorization: Bearer KEY\" or \"api-key: "
             "KEY\". Without the key, the daemon serves only GET /, /health, /health/live, /health/ready, /ping, "
             "/openapi.json, /v2/health/live, /v2/health/ready, and /metrics, which --protect-metrics closes. "
             "Prefer the variable or the file, because other users of the machine can read a command line."},
    {.group = "Network",
     .flag = "cors-allow-origin",
     .kind = SETTING_TEXT,
     AT(cors_allow_origin),
     .value_name = "ORIGINS",
     .is_valid = is_origins,
     .expected = "* or origins such as https://app.example, with commas between them",
     .help = "Pages of these origins may read the daemon's answers in a browser. * allows all origins. "
             "Several origins have commas between them. Without this flag, browsers do not let pages of other "
             "origins read the answers."},
    {.group = "Network",
     .flag = "api-key-file",
     .live = true,
     .kind = SETTING_TEXT,
     AT(api_key_file),
     .value_name = "FILE",
     .help =
         "File with API keys, one on each line: KEY or NAME:KEY. KEY may be sha256: followed by the digest of a key in "
         "hexadecimal. All keys of the file are valid, and that of --api-key, too. The log line of a request "
         "contains the name of its key. SIGHUP reads the file again."},
    {.group = "Network",
     .flag = "protect-metrics",
     .live = true,
     .kind = SETTING_BOOL,
     AT(protect_metrics),
     .fallback = "false",
     .choices = switches,
     .help = "/metrics requires an API key, too. Without --api-key and --api-key-file, the daemon then refuses "
             "to start. Without this flag, /metrics needs no key."},
    {.group = "Network",
     .flag = "http-threads",
     .kind = SETTING_INTEGER,
     AT(http_threads),
     .value_name = "N",
     .fallback = "2",
     .minimum = 1,
     .maximum = 1024,
     .unit = "threads",
     .help = "Number of event loops, which read requests and write answers. The same number of further "
             "threads parse large bodies and write large answers. With TLS, there are twice as many event loops."},
    {.group = "Network",
     .flag = "max-connections",
     .kind = SETTING_INTEGER,
     AT(max_connections),
     .value_name = "N",
     .fallback = "16384",
     .minimum = 1,
     .maximum = 1048576,
     .unit = "connections",
     .help = "Largest number of open connections."},
    {.group = "Network",
     .flag = "connection-timeout-s",
     .kind = SETTING_INTEGER,
     AT(connection_timeout_s),
     .value_name = "N",
     .fallback = "60",
     .minimum = 1,
     .maximum = 86400,
     .unit = "seconds",
     .help = "Time without a byte after which the daemon closes a connection."},
    {.group = "Network",
     .flag = "drain-delay-ms",
     .live = true,
     .kind = SETTING_INTEGER,
     AT(drain_delay_ms),
     .value_name = "N",
     .fallback = "0",
     .minimum = 0,
     .maximum = 3600000,
     .unit = "milliseconds",
     .help = "Time between SIGTERM and draining. During this time, the daemon still accepts requests, "
             "but answers 503 to /health and to the other readiness checks. So a load balancer can stop "
             "sending requests. SIGINT skips the delay."},
    {.group = "Network",
     .flag = "payload-limit",
     .kind = SETTING_INTEGER,
     AT(payload_limit),
     .value_name = "N",
     .fallback = "auto",
     .minimum = 1024,
     .maximum = INT64_C(1) << 40,
     .unit = "bytes",
     .word = "auto",
     .help = "Largest body of a request. auto: the longest input of each model fits as JSON, and the limit is at least "
             "33554432 bytes. If this JSON needs more than 1/8 of the machine's memory, only the same input in binary "
             "must fit. Even then, the limit is at most 1/8 of the memory."},
    {.group = "Computing",
     .flag = "device",
     .kind = SETTING_DEVICE,
     AT(device),
     .value_name = "DEVICE",
     .fallback = "auto",
     .expected = DEVICE_CHOICE_EXPECTED,
     .help = "Device that computes. auto: the first CUDA device, or the CPU if there is no CUDA device. A model "
             "that does not fit into the device's memory runs on the CPU. cpu: only the CPU. cuda: the first"
             " CUDA device. Without a CUDA device, the start fails. cuda:0,cuda:1 or cuda:all: each model runs on"
             " each of these devices. If a device fails, the CPU or another of these devices runs its batches."},
    {.group = "Computing",
     .flag = "dtype",
     .kind = SETTING_CHOICE,
     AT(dtype),
     .value_name = "DTYPE",
     .fallback = "auto",
     .choices = dtype_names,
     .help = "Number format in which the engine computes. auto: bf16 on CUDA, f32 on the CPU. tf32 and "
             "f16 work only on CUDA."},
    {.group = "Computing",
     .flag = "kernels",
     .kind = SETTING_CHOICE,
     AT(kernels),
     .value_name = "NAME",
     .fallback = "auto",
     .choices = instruction_set_names,
     .help = "Instruction set for the CPU. auto: the best set that the CPU supports."},
    {.group = "Computing",
     .flag = "products",
     .kind = SETTING_CHOICE,
     AT(products),
     .value_name = "NAME",
     .fallback = "auto",
     .choices = product_library_names,
     .help = "Library that computes matrix products with weights on the CPU. auto in f32: oneDNN if it "
             "is installed and the CPU has AVX-512, else OpenBLAS. auto in bf16: oneDNN if it is "
             "installed and the CPU has AMX, else the daemon's own kernels."},
    {.group = "Computing",
     .flag = "threads",
     .kind = SETTING_INTEGER,
     AT(threads),
     .value_name = "N",
     .fallback = "0",
     .minimum = 0,
     .maximum = 4096,
     .unit = "threads",
     .help = "Number of threads that compute on the CPU. 0: one thread for each core that the process "
             "may use."},
    {.group = "Computing",
     .flag = "cuda-f32",
     .kind = SETTING_CHOICE,
     AT(cuda_f32),
     .value_name = "NAME",
     .fallback = "tensor",
     .choices = cuda_f32_names,
     .help = "Units of a CUDA device that multiply matrices if the dtype is f32. tensor: tensor cores. They "
             "multiply each pair of numbers three times in TF32, which is almost as exact as float32. plain: the "
             "units for float32, which are slower."},
    {.group = "Computing",
     .flag = "cuda-tuning-ms",
     .kind = SETTING_INTEGER,
     AT(cuda_tuning_ms),
     .value_name = "N",
     .fallback = "3000",
     .minimum = 0,
     .maximum = 3600000,
     .unit = "milliseconds",
     .help = "Longest time that the daemon measures algorithms for matrix products when it loads a model "
             "onto a CUDA device. 0: the daemon measures nothing and uses the first candidate, "
             "which is the same at each start."},
    {.group = "Batches and queues",
     .flag = "max-batch-tokens",
     .kind = SETTING_INTEGER,
     AT(max_batch_tokens),
     .value_name = "N",
     .fallback = "auto",
     .minimum = 1,
     .maximum = COUNT_LIMIT,
     .unit = "tokens",
     .word = "auto",
     .help = "Largest number of tokens in a batch. Each pixel of an image counts as a token. A longer "
             "sequence is a batch of its own if the model's class has a maximum length. Otherwise it is "
             "refused. auto: 16384 tokens. With auto, an image of up to 262144 pixels is a batch of its own, "
             "too. For some models, this limit of pixels is lower, so that intermediate results need at most 1 GiB "
             "and at most a quarter of the memory. Larger images are refused."},
    {.group = "Batches and queues",
     .flag = "max-batch-requests",
     .kind = SETTING_INTEGER,
     AT(max_batch_requests),
     .value_name = "N",
     .fallback = "128",
     .minimum = 1,
     .maximum = 1048576,
     .unit = "sequences",
     .help = "Largest number of sequences in a batch."},
    {.group = "Batches and queues",
     .flag = "max-batch-ms",
     .kind = SETTING_INTEGER,
     AT(max_batch_ms),
     .value_name = "N",
     .fallback = "50",
     .minimum = 0,
     .maximum = 3600000,
     .unit = "milliseconds",
     .help = "Longest time that a batch of several sequences should take. The daemon estimates this "
             "time from earlier batches. So a short request does not wait long for large requests. 0: "
             "no limit."},
    {.group = "Batches and queues",
     .flag = "max-client-batch-size",
     .live = true,
     .kind = SETTING_INTEGER,
     AT(max_client_batch_size),
     .value_name = "N",
     .fallback = "2048",
     .minimum = 1,
     .maximum = COUNT_LIMIT,
     .unit = "sequences",
     .help = "Largest number of sequences in a request."},
    {.group = "Batches and queues",
     .flag = "max-queue-tokens",
     .live = true,
     .kind = SETTING_INTEGER,
     AT(max_queue_tokens),
     .value_name = "N",
     .fallback = "1048576",
     .minimum = 1,
     .maximum = INT64_C(1) << 40,
     .unit = "tokens",
     .help = "Largest number of tokens that wait for one model. A request that does not fit is "
             "answered with 429."},
    {.group = "Batches and queues",
     .flag = "max-queue-requests",
     .live = true,
     .kind = SETTING_INTEGER,
     AT(max_queue_requests),
     .value_name = "N",
     .fallback = "16384",
     .minimum = 1,
     .maximum = COUNT_LIMIT,
     .unit = "sequences",
     .help = "Largest number of sequences that wait for one model. A request that does not fit is "
             "answered with 429."},
    {.group = "Batches and queues",
     .flag = "max-queue-ms",
     .live = true,
     .kind = SETTING_INTEGER,
     AT(max_queue_ms),
     .value_name = "N",
     .fallback = "0",
     .minimum = 0,
     .maximum = 86400000,
     .unit = "milliseconds",
     .help =
         "Longest time that a request should wait for its first batch. The daemon estimates this time from the "
         "waiting tokens and the speed of earlier batches. A request that would wait longer is answered with 429 at "
         "once. This limit does not apply to the generation of tokens. 0: no limit."},
    {.group = "Batches and queues",
     .flag = "max-generations",
     .kind = SETTING_INTEGER,
     AT(max_generations),
     .value_name = "N",
     .fallback = "64",
     .minimum = 0,
     .maximum = 65536,
     .unit = "sequences",
     .help = "Largest number of sequences that one model generates at a time. Requests for more sequences wait in the "
             "queue. For some models, each sequence has memory for intermediate results. 0: any number, without this "
             "memory. "
             "For each new token, the model then computes the whole sequence again."},
    {.group = "Batches and queues",
     .flag = "generation-percent",
     .kind = SETTING_INTEGER,
     AT(generation_percent),
     .value_name = "N",
     .fallback = "50",
     .minimum = 1,
     .maximum = 99,
     .unit = "percent",
     .help = "Share of the computing time for the generation of tokens while other requests wait, too. The remaining "
             "share is for the other requests. If only one of the two kinds waits, it gets all of the time."},
    {.group = "Batches and queues",
     .flag = "request-timeout-ms",
     .live = true,
     .kind = SETTING_INTEGER,
     AT(request_timeout_ms),
     .value_name = "N",
     .fallback = "60000",
     .minimum = 0,
     .maximum = 86400000,
     .unit = "milliseconds",
     .help = "Longest time from the end of a request to its answer, or to the first generated token. A "
             "request that takes longer is answered with 504. 0: no limit."},
    {.group = "Requests",
     .flag = "strict",
     .live = true,
     .kind = SETTING_BOOL,
     AT(strict),
     .fallback = "false",
     .choices = switches,
     .help = "The daemon refuses a body with a key that has no meaning on its route. Without this "
             "flag, the daemon ignores such keys. The header x-ignored-keys of the answer names the "
             "ignored keys."},
    {.group = "Requests",
     .flag = "auto-truncate",
     .live = true,
     .kind = SETTING_BOOL,
     AT(auto_truncate),
     .fallback = "false",
     .choices = switches,
     .help = "The daemon cuts inputs that are too long for the model, unless the request contains "
             "\"truncate\": false."},
    {.group = "Log",
     .flag = "log-format",
     .live = true,
     .kind = SETTING_CHOICE,
     AT(log_format),
     .value_name = "FORMAT",
     .fallback = "text",
     .choices = log_formats,
     .help = "Format of the log. The log goes to standard error, with one line for each event."},
    {.group = "Log",
     .flag = "log-level",
     .live = true,
     .kind = SETTING_CHOICE,
     AT(log_level),
     .value_name = "LEVEL",
     .fallback = "info",
     .choices = log_levels,
     .help = "Least important level that is logged. debug adds a line for each request."},
    {.group = "Log",
     .flag = "access-log",
     .live = true,
     .kind = SETTING_BOOL,
     AT(access_log),
     .fallback = "false",
     .choices = switches,
     .help = "The line of each request has the level info instead of debug. So the log contains a line for "
             "each request, unless --log-level is warning or error."},
    {.group = "Log",
     .flag = "otlp-endpoint",
     .kind = SETTING_TEXT,
     AT(otlp_endpoint),
     .value_name = "URL",
     .help =
         "OpenTelemetry collector to which the daemon sends spans of requests, such as http://localhost:4318. The "
         "spans "
         "go to the path /v1/traces below the URL, as JSON. Without this setting, the variable "
         "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT may name the collector. If none is set, "
         "nothing is sent."},
    {.group = "Other",
     .flag = "config",
     .kind = SETTING_CONFIG,
     .value_name = "FILE",
     .help = "JSON file with settings. Its keys are the names of the flags, with _ instead of -."},
    {.group = "Other", .flag = "help", .kind = SETTING_HELP, .help = "Print this text and exit. -h does the same."},
    {.group = "Other", .flag = "version", .kind = SETTING_VERSION, .help = "Print the version and exit."},
};
const size_t settings_table_count = sizeof settings_table / sizeof *settings_table;

const char *setting_flag(const struct setting *setting, char buffer[SETTING_NAME_BYTES])
{
    snprintf(buffer, SETTING_NAME_BYTES, "--%s", setting->flag);
    return buffer;
}

const char *setting_environment(const struct setting *setting, char buffer[SETTING_NAME_BYTES])
{
    snprintf(buffer, SETTING_NAME_BYTES, SETTING_ENVIRONMENT_PREFIX "%s", setting->flag);
    for (char *at = buffer; *at; at++)
        *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
    return buffer;
}

const char *setting_key(const struct setting *setting, char buffer[SETTING_NAME_BYTES])
{
    snprintf(buffer, SETTING_NAME_BYTES, "%s", setting->flag);
    for (char *at = buffer; *at; at++)
        if (*at == '-')
            *at = '_';
    return buffer;
}

const struct setting *setting_find(const char *name, size_t length, setting_spelling *spelling)
{
    char spelled[SETTING_NAME_BYTES];
    for (size_t i = 0; i < settings_table_count; i++) {
        spelling(&settings_table[i], spelled);
        if (strlen(spelled) == length && memcmp(spelled, name, length) == 0)
            return &settings_table[i];
    }
    return NULL;
}

static size_t fewer(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The character as it is written in flags. So MAX_batch equals max-batch. */
static int folded(char character)
{
    return character == '_' ? '-' : tolower((unsigned char)character);
}

/* The smallest number of insertions, deletions and replacements that change `name` to `flag` (Levenshtein distance).
 * `row` is one row of the table in the usual algorithm. */
static size_t edit_distance(const char *name, size_t length, const char *flag)
{
    size_t flag_length = strlen(flag);
    size_t row[SETTING_NAME_BYTES];
    for (size_t j = 0; j <= flag_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= flag_length; j++) {
            size_t replaced = diagonal + (folded(name[i - 1]) != flag[j - 1]);
            diagonal = row[j];
            row[j] = fewer(replaced, fewer(row[j], row[j - 1]) + 1);
        }
    }
    return row[flag_length];
}

const struct setting *setting_nearest(const char *name, size_t length, enum setting_kind last)
{
    const struct setting *nearest = NULL;
    size_t best = NEAR_EDITS + 1;
    if (length <= NEAR_EDITS || length > SETTING_NAME_BYTES)
        return NULL; /* a very short name differs from every short flag by few edits */
    for (size_t i = 0; i < settings_table_count; i++) {
        size_t distance = edit_distance(name, length, settings_table[i].flag);
        if (distance < best && settings_table[i].kind <= last) {
            best = distance;
            nearest = &settings_table[i];
        }
    }
    return nearest;
}
