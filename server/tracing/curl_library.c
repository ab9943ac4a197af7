#include "server/tracing/curl_library.h"

#include <dlfcn.h>

/* Loads libcurl. Debian builds it with OpenSSL and with GnuTLS, under two names. */
static void *load(struct error *error)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    error_set(error, "cannot load libcurl, which sends spans: %s; is the package libcurl4 installed?", dlerror());
    return NULL;
}

int curl_library_load(struct curl_library *library, struct error *error)
{
    void *loaded = load(error);
    if (!loaded)
        return -1;
    const struct {
        const char *name;
        void *function; /* address of the member of struct curl_library that receives the function */
    } functions[] = {
        {"curl_global_init", &library->global_init},       {"curl_easy_init", &library->easy_init},
        {"curl_easy_setopt", &library->easy_setopt},       {"curl_easy_perform", &library->easy_perform},
        {"curl_easy_getinfo", &library->easy_getinfo},     {"curl_easy_strerror", &library->easy_strerror},
        {"curl_easy_cleanup", &library->easy_cleanup},     {"curl_slist_append", &library->slist_append},
        {"curl_slist_free_all", &library->slist_free_all},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        *(void **)functions[i].function = dlsym(loaded, functions[i].name);
        if (!*(void **)functions[i].function)
            return error_set(error, "libcurl lacks the function %s", functions[i].name);
    }
    int code = library->global_init(CURL_GLOBAL_ALL_FLAGS);
    return code == 0 ? 0 : error_set(error, "libcurl cannot be initialised: %s", library->easy_strerror(code));
}
