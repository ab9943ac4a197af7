/* settings_table: one table from which the flags, the environment variables, the keys of the settings file, and --help
 * are derived. */
#ifndef CONFIG_SETTINGS_TABLE_H
#define CONFIG_SETTINGS_TABLE_H

#include "config/config.h"

/* The type of a setting's value. Settings of the kinds up to SETTING_MODELS have a flag, a variable and a key of the
 * file. SETTING_CONFIG has a flag and a variable. The other kinds have only a flag. */
enum setting_kind {
    SETTING_INTEGER, /* int64_t */
    SETTING_TEXT,    /* char * */
    SETTING_CHOICE,  /* an enum. Its values are the indices of `choices` */
    SETTING_DEVICE,  /* struct device_choice */
    SETTING_BOOL,    /* bool. `choices` are false and true. The flag without a value means true */
    SETTING_MODELS,  /* settings.models */
    SETTING_CONFIG,
    SETTING_EXPLAIN, /* the flag may have no value */
    SETTING_CHECK,
    SETTING_HELP,
    SETTING_VERSION,
};

struct setting {
    const char *group; /* heading in --help */
    const char *flag;  /* without the dashes. The names of variable and key are derived from it */
    enum setting_kind kind;
    size_t offset;            /* offset of the member in struct settings */
    const char *value_name;   /* name of the value in --help. NULL if the flag needs no value */
    const char *fallback;     /* the default, as a user would write it. NULL if there is none */
    int64_t minimum, maximum; /* limits of a SETTING_INTEGER */
    const char *unit;         /* unit of a SETTING_INTEGER, in plural. NULL for a number without a unit */
    const char *word; /* for SETTING_INTEGER: a word that users write for 0, which is below the minimum. NULL if there
                         is no such word */
    const char *const *choices;          /* names of the values of a SETTING_CHOICE or SETTING_BOOL. The list ends with
                                            NULL */
    bool (*is_valid)(const char *value); /* checks a SETTING_TEXT. NULL if every text that is not empty is valid */
    const char *expected; /* describes the valid values in messages. Used for SETTING_DEVICE, and for SETTING_TEXT with
                             is_valid */
    bool live;            /* SIGHUP changes the value while the daemon serves */
    bool secret;          /* the value is never printed */
    const char *help;     /* the explanation, in sentences */
};

extern const struct setting settings_table[];
extern const size_t settings_table_count;

/* Lists of choices that end with NULL. The indices are enum dtype, enum instruction_set, enum product_library and enum
 * cuda_f32. */
extern const char *const dtype_names[], *const instruction_set_names[], *const product_library_names[];
extern const char *const cuda_f32_names[];

/* Describes the names that device_choice_parse accepts. */
#define DEVICE_CHOICE_EXPECTED "auto, cpu, cuda, a list as in cuda:0,cuda:1, or cuda:all"

#define SETTING_ENVIRONMENT_PREFIX "LINFORMERD_"
#define SETTING_NAME_BYTES 64 /* size of a buffer for any flag, variable or key */

/* These functions write the name of a setting as a flag ("--max-batch-tokens"), as a variable
 * ("LINFORMERD_MAX_BATCH_TOKENS") or as a key ("max_batch_tokens"). They return the buffer. */
typedef const char *setting_spelling(const struct setting *setting, char buffer[SETTING_NAME_BYTES]);
setting_spelling setting_flag, setting_environment, setting_key;

/* The setting whose name, as `spelling` writes it, equals the first `length` bytes of `name`. NULL if there is none. */
const struct setting *setting_find(const char *name, size_t length, setting_spelling *spelling);

/* The setting whose flag differs from `name` by at most two edits, among the kinds up to `last`. Case is ignored, and _
 * equals -. `name` begins without dashes and without LINFORMERD_. NULL if there is none. */
const struct setting *setting_nearest(const char *name, size_t length, enum setting_kind last);

#endif
