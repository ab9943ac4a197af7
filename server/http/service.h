/* service: the state that all requests share. The daemon fills in the options. http_open makes the rest. */
#ifndef SERVER_HTTP_SERVICE_H
#define SERVER_HTTP_SERVICE_H

#include "engine/engine.h"
#include "server/common/budget.h"
#include "server/http/request_id.h"

struct batcher;
struct dialect;
struct keys;
struct metrics;
struct text_codec;
struct tls;

/* The name of a class. */
struct served_label {
    const char *text;
    bool again; /* a later class has the same name */
};

/* A loaded model, with what config.json and the model's folder say about it. server/served_model.h sets it. */
struct served_model {
    const char *name;
    struct model *model;
    struct served_label *labels; /* (info.output_columns), by class. NULL if the classes have no names */
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

/* All pointers must outlive the server. The models have the same order as in batcher_open. */
struct service_options {
    const struct settings *settings;
    const struct served_model *models;
    int64_t n_models;
    const struct dialect *const *dialects; /* the list ends with NULL. The last dialect answers unknown paths */
    struct engine *engine;
    struct batcher *batcher;
    struct metrics *metrics;
    struct keys *keys; /* server/http/keys.h */
    struct tls *tls;   /* server/http/tls.h. NULL if connections are not encrypted */
};

struct service {
    struct service_options options;
    struct request_id_source ids;
    struct budget results; /* memory of requests: JSON being read, inputs, results, and answers until they are sent */
    int64_t opened_ns;     /* CLOCK_MONOTONIC */
    int64_t opened_s;      /* seconds since 1970 */
    double started_s;      /* the start of the process, in seconds since 1970. 0 if unknown */
    bool takes_pictures;   /* one of the models does */
    bool tokenizes;        /* one of the models does */
    _Atomic int64_t connections;
    _Atomic bool ready; /* work is accepted */
    /* a time of CLOCK_MONOTONIC. Sequences that are still being generated at this time end with the tokens that they
     * have. 0 while the server does not drain, or if requests have no time limit */
    _Atomic int64_t drain_end_ns;
};

#endif
