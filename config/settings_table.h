/* The one table that flags, environment, file and --help come from. */
#ifndef CONFIG_SETTINGS_TABLE_H
#define CONFIG_SETTINGS_TABLE_H

#include "config/config.h"

/* What a value is and where it goes. Up to SETTING_MODELS a setting has a flag, a variable and a key of the file;
 * SETTING_CONFIG has no key; the rest are flags only. */
enum setting_kind {
    SETTING_INTEGER, /* int64_t */
    SETTING_TEXT,    /* char * */
    SETTING_CHOICE,  /* an enum whose values count through `choices` */
    SETTING_DEVICE,  /* struct device_choice */
    SETTING_BOOL,    /* bool; `choices` are false and true. The flag alone means true */
    SETTING_MODELS,  /* settings.models */
    SETTING_CONFIG,
    SETTING_EXPLAIN, /* its value may be missing */
    SETTING_CHECK,
    SETTING_HELP,
    SETTING_VERSION,
};

struct setting {
    const char *group; /* heading in --help */
    const char *flag;  /* without the dashes; all spellings are derived from it */
    enum setting_kind kind;
    size_t offset;                       /* in struct settings */
    const char *value_name;              /* in --help; NULL: the flag needs no value */
    const char *fallback;                /* as one would write it; NULL: none */
    int64_t minimum, maximum;            /* of SETTING_INTEGER */
    const char *unit;                    /* of SETTING_INTEGER, plural; NULL: a plain number */
    const char *word;                    /* of SETTING_INTEGER: stands for 0, which is below the minimum; NULL: none */
    const char *const *choices;          /* of SETTING_CHOICE and SETTING_BOOL, ended by NULL */
    bool (*is_valid)(const char *value); /* of SETTING_TEXT; NULL: anything that is not empty */
    const char *expected; /* what a SETTING_TEXT with is_valid, and a SETTING_DEVICE, accepts: for messages */
    bool secret;          /* the value is never printed */
    const char *help;     /* sentences */
};

extern const struct setting settings_table[];
extern const size_t settings_table_count;

/* Choices of settings, ended by NULL. Index: enum dtype, enum instruction_set, enum product_library. */
extern const char *const dtype_names[], *const instruction_set_names[], *const product_library_names[];

/* What device_choice_parse accepts. */
#define DEVICE_CHOICE_EXPECTED "auto, cpu, cuda, a list as in cuda:0,cuda:1, or cuda:all"

#define SETTING_ENVIRONMENT_PREFIX "LINFORMERD_"
#define SETTING_NAME_BYTES 64 /* holds every flag, variable and key */

/* How a setting is written in each place: "--max-batch-tokens", "LINFORMERD_MAX_BATCH_TOKENS", "max_batch_tokens".
 * They return the buffer. */
typedef const char *setting_spelling(const struct setting *setting, char buffer[SETTING_NAME_BYTES]);
setting_spelling setting_flag, setting_environment, setting_key;

/* The setting that is spelled like the first `length` bytes of `name`. NULL: there is none. */
const struct setting *setting_find(const char *name, size_t length, setting_spelling *spelling);

/* The setting of a kind up to `last` whose flag differs from `name` by at most two edits. Case does not count, and _
 * equals -. `name` has no dashes and no prefix of a variable in front. NULL: there is none. */
const struct setting *setting_nearest(const char *name, size_t length, enum setting_kind last);

#endif
