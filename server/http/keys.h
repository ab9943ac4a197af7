/* keys: the API keys that requests may contain. They come from --api-key and from the file of --api-key-file, and may
 * be replaced while the daemon serves. Any thread may call the functions.
 *
 * A line of the file is one of these. Empty lines and lines that begin with # are skipped:
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

/* Both arguments may be NULL. Without any key, requests need none. Messages never contain a key. After success the
 * caller must call keys_close. */
int keys_open(const char *key, const char *path, struct keys **keys, struct error *error);
void keys_close(struct keys *keys); /* NULL is harmless */

/* Replaces all keys. On failure, the old keys stay valid. */
int keys_reload(struct keys *keys, const char *key, const char *path, struct error *error);

bool keys_needed(struct keys *keys); /* whether there is a key. NULL stands for none */

/* Whether the `length` bytes are a key. Sets `name` to its name, or to an empty text. The time depends on the number of
 * keys and on the length of the given key, but not on how much of it is right. */
bool keys_contain(struct keys *keys, const char *given, size_t length, char name[KEY_NAME_BYTES]);

#endif
