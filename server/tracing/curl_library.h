/* curl_library: loads libcurl only when spans are sent. Linking libcurl would add milliseconds to each start of the
 * daemon, because libcurl itself needs some thirty libraries. The numbers below are part of curl's ABI and never
 * change. tests/unit/test_tracing.c compares them with curl's own headers. */
#ifndef SERVER_TRACING_CURL_LIBRARY_H
#define SERVER_TRACING_CURL_LIBRARY_H

#include "config/config.h"

struct curl_list; /* curl's own name for this struct is curl_slist */

enum {
    CURL_NO_PROGRESS = 43,
    CURL_POST_LENGTH = 60,
    CURL_NO_SIGNAL = 99,
    CURL_TIMEOUT_MS = 155,
    CURL_WRITE_DATA = 10001,
    CURL_URL = 10002,
    CURL_ERROR_BUFFER = 10010,
    CURL_POST_BODY = 10015,
    CURL_USER_AGENT = 10018,
    CURL_HEADERS = 10023,
    CURL_PROGRESS_DATA = 10057,
    CURL_CERTIFICATES = 10065,
    CURL_WRITE = 20011,
    CURL_PROGRESS = 20219,

    CURL_STATUS = 0x200002,
    CURL_RETRY_AFTER = 0x600039,

    CURL_ERROR_BYTES = 256,
    CURL_GLOBAL_ALL_FLAGS = 3,
};

struct curl_library {
    int (*global_init)(long flags);
    void *(*easy_init)(void);
    int (*easy_setopt)(void *easy, int option, ...);
    int (*easy_perform)(void *easy);
    int (*easy_getinfo)(void *easy, int info, ...);
    const char *(*easy_strerror)(int code);
    void (*easy_cleanup)(void *easy);
    struct curl_list *(*slist_append)(struct curl_list *list, const char *text);
    void (*slist_free_all)(struct curl_list *list);
};

/* Loads and initialises libcurl, which then stays loaded. Call it before other threads use curl. */
int curl_library_load(struct curl_library *library, struct error *error);

#endif
