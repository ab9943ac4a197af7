/* service: the state that all requests share. The daemon fills in the options; http_open makes the rest. */
#ifndef SERVER_HTTP_SERVICE_H
#define SERVER_HTTP_SERVICE_H

#include "engine/engine.h"
#include "server/common/budget.h"
#include "server/http/request_id.h"

struct batcher;
struct dialect;
struct metrics;
struct text_codec;

/* The name of a class. */
struct served_label {
    const char *text;
    bool again; /* a later class has the same name */
};

/* What config.json and the model's folder say beside the model itself; server/served_model.h sets it. */
struct served_model {
    const char *name;
    struct model *model;
    struct served_label *labels;           /* (info.output_columns), by class; NULL: the classes have no names */
    struct image_settings image;           /* how a picture becomes the model's input; height 0: it takes no pictures */
    struct text_codec *codec;              /* of its texts; NULL: it takes none */
    struct generation_settings generation; /* how its tokens are chosen if a request does not say it */
    int32_t eos_token, bos_token;          /* that end a generated sequence, and begin a decoder's; -1: none */
    bool tokenizes;               /* `codec` is a tokenizer.json, so a byte of text takes more work than one of JSON */
    bool codec_unused;            /* the folder has a tokenizer.json, but the model takes no ids */
    const struct json_t *prompts; /* name -> text that is put before a text; NULL: none */
    const char *default_prompt;   /* one of these names, for requests that name none; NULL: none */
};

/* All pointers outlive the server. The models have the order that batcher_open got. */
struct service_options {
    const struct settings *settings;
    const struct served_model *models;
    int64_t n_models;
    const struct dialect *const *dialects; /* ended by NULL; the last one answers unknown paths */
    struct engine *engine;
    struct batcher *batcher;
    struct metrics *metrics;
};

struct service {
    struct service_options options;
    struct request_id_source ids;
    struct budget results; /* memory of requests: JSON being read, inputs, results, and answers until they are sent */
    int64_t opened_ns;     /* CLOCK_MONOTONIC */
    int64_t opened_s;      /* since 1970 */
    bool takes_pictures;   /* one of the models does */
    bool tokenizes;        /* one of the models does */
    _Atomic int64_t connections;
    _Atomic bool ready; /* work is accepted */
    /* CLOCK_MONOTONIC: sequences that are still generated then end with the tokens that they have. 0: the server does
     * not drain, or requests have no time limit. */
    _Atomic int64_t drain_end_ns;
};

#endif
