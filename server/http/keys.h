/* keys: the API keys that requests may contain. They come from --api-key and from the file of --api-key-file.
 * keys_reload may replace them while the daemon serves. Any thread may call the functions.
 *
 * Empty lines of the file, and lines that begin with #, are skipped. Each other line is one of these:
 *
 *     KEY                 a key without a name
 *     NAME:KEY            the log line of a request with this key contains the name
 *     sha256:HEX          64 hexadecimal digits: the SHA-256 digest of a key
 *     NAME:sha256:HEX */
#ifndef SERVER_KEYS_H
#define SERVER_KEYS_H

#include "config/config.h"

#define KEY_NAME_BYTES 64

struct keys;

/* Reads the key `key` and the keys of the file `path`. Both arguments may be NULL. If there is no key at all, requests
 * need no key. Messages never contain a key. After success the caller must call keys_close. */
int keys_open(const char *key, const char *path, struct keys **keys, struct error *error);
void keys_close(struct keys *keys); /* NULL is harmless */

/* Replaces all keys. On failure, the old keys stay valid. */
int keys_reload(struct keys *keys, const char *key, const char *path, struct error *error);

bool keys_needed(struct keys *keys); /* whether requests need a key. False if `keys` is NULL or contains no key */

/* Whether the `length` bytes at `given` are a key. Sets `name` to the name of this key, or to an empty text. The time
 * depends on the number of keys and on the length of the given key, but not on how many of its bytes are correct. */
bool keys_contain(struct keys *keys, const char *given, size_t length, char name[KEY_NAME_BYTES]);

#endif
