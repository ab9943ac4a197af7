/* service: the state that all requests share. The daemon fills in the options. http_open makes the rest. */
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

/* The name of a class. */
struct served_label {
    const char *text;
    bool again; /* a later class has the same name */
};

/* A loaded model, with what config.json and the model's folder say about it. server/served_model.h sets it. */
struct served_model {
    const char *name;
    struct model *model;
    int64_t batcher_index;         /* its index in the batcher */
    int64_t metrics;               /* its index in the metrics */
    struct model_version *version; /* private to the owner of the models */
    struct served_label *labels;   /* (info.output_columns), by class. NULL if the classes have no names */
    struct image_settings image; /* how a picture becomes an input. Its height is 0 if the model accepts no pictures */
    struct text_codec *codec;    /* converts texts to ids. NULL if the model accepts no texts */
    struct generation_settings generation; /* how its tokens are chosen if a request does not say it */
    int32_t eos_token, bos_token; /* the id that ends a generated sequence, and the id that begins the sequence of a
                                     decoder. -1 if there is none */
    bool tokenizes;               /* `codec` is a tokenizer.json. Reading text then takes longer than reading JSON */
    bool codec_unused;            /* the folder has a tokenizer.json, but the model accepts no ids */
    const struct json_t *prompts; /* maps names of prompts to texts that precede an input. NULL if there are none */
    const char *default_prompt;   /* the name of the prompt for requests that name none. NULL if there is none */
};

/* The state of a model that the operator has named, for the repository routes of Triton. */
struct model_state {
    const char *name;
    const char *state;  /* "READY", "LOADING", "UNLOADING" or "UNAVAILABLE" */
    const char *reason; /* why the model is unavailable. "" otherwise */
};

/* Loads and unloads models by name, while the daemon serves. The functions may take minutes. They return -1 after
 * failure_set. */
struct model_control {
    void *context;
    /* Calls `write` for each model that could be served. NULL if only the current set is known. */
    void (*list)(void *context, void (*write)(void *out, const struct model_state *state), void *out);
    int (*load)(void *context, const char *name, struct failure *failure);
    int (*unload)(void *context, const char *name, struct failure *failure);
};

/* All pointers must outlive the server. */
struct service_options {
    const struct settings *settings;
    struct model_sets *sets;
    const struct model_control *control;
    const struct dialect *const *dialects; /* the list ends with NULL. The last dialect answers unknown paths */
    struct engine *engine;
    struct batcher *batcher;
    struct metrics *metrics;
    struct keys *keys;     /* server/http/keys.h */
    struct tls *tls;       /* server/http/tls.h. NULL if connections are not encrypted */
    struct tracer *tracer; /* NULL if requests are not traced */
};

struct service {
    struct service_options options;
    struct request_id_source ids;
    struct budget results; /* memory of requests: JSON being read, inputs, results, and answers until they are sent */
    int64_t opened_ns;     /* CLOCK_MONOTONIC */
    int64_t opened_s;      /* seconds since 1970 */
    double started_s;      /* the start of the process, in seconds since 1970. 0 if unknown */
    _Atomic int64_t connections;
    _Atomic bool ready; /* work is accepted */
    /* a time of CLOCK_MONOTONIC. Sequences that are still being generated at this time end with the tokens that they
     * have. 0 while the server does not drain, or if requests have no time limit */
    _Atomic int64_t drain_end_ns;
};

#endif
