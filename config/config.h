/* config: plain data that every other folder may read. The error type, the settings of the daemon, and the config.json
 * of a model. No function here starts a thread or uses the network. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINFORMERD_VERSION "0.1.0"

struct json_t; /* jansson's json_t. Only files that look into one include jansson.h. */

/* ---- Errors ---------------------------------------------------------------------------------------------------
 * A function that can fail on a bad file, setting, machine or request takes a `struct error *` last. On failure it
 * returns -1 and writes one sentence there: the place (file, tensor, key), the expected value, the found value. The
 * caller owns the struct. Its message is terminated and valid UTF-8; a long one is cut at a character's border. A bug
 * of the caller is an assert. */
struct error {
    char message[1024]; /* room for the names of all classes, the longest list */
};

/* Writes the message. Returns -1, so that a caller can `return error_set(...)`. */
int error_set(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "where: " in front of the present message. Returns -1. */
int error_prefix(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The UTF-8 character at the start of `text`. Returns its number of bytes, and its code point in *code. 0: the bytes
 * are no character. Then *code is the number of bytes to replace by one U+FFFD: the longest valid start of a character,
 * or 1 byte. Reads at most `length` >= 1 bytes and none after a terminator, so a terminated text may pass SIZE_MAX. */
size_t text_character(const char *text, size_t length, uint32_t *code);

/* Appends an item to a list "a, b, c" in a terminated buffer. An item that does not fit is left out. */
void text_list_add(char *buffer, size_t size, const char *item);

/* Reads a regular file. Returns its *length bytes and a terminator after them. The caller frees them. NULL: the file
 * cannot be read, or has more than `limit` bytes; the message names it. A file that is cut meanwhile is an error, not a
 * SIGBUS. */
char *file_read(const char *path, size_t limit, size_t *length, struct error *error);

/* The same in steps. file_open returns the descriptor of a regular file and its size in bytes; the caller closes it.
 * file_read_next reads exactly `length` bytes. Their messages do not name the file. */
int file_open(const char *path, size_t *size, struct error *error);
int file_read_next(int file, void *bytes, size_t length, struct error *error);

/* ---- A model's config.json ------------------------------------------------------------------------------------ */
enum pooling { POOLING_MEAN, POOLING_CLS, POOLING_LAST, POOLING_MAX, POOLING_COUNT };
enum padding { PADDING_DEFAULT, PADDING_SLICE, PADDING_ZERO, PADDING_MASKED, PADDING_AUTOPAD, PADDING_EXACT };
enum tokenizer_kind { TOKENIZER_NONE, TOKENIZER_BYTE };

/* How a picture becomes a model's input: resized, cropped, then each byte b of channel c as
 * (b scale - mean[c]) / std[c]. The meaning of each key is that of torchvision's transforms on a PIL image, so resizing
 * is antialiased. Edges are in pixels. */
enum image_resize { IMAGE_RESIZE_NONE, IMAGE_RESIZE_BILINEAR, IMAGE_RESIZE_BICUBIC, IMAGE_RESIZE_COUNT };

struct image_settings {
    int64_t height, width; /* of the model's input, >= 1. 0: the file has no `image` */
    enum image_resize resize;
    bool crop;                           /* cut (height, width) from the centre of the resized picture */
    int64_t resize_height, resize_width; /* of the resized picture; a width of 0: the height is the shorter edge */
    double scale;                        /* not 0 */
    float mean[3], std[3];               /* red, green, blue; std is not 0 */
};

struct model_config {
    char *architecture;    /* import path of the Python class, as in the file */
    char *name;            /* NULL: the file has none */
    struct json_t *kwargs; /* object: the arguments of the class's __init__ */
    enum pooling pooling;
    bool normalize;
    bool auto_truncate; /* the default of a request's `truncate` */
    enum padding padding;
    enum tokenizer_kind tokenizer;
    int byte_offset;       /* TOKENIZER_BYTE: the id of byte 0. With 3, ids 0 to 2 are pad, end and mask; else 0 */
    struct json_t *graph;  /* of architecture "module": an object; NULL: the file has none */
    struct json_t *ignore; /* list of names of tensors, with * for any characters; NULL: the file has none */
    struct json_t *labels; /* list of strings, the names of the classes in order; NULL: the file has none */
    struct image_settings image;
};

/* Parses `length` bytes of JSON, without I/O. `origin` names the file in messages. Unknown keys are refused by name.
 * After success model_config_free() is owed, after failure nothing. */
int model_config_parse(const char *text, size_t length, const char *origin, struct model_config *config,
                       struct error *error);

/* The same for a file of at most 16 MiB. */
int model_config_read(const char *path, struct model_config *config, struct error *error);
void model_config_free(struct model_config *config); /* twice, or on a zeroed struct, is harmless */

/* The settings of an empty `image` for a model with this input: torchvision's ImageClassification. The shorter edge is
 * resized to 8/7 of the larger edge of the input, as 256 for 224, bilinearly. The centre is cropped. The scale is
 * 1/255, mean and std are those of ImageNet. */
struct image_settings image_settings_default(int64_t height, int64_t width);

/* The enum value of "mean", "cls", "last" or "max", in upper or lower case. -1: another name. */
int pooling_from_name(const char *name);
const char *pooling_name(enum pooling pooling);
const char *padding_name(enum padding padding);
int padding_from_name(const char *name); /* "default" is one too. -1: another name */

/* ---- Arguments of a Python class, read through a table -------------------------------------------------------
 * A family declares the arguments of a class in a table. arguments_read checks types and ranges. It refuses an argument
 * that the class does not have; the message lists the names that it has. */
enum argument_type {
    ARGUMENT_SIZE,           /* int64_t >= 1 */
    ARGUMENT_OPTIONAL_SIZE,  /* int64_t >= 1, or null: 0 */
    ARGUMENT_COUNT,          /* int64_t >= 0 */
    ARGUMENT_OPTIONAL_COUNT, /* int64_t >= 0, or null: 0 */
    ARGUMENT_INTEGER,        /* int64_t, also below 0 */
    ARGUMENT_BOOL,           /* bool */
    ARGUMENT_OBJECT,         /* json_t *, an object borrowed from kwargs, or null: NULL */
    ARGUMENT_DROPOUT,        /* a number from 0 to 1; not stored, because it has no effect at inference */
    ARGUMENT_TRAINING,       /* any value; not stored, because it has no effect at inference */
    ARGUMENT_JSON,           /* json_t *, any value borrowed from kwargs; NULL when absent */
};

struct argument {
    const char *name;
    enum argument_type type;
    bool required;
    int64_t fallback; /* the constructor's default: 1 is true, and 0 is None for the optional types */
    size_t offset;    /* of the field in the family's struct; unused for ARGUMENT_DROPOUT and ARGUMENT_TRAINING */
};

/* Fills `out` from `kwargs` (an object). Sizes are at most 2^31 - 1. `class_name` names the class in messages. */
int arguments_read(const char *class_name, const struct argument *table, size_t count, const struct json_t *kwargs,
                   void *out, struct error *error);

/* ---- What a model is computed with and on ----------------------------------------------------------------------
 * In each enum 0 is auto, so a zeroed struct asks for the defaults. */

/* The type in which products with weights are computed. A 16-bit type also holds for the products of attention.
 * auto: f32 on the CPU, bf16 on CUDA. */
enum dtype { DTYPE_AUTO, DTYPE_F32, DTYPE_TF32, DTYPE_BF16, DTYPE_F16, DTYPE_COUNT };

/* The CPU's instructions: AVX2 is x86-64-v3, AVX512 is x86-64-v4. Each set includes the sets listed after it. */
enum instruction_set { SET_AUTO, SET_AVX512, SET_AVX2, SET_BASELINE, SET_COUNT };

/* The CPU's library for products with weights. */
enum product_library { LIBRARY_AUTO, LIBRARY_ONEDNN, LIBRARY_OPENBLAS, LIBRARY_COUNT };

/* The names in the settings, such as "auto" and "f32". dtype_from_name returns -1 for an unknown name. */
const char *dtype_name(enum dtype dtype);
int dtype_from_name(const char *name);
const char *instruction_set_name(enum instruction_set set);

#define DEVICE_CHOICE_LIMIT 32
#define DEVICE_CHOICE_NAME_BYTES (DEVICE_CHOICE_LIMIT * sizeof ",cuda:999")

/* auto: the first CUDA device, or the CPU on a machine without one. */
enum device_kind { DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA };

struct device_choice {
    enum device_kind kind;
    bool all;                         /* DEVICE_CUDA: all devices of the machine, at most DEVICE_CHOICE_LIMIT */
    int count;                        /* DEVICE_CUDA: number of indices. 0 without `all`: the first device */
    int indices[DEVICE_CHOICE_LIMIT]; /* (count), from 0 to 999, none of them twice */
};

/* Reads "auto", "cpu", "cuda", "cuda:1,cuda:0" or "cuda:all". In a list "cuda" is "cuda:0". The engine checks later
 * that the devices exist. -1: the name is none of these, has a device twice, or has more than DEVICE_CHOICE_LIMIT. */
int device_choice_parse(const char *name, struct device_choice *choice, struct error *error);

/* The reverse. Returns the buffer. */
const char *device_choice_name(const struct device_choice *choice, char buffer[DEVICE_CHOICE_NAME_BYTES]);

/* ---- Settings of the daemon ----------------------------------------------------------------------------------- */
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };
enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

struct model_source {
    char *name; /* NULL: not given with NAME= */
    char *path; /* folder with config.json and model.safetensors */
};

struct settings {
    struct model_source *models; /* n_models of them; none: the built-in model */
    size_t n_models;
    char *host;
    int64_t port;
    struct device_choice device;
    enum dtype dtype;
    enum instruction_set kernels;  /* of the CPU engine */
    enum product_library products; /* of the CPU engine */
    int64_t threads;               /* of the CPU engine; 0: one a core this process may use */
    int64_t cuda_tuning_ms;        /* of the CUDA engine, for each model; 0: none */
    int64_t http_threads;          /* of libmicrohttpd */
    int64_t max_batch_tokens;      /* 0: auto */
    int64_t max_batch_requests;    /* sequences in a batch */
    int64_t max_batch_ms;          /* 0: no limit */
    int64_t max_client_batch_size; /* sequences in a request */
    int64_t max_queue_tokens;
    int64_t max_queue_requests;   /* sequences that wait */
    int64_t request_timeout_ms;   /* from the complete body to the answer; 0: none */
    int64_t connection_timeout_s; /* without a byte */
    int64_t drain_delay_ms;       /* between the signal and the draining */
    int64_t max_connections;
    int64_t payload_limit; /* bytes of one body; 0: auto */
    char *api_key;         /* NULL: no key is asked for */
    bool protect_metrics;  /* /metrics needs the key too */
    bool strict;           /* a body's key without a meaning is refused */
    bool auto_truncate;    /* the default of a request's `truncate` */
    enum log_format log_format;
    enum log_level log_level;
};

enum settings_action { SETTINGS_SERVE, SETTINGS_HELP, SETTINGS_VERSION, SETTINGS_EXPLAIN, SETTINGS_CHECK };

/* Reads the settings. A flag wins over its environment variable, the variable over the file of --config, and the file
 * over the default. `environment` is like environ: "LINFORMERD_PORT=8080". The file is a JSON object with the flags as
 * keys, _ for -; `model` is a string or a list of strings.
 * An unknown flag, key or LINFORMERD_ variable is an error, and so is a value of another type or out of range. The
 * message names it and its source. With --help or --version other errors are ignored.
 * `explain` receives the folder of --explain, borrowed from argv; NULL: the flag has none. After success
 * settings_free() is owed. */
int settings_read(int argc, char **argv, char **environment, struct settings *settings, enum settings_action *action,
                  const char **explain, struct error *error);
void settings_free(struct settings *settings);

/* The text of --help, from the same table. The caller frees it. NULL: out of memory. */
char *settings_help(void);

#endif
