/* service: the state that all requests share. The daemon fills in the options. http_open sets the other members. */
#ifndef SERVER_HTTP_SERVICE_H
#define SERVER_HTTP_SERVICE_H

#include "engine/engine.h"
#include "server/common/budget.h"
#include "server/http/model_sets.h"
#include "server/http/request_id.h"

struct batcher;
struct dialect;
struct keys;
struct failure;
struct metrics;
struct model_version;
struct text_codec;
struct tls;
struct tracer;

/* The name of one class that a model tells apart. */
struct served_label {
    const char *text;
    bool is_repeated_later; /* another class with a higher index has the same name */
};

/* A loaded model, with its data from config.json and from the model's folder. server/served_model.h sets it. */
struct served_model {
    const char *name;
    struct model *model;
    int64_t batcher_index;         /* its index in the batcher */
    int64_t metrics;               /* its index in the metrics */
    struct model_version *version; /* for the owner of the models only */
    /* An array of info.output_columns names, indexed by class. NULL if the classes have no names. */
    struct served_label *labels;
    /* How a picture is converted to an input. image.height is 0 if the model accepts no pictures. */
    struct image_settings image;
    struct text_codec *codec;              /* converts texts to ids. NULL if the model accepts no texts */
    struct generation_settings generation; /* the defaults for requests that do not say how tokens are chosen */
    int32_t eos_token, bos_token; /* the id that ends a generated sequence, and the id that begins the sequence of a
                                     decoder. -1 if there is none */
    bool tokenizes;    /* `codec` uses a tokenizer.json. Converting text then takes longer than parsing JSON */
    bool codec_unused; /* the model's folder contains a tokenizer.json that is not used, because the model accepts no
                          ids */
    const struct json_t *prompts; /* maps names of prompts to texts that precede an input. NULL if there are none */
    const char *default_prompt;   /* the name of the prompt for requests that name no prompt. NULL if there is none */
};

/* The state of a model of the settings, or of a built-in model. The repository routes of Triton's API report it. */
struct model_state {
    const char *name;
    const char *state;  /* "READY", "LOADING", "UNLOADING" or "UNAVAILABLE" */
    const char *reason; /* why the model is unavailable. "" otherwise */
};

/* Functions that load and unload models by name, while the daemon serves. `load` and `unload` may take minutes, and
 * return -1 after failure_set. Both are NULL if requests may not load models. */
struct model_control {
    void *context;
    /* Calls `write` for each model that could be loaded. `list` is NULL if only the models of the current set are
     * known. */
    void (*list)(void *context, void (*write)(void *out, const struct model_state *state), void *out);
    int (*load)(void *context, const char *name, struct failure *failure);
    int (*unload)(void *context, const char *name, struct failure *failure);
};

/* All pointers must outlive the server. */
struct service_options {
    const struct settings *settings;
    struct model_sets *sets;
    const struct model_control *control;
    const struct dialect *const *dialects; /* a list that ends with NULL. Its last dialect answers unknown paths */
    struct engine *engine;
    struct batcher *batcher;
    struct metrics *metrics;
    struct keys *keys;     /* the API keys (server/http/keys.h) */
    struct tls *tls;       /* the certificate (server/http/tls.h). NULL if connections are not encrypted */
    struct tracer *tracer; /* NULL if requests are not traced */
};

struct service {
    struct service_options options;
    struct request_id_source ids;
    struct budget results; /* limit on the memory of requests: JSON being read, inputs, results, and answers until they
                              are sent */
    int64_t opened_ns;     /* time of http_open on CLOCK_MONOTONIC, in nanoseconds */
    int64_t opened_s;      /* time of http_open, in seconds since 1970 */
    double started_s;      /* the start of the process, in seconds since 1970. 0 if unknown */
    _Atomic int64_t connections;
    _Atomic bool ready; /* the server accepts requests for work */
    /* Time of CLOCK_MONOTONIC, in nanoseconds, at which generations of tokens end early. Their answers contain the
     * tokens generated until then. 0 while the server does not drain, or if requests have no time limit. */
    _Atomic int64_t drain_end_ns;
};

#endif
