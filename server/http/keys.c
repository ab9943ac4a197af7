/* keys: stores only SHA-256 digests of the keys. Each comparison of a given key uses the digests of all keys, over
 * their full length. So the time of a comparison reveals nothing about the keys except their number. */
#include "server/http/keys.h"

#include "server/common/log.h"
#include "server/common/secret.h"

#include <ctype.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT_BYTES (1 << 20)
#define DIGEST_BYTES 32
#define DIGEST_PREFIX "sha256:"

struct key {
    char name[KEY_NAME_BYTES]; /* empty if the key has no name */
    unsigned char digest[DIGEST_BYTES];
};

struct key_list {
    struct key *keys; /* an array of `count` keys */
    size_t count;
};

struct keys {
    pthread_rwlock_t lock; /* guards the list */
    struct key_list list;
};

static int digest_of(const char *text, size_t length, unsigned char digest[DIGEST_BYTES], struct error *error)
{
    int status = gnutls_hash_fast(GNUTLS_DIG_SHA256, text, length, digest);
    return status == 0 ? 0
                       : error_set(error, "cannot compute the SHA-256 digest of a key: %s", gnutls_strerror(status));
}

/* ---- Reading ---- */

static int add_key(struct key_list *list, const struct key *key, struct error *error)
{
    for (size_t i = 0; i < list->count; i++)
        if (memcmp(list->keys[i].digest, key->digest, DIGEST_BYTES) == 0)
            return error_set(error, "the key is given twice");
    struct key *keys = realloc(list->keys, (list->count + 1) * sizeof *keys);
    if (!keys)
        return error_set(error, "out of memory");
    list->keys = keys;
    list->keys[list->count++] = *key;
    return 0;
}

static bool is_visible(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isgraph((unsigned char)text[i]))
            return false;
    return length > 0;
}

static int read_digest(const char *hex, size_t length, unsigned char digest[DIGEST_BYTES], struct error *error)
{
    const gnutls_datum_t text = {.data = (unsigned char *)hex, .size = (unsigned int)length};
    size_t size = DIGEST_BYTES;
    if (length != 2 * DIGEST_BYTES || gnutls_hex_decode(&text, digest, &size) != 0 || size != DIGEST_BYTES)
        return error_set(error, "64 hexadecimal digits were expected after sha256:");
    return 0;
}

/* Parses a line of one of the four forms in keys.h. */
static int read_line(const char *line, size_t length, struct key *key, struct error *error)
{
    const size_t prefix = strlen(DIGEST_PREFIX);
    bool digest = length >= prefix && memcmp(line, DIGEST_PREFIX, prefix) == 0;
    const char *colon = digest ? NULL : memchr(line, ':', length);
    *key = (struct key){.name = ""};
    if (colon) {
        size_t name = (size_t)(colon - line);
        if (!is_visible(line, name) || name >= sizeof key->name)
            return error_set(error, "the name must have 1 to %zu visible ASCII characters", sizeof key->name - 1);
        memcpy(key->name, line, name);
        line += name + 1;
        length -= name + 1;
        digest = length >= prefix && memcmp(line, DIGEST_PREFIX, prefix) == 0;
    }
    if (digest)
        return read_digest(line + prefix, length - prefix, key->digest, error);
    if (!is_visible(line, length))
        return error_set(error, "a key of visible ASCII characters without spaces was expected");
    return digest_of(line, length, key->digest, error);
}

static int read_lines(const char *text, const char *end, struct key_list *list, struct error *error)
{
    for (int number = 1; text < end; number++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        const char *next = stop ? stop + 1 : end;
        struct key key;
        stop = stop ? stop : end;
        while (text < stop && isspace((unsigned char)*text))
            text++;
        while (stop > text && isspace((unsigned char)stop[-1]))
            stop--;
        if (text < stop && *text != '#' &&
            (read_line(text, (size_t)(stop - text), &key, error) != 0 || add_key(list, &key, error) != 0))
            return error_prefix(error, "line %d", number);
        text = next;
    }
    return 0;
}

static int read_keys(const char *path, struct key_list *list, struct error *error)
{
    size_t length = 0, before = list->count;
    char *text = secret_read(path, FILE_LIMIT_BYTES, &length, error);
    if (!text)
        return -1;
    int status = read_lines(text, text + length, list, error);
    secret_free(text, length);
    if (status != 0)
        return error_prefix(error, "%s", path);
    if (list->count == before)
        return error_set(error, "%s: contains no key, at least one was expected", path);
    log_write(LOG_LEVEL_INFO, "API keys loaded", "file", path, LOG_INTEGER("keys", list->count - before), NULL);
    return 0;
}

static int read_all(const char *key, const char *path, struct key_list *list, struct error *error)
{
    struct key given = {.name = ""};
    *list = (struct key_list){NULL, 0};
    if ((key && (digest_of(key, strlen(key), given.digest, error) != 0 || add_key(list, &given, error) != 0)) ||
        (path && read_keys(path, list, error) != 0)) {
        free(list->keys);
        return -1;
    }
    return 0;
}

/* ---- Looking up ---- */

bool keys_needed(struct keys *keys)
{
    if (!keys)
        return false;
    pthread_rwlock_rdlock(&keys->lock);
    bool needed = keys->list.count > 0;
    pthread_rwlock_unlock(&keys->lock);
    return needed;
}

static bool equal_in_constant_time(const unsigned char *a, const unsigned char *b)
{
    unsigned char difference = 0;
    for (size_t i = 0; i < DIGEST_BYTES; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

bool keys_contain(struct keys *keys, const char *given, size_t length, char name[KEY_NAME_BYTES])
{
    unsigned char digest[DIGEST_BYTES];
    struct error error;
    bool found = false;
    *name = '\0';
    if (digest_of(given, length, digest, &error) != 0)
        return false;
    pthread_rwlock_rdlock(&keys->lock);
    for (size_t i = 0; i < keys->list.count; i++) {
        if (!equal_in_constant_time(keys->list.keys[i].digest, digest))
            continue;
        memcpy(name, keys->list.keys[i].name, KEY_NAME_BYTES);
        found = true;
    }
    pthread_rwlock_unlock(&keys->lock);
    return found;
}

/* ---- Opening and closing ---- */

int keys_open(const char *key, const char *path, struct keys **opened, struct error *error)
{
    struct keys *keys = calloc(1, sizeof *keys);
    if (!keys)
        return error_set(error, "out of memory");
    if (read_all(key, path, &keys->list, error) != 0) {
        free(keys);
        return -1;
    }
    pthread_rwlock_init(&keys->lock, NULL);
    *opened = keys;
    return 0;
}

int keys_reload(struct keys *keys, const char *key, const char *path, struct error *error)
{
    struct key_list list;
    if (read_all(key, path, &list, error) != 0)
        return -1;
    pthread_rwlock_wrlock(&keys->lock);
    struct key_list old = keys->list;
    keys->list = list;
    pthread_rwlock_unlock(&keys->lock);
    free(old.keys);
    return 0;
}

void keys_close(struct keys *keys)
{
    if (!keys)
        return;
    pthread_rwlock_destroy(&keys->lock);
    free(keys->list.keys);
    free(keys);
}
