/* config: plain data that every other folder may read. The header has the error type, the settings of the daemon, the
 * config.json of a model, and small functions for files and texts. No function here starts a thread or uses the
 * network. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINFORMERD_VERSION "0.1.0"

struct json_t; /* jansson's json_t. Only files that read its contents include jansson.h. */

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

/* A function that can fail on a bad file, setting, machine or request has a `struct error *` as its last parameter. On
 * failure it returns -1 and writes one sentence into the struct. The sentence names the place (file, tensor, key), the
 * expected value and the found value. The caller owns the struct. The message is NUL-terminated and valid UTF-8. A
 * message that is too long is cut between two characters. A bug of the caller fails an assert. */
struct error {
    char message[1024]; /* long enough for the list of all class names, the longest text in a message */
};

/* Writes the message. Always returns -1, so that a caller can write `return error_set(...)`. */
int error_set(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts the formatted text and ": " in front of the present message. Always returns -1. */
int error_prefix(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Decodes the UTF-8 character at the start of `text`. Returns its number of bytes, and sets *code to its code point.
 * Returns 0 if the bytes are no valid character. Then *code is not a code point, but the number of bytes to replace by
 * one U+FFFD: the length of the longest valid start of a character, or 1. Reads at most `length` bytes, which must be
 * at least 1. It reads nothing after a NUL, so `length` may be SIZE_MAX for a NUL-terminated text. */
size_t text_character(const char *text, size_t length, uint32_t *code);

/* Appends `item` to a list such as "a, b, c" in a NUL-terminated buffer of `size` bytes. An item that does not fit is
 * left out. */
void text_list_add(char *buffer, size_t size, const char *item);

/* Reads a regular file. Returns its *length bytes, followed by a NUL. The caller frees the returned memory. Returns
 * NULL if the file cannot be read, or has more than `limit` bytes. The message names the file. A file that shrinks
 * during the read is an error, and does not raise SIGBUS. */
char *file_read(const char *path, size_t limit, size_t *length, struct error *error);

/* Reads a file in steps. file_open returns the descriptor of a regular file, and sets *size to the size of the
 * file in bytes. The caller closes the descriptor. file_read_next reads exactly `length` bytes. The messages of both
 * functions do not name the file. */
int file_open(const char *path, size_t *size, struct error *error);
int file_read_next(int file, void *bytes, size_t length, struct error *error);

/* ---- A model's config.json ------------------------------------------------------------------------------------ */
enum pooling { POOLING_MEAN, POOLING_CLS, POOLING_LAST, POOLING_MAX, POOLING_COUNT };
enum padding { PADDING_DEFAULT, PADDING_SLICE, PADDING_ZERO, PADDING_MASKED, PADDING_AUTOPAD, PADDING_EXACT };

/* The key `tokenizer`. TOKENIZER_DEFAULT: the file has no such key, so tokenizer.json is used if the model's folder has
 * one. TOKENIZER_NONE: the key is null. */
enum tokenizer_kind { TOKENIZER_DEFAULT, TOKENIZER_NONE, TOKENIZER_BYTE, TOKENIZER_FILE };

/* How a picture becomes a model's input. The picture is resized and cropped. Then each byte b of channel c becomes (b *
 * scale - mean[c]) / std[c]. Each key means the same as in torchvision's transforms of a PIL image, so resizing is
 * antialiased. Edges are in pixels. */
enum image_resize { IMAGE_RESIZE_NONE, IMAGE_RESIZE_BILINEAR, IMAGE_RESIZE_BICUBIC, IMAGE_RESIZE_COUNT };

struct image_settings {
    int64_t height, width; /* size of the model's input, >= 1. Both are 0 if the file has no key `image` */
    enum image_resize resize;
    bool crop; /* whether a rectangle of height * width pixels is cut from the centre of the resized picture */
    /* The size of the resized picture. If resize_width is 0, resize_height is the length of the shorter edge. */
    int64_t resize_height, resize_width;
    double scale;          /* factor of each byte, above 0 */
    float mean[3], std[3]; /* one number each for red, green and blue. No std is 0 */
};

/* How new tokens are chosen if a request does not specify it. Names and meanings are those of generation_config.json of
 * the Python package transformers. */
struct generation_settings {
    bool do_sample;            /* false: the likeliest token is chosen */
    int64_t top_k;             /* number of likeliest tokens that may be chosen. 0: all */
    double temperature;        /* > 0. The logits are divided by this number */
    double top_p;              /* > 0, at most 1. The likeliest tokens with this probability together may be chosen */
    double min_p;              /* 0 to 1. Tokens at least this many times as likely as the likeliest may be chosen */
    double repetition_penalty; /* > 0. 1: tokens that appeared before are not made less likely */
};

struct model_config {
    char *architecture;    /* import path of the Python class, as in the file */
    char *name;            /* NULL if the file has no name */
    struct json_t *kwargs; /* a JSON object: the arguments of the class's __init__ */
    enum pooling pooling;
    bool normalize;
    bool auto_truncate; /* the default of a request's `truncate` */
    enum padding padding;
    enum tokenizer_kind tokenizer;
    int byte_offset;      /* used with TOKENIZER_BYTE: the id of byte 0. It is 3 if ids 0 to 2 are pad, end and mask.
                             Otherwise it is 0 */
    char *tokenizer_file; /* used with TOKENIZER_FILE: the name of a file in the model's folder. Otherwise NULL */
    int64_t eos_token, bos_token; /* ids. -1 stands for the tokenizer's token of that kind, if it has one */
    struct json_t *graph;         /* a JSON object, for the architecture "module". NULL if the file has no graph */
    /* A JSON list of tensor names, with * for any characters. NULL if the file has no such list. */
    struct json_t *ignore;
    struct json_t *labels; /* a JSON list of strings: the names of a classifier's classes, in order. NULL if the file
                              has no such list */
    /* A JSON object: names of prompts, each with a text that is put before an input. NULL if the file has no
     * prompts. */
    struct json_t *prompts;
    char *default_prompt; /* name of the prompt for requests that name no prompt. NULL if the file has no such key */
    struct image_settings image;
    bool causal; /* for the architecture "module": row p of the output scores the token after position p, and does not
                    depend on later tokens */
    struct generation_settings generation;
};

/* Parses `length` bytes of JSON, without I/O. `origin` names the file in messages. An unknown key is an error that
 * names the key. After success the caller must call model_config_free. After failure there is nothing to free. */
int model_config_parse(const char *text, size_t length, const char *origin, struct model_config *config,
                       struct error *error);

/* Like model_config_parse, for a file of at most 16 MiB. */
int model_config_read(const char *path, struct model_config *config, struct error *error);
void model_config_free(struct model_config *config); /* may be called twice, or on a zeroed struct */

/* The settings that an empty `image` object stands for, if the model's input has `height` and `width` pixels. They are
 * those of torchvision's ImageClassification. The shorter edge is resized bilinearly to 8/7 of the larger edge of the
 * input, for example to 256 for an input of 224. The centre is cropped. The scale is 1/255. Mean and std are those of
 * ImageNet. */
struct image_settings image_settings_default(int64_t height, int64_t width);

/* Returns the enum value of "mean", "cls", "last" or "max", in upper or lower case. Returns -1 for any other name. */
int pooling_from_name(const char *name);
const char *pooling_name(enum pooling pooling);
const char *padding_name(enum padding padding);
int padding_from_name(const char *name); /* also accepts "default". -1 for an unknown name */

/* ---- Arguments of a Python class, read through a table ----------------------------------------------------------- */

/* A model family declares the arguments of a class in a table. arguments_read checks types and ranges. It refuses an
 * argument that is not in the table, and the message lists the names in the table. */
enum argument_type {
    ARGUMENT_SIZE,           /* int64_t >= 1 */
    ARGUMENT_OPTIONAL_SIZE,  /* int64_t >= 1, or null, stored as 0 */
    ARGUMENT_COUNT,          /* int64_t >= 0 */
    ARGUMENT_OPTIONAL_COUNT, /* int64_t >= 0, or null, stored as 0 */
    ARGUMENT_INTEGER,        /* int64_t, which may be negative */
    ARGUMENT_BOOL,           /* bool */
    ARGUMENT_OBJECT,         /* json_t *, an object borrowed from kwargs, or null, stored as NULL */
    ARGUMENT_DROPOUT,        /* a number from 0 to 1. It is not stored, because it has no effect at inference */
    ARGUMENT_TRAINING,       /* any value. It is not stored, because it has no effect at inference */
    ARGUMENT_JSON,           /* json_t *, any value borrowed from kwargs, NULL if absent */
};

struct argument {
    const char *name;
    enum argument_type type;
    bool required;
    int64_t fallback; /* the constructor's default. For booleans 1 is true. For the optional types 0 is None */
    /* Bytes from the start of the family's struct to the member that arguments_read sets. Unused for ARGUMENT_DROPOUT
     * and ARGUMENT_TRAINING. */
    size_t offset;
};

/* Fills the family's struct `out` from the JSON object `kwargs`. Sizes are at most 2^31 - 1. `class_name` names the
 * class in messages. */
int arguments_read(const char *class_name, const struct argument *table, size_t count, const struct json_t *kwargs,
                   void *out, struct error *error);

/* ---- Dtype, kernels and device of a model ------------------------------------------------------------------------ */

/* In each enum of this section 0 is the default, so a zeroed struct asks for the defaults. */

/* The type in which products with weights are computed. If it is a 16-bit type, attention's products also use it. auto
 * means f32 on the CPU and bf16 on CUDA. */
enum dtype { DTYPE_AUTO, DTYPE_F32, DTYPE_TF32, DTYPE_BF16, DTYPE_F16, DTYPE_COUNT };

/* The CPU's instructions: AVX2 is x86-64-v3, AVX512 is x86-64-v4. Each set contains the instructions of the sets listed
 * after it. */
enum instruction_set { SET_AUTO, SET_AVX512, SET_AVX2, SET_BASELINE, SET_COUNT };

/* The CPU's library for products with weights. */
enum product_library { LIBRARY_AUTO, LIBRARY_ONEDNN, LIBRARY_OPENBLAS, LIBRARY_COUNT };

/* How a CUDA device multiplies matrices with the dtype f32: on tensor cores with three products in TF32, or in plain
 * float arithmetic. */
enum cuda_f32 { CUDA_F32_TENSOR, CUDA_F32_PLAIN, CUDA_F32_COUNT };

/* The names in the settings, such as "auto" and "f32". */
const char *dtype_name(enum dtype dtype);
const char *instruction_set_name(enum instruction_set set);

#define DEVICE_CHOICE_LIMIT 32
#define DEVICE_CHOICE_NAME_BYTES (DEVICE_CHOICE_LIMIT * sizeof ",cuda:999")

/* auto: the first CUDA device, or the CPU on a machine without one. */
enum device_kind { DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA };

struct device_choice {
    enum device_kind kind;
    bool all;  /* DEVICE_CUDA: all devices of the machine, at most DEVICE_CHOICE_LIMIT */
    int count; /* DEVICE_CUDA: number of indices. If it is 0 and `all` is false, the first device is meant */
    int indices[DEVICE_CHOICE_LIMIT]; /* `count` device numbers from 0 to 999, none of them twice */
};

/* Reads "auto", "cpu", "cuda", "cuda:1,cuda:0" or "cuda:all". In a list "cuda" means "cuda:0". The engine checks later
 * that the devices exist. Returns -1 for any other name, and for a list with one device twice or with more than
 * DEVICE_CHOICE_LIMIT devices. */
int device_choice_parse(const char *name, struct device_choice *choice, struct error *error);

/* Writes the name that device_choice_parse reads as this choice. Returns the buffer. */
const char *device_choice_name(const struct device_choice *choice, char buffer[DEVICE_CHOICE_NAME_BYTES]);

/* ---- Settings of the daemon ----------------------------------------------------------------------------------- */
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };
enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

struct model_source {
    char *name; /* NULL if --model was given without NAME= */
    char *path; /* folder with config.json and model.safetensors */
};

/* The type of a setting that another thread may change while the daemon serves. C++ has no _Atomic, and reads none of
 * these settings. */
#ifdef __cplusplus
#define LIVE(type) type
#else
#define LIVE(type) _Atomic type
#endif

struct settings {
    struct model_source *models; /* (n_models). Empty if the built-in models are to be served */
    size_t n_models;
    bool model_control;     /* requests may load and unload models */
    char *model_repository; /* a folder of models that requests may load. NULL if there is none */
    char *host;             /* a list of addresses, names and unix:PATH, with commas between them */
    int64_t port;
    bool reuse_port;        /* other processes may listen on the same port */
    char *unix_socket_mode; /* mode of Unix sockets, in octal digits */
    char *tls_certificate;  /* NULL if connections are not encrypted */
    char *tls_key;          /* NULL together with tls_certificate */
    struct device_choice device;
    enum dtype dtype;
    enum instruction_set kernels;        /* used by the CPU engine */
    enum product_library products;       /* used by the CPU engine */
    int64_t threads;                     /* of the CPU engine. 0 means one per core that this process may use */
    enum cuda_f32 cuda_f32;              /* used on CUDA with the dtype f32 */
    int64_t cuda_tuning_ms;              /* the time for choosing CUDA kernels, for each model. 0 means no tuning */
    int64_t http_threads;                /* number of event loops (with TLS, twice as many), and number of workers */
    int64_t max_batch_tokens;            /* limit for the tokens in a batch. 0 means auto */
    int64_t max_batch_requests;          /* limit for the sequences in a batch */
    int64_t max_batch_ms;                /* limit for the estimated time of a batch. 0 means no limit */
    LIVE(int64_t) max_client_batch_size; /* limit for the sequences in a request */
    LIVE(int64_t) max_queue_tokens;
    LIVE(int64_t) max_queue_requests; /* limit for the sequences that wait in the queue */
    LIVE(int64_t) max_queue_ms;       /* limit for the estimated wait of a request. 0 means no limit */
    int64_t max_generations;          /* limit for the sequences that one model generates at a time. 0 means no limit */
    int64_t generation_percent;       /* limit for the share of a lane's time that generation uses while other requests
                                         wait */
    LIVE(int64_t) request_timeout_ms; /* limit for the time from the end of the body to the answer. 0 means no limit */
    int64_t connection_timeout_s;     /* limit for the time in which a connection transfers no byte */
    LIVE(int64_t) drain_delay_ms;     /* time between the signal to stop and the end of admission */
    int64_t max_connections;
    int64_t payload_limit;      /* limit for the bytes of one body. 0 means auto */
    char *api_key;              /* NULL if there is none */
    char *api_key_file;         /* NULL if there is none */
    char *cors_allow_origin;    /* "*", or origins with commas between them. NULL if no other origin may read answers */
    LIVE(bool) protect_metrics; /* requests for /metrics also need the key */
    LIVE(bool) strict;          /* a body with an unknown JSON key is refused */
    LIVE(bool) auto_truncate;   /* the default of a request's `truncate` */
    enum log_format log_format;
    enum log_level log_level;
    LIVE(bool) access_log; /* the line of each request has the level info instead of debug */
    char *otlp_endpoint;   /* URL of OpenTelemetry's collector. NULL if only the environment may name one */
};

enum settings_action { SETTINGS_SERVE, SETTINGS_HELP, SETTINGS_VERSION, SETTINGS_EXPLAIN, SETTINGS_CHECK };

/* Reads the settings. A flag wins over its environment variable, the variable over the file of --config, and the file
 * over the default. `environment` is like environ: "LINFORMERD_PORT=8080". The file is a JSON object. Its keys are the
 * flags, with _ in place of -. `model` is a string or a list of strings. An unknown flag, key or LINFORMERD_ variable
 * is an error. A value of a wrong type or out of range is also an error. The message names the setting and its source.
 * With --help or --version other errors are ignored. *explain becomes the folder of --explain, borrowed from argv, or
 * NULL if the flag has no value. After success the caller must call settings_free. */
int settings_read(int argc, char **argv, char **environment, struct settings *settings, enum settings_action *action,
                  const char **explain, struct error *error);
void settings_free(struct settings *settings);

/* The arguments of settings_read, which are read once more when settings are reloaded. */
struct settings_source {
    int argc;
    char **argv;
    char **environment;
};

/* Copies each live number and boolean from `changed` to `running`. The caller itself reads live texts and choices from
 * `changed`. Calls `fixed` for each setting that is not live and differs between `started` and `changed`. Other threads
 * may read `running` meanwhile. */
void settings_apply(const struct settings *started, const struct settings *changed, struct settings *running,
                    void (*fixed)(void *context, const char *flag), void *context);

/* The text of --help, from the table of settings. The caller frees the text. NULL if memory is lacking. */
char *settings_help(void);

#endif
