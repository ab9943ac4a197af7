/* vocabulary: one pool of texts, an array indexed by id, and an open-addressed hash table of ids. */
#include "server/tokenizer/vocabulary.h"

#include <stdlib.h>
#include <string.h>

void vocabulary_free(struct vocabulary *vocabulary)
{
    free(vocabulary->pool);
    free(vocabulary->entries);
    free(vocabulary->slots);
    *vocabulary = (struct vocabulary){0};
}

static uint64_t hash_bytes(const char *bytes, size_t length)
{
    const uint64_t factor = 0x9e3779b97f4a7c15u;
    uint64_t hash = length * factor;
    for (; length >= 8; bytes += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        hash = (hash ^ word) * factor;
        hash ^= hash >> 32;
    }
    uint64_t rest = 0;
    for (size_t i = 0; i < length; i++)
        rest |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
    hash = (hash ^ rest) * factor;
    return hash ^ hash >> 29;
}

static const char *entry_text(const struct vocabulary *vocabulary, size_t id)
{
    return vocabulary->pool + vocabulary->entries[id].at;
}

/* Returns the slot of the text, or the free slot for it if the text is not in the table. */
static uint32_t *find_slot(const struct vocabulary *vocabulary, const char *text, size_t length)
{
    size_t mask = vocabulary->n_slots - 1;
    for (size_t at = hash_bytes(text, length) & mask;; at = (at + 1) & mask) {
        uint32_t id = vocabulary->slots[at];
        if (id == 0)
            return &vocabulary->slots[at];
        const struct vocabulary_entry *entry = &vocabulary->entries[id - 1];
        if (entry->length == length && memcmp(vocabulary->pool + entry->at, text, length) == 0)
            return &vocabulary->slots[at];
    }
}

static int grow_slots(struct vocabulary *vocabulary)
{
    if (vocabulary->count * 2 < vocabulary->n_slots)
        return 0;
    uint32_t *old = vocabulary->slots;
    size_t n_old = vocabulary->n_slots;
    size_t wanted = n_old ? n_old * 2 : 1024;
    uint32_t *slots = calloc(wanted, sizeof *slots);
    if (!slots)
        return -1;
    vocabulary->slots = slots;
    vocabulary->n_slots = wanted;
    for (size_t i = 0; i < n_old; i++)
        if (old[i] != 0)
            *find_slot(vocabulary, entry_text(vocabulary, old[i] - 1), vocabulary->entries[old[i] - 1].length) = old[i];
    free(old);
    return 0;
}

static int grow_entries(struct vocabulary *vocabulary, size_t id)
{
    if (id >= vocabulary->entries_capacity) {
        size_t wanted = id + 1 > vocabulary->entries_capacity * 2 ? id + 1024 : vocabulary->entries_capacity * 2;
        struct vocabulary_entry *entries = realloc(vocabulary->entries, wanted * sizeof *entries);
        if (!entries)
            return -1;
        vocabulary->entries = entries;
        vocabulary->entries_capacity = wanted;
    }
    for (; vocabulary->ids <= id; vocabulary->ids++)
        vocabulary->entries[vocabulary->ids] = (struct vocabulary_entry){.at = UINT32_MAX};
    return 0;
}

static int grow_pool(struct vocabulary *vocabulary, size_t more)
{
    if (vocabulary->pool_capacity - vocabulary->pool_length >= more && vocabulary->pool)
        return 0;
    size_t wanted = vocabulary->pool_capacity * 2 + more + 4096;
    char *pool = wanted < UINT32_MAX ? realloc(vocabulary->pool, wanted) : NULL;
    if (!pool)
        return -1;
    vocabulary->pool = pool;
    vocabulary->pool_capacity = wanted;
    return 0;
}

int vocabulary_add(struct vocabulary *vocabulary, const char *text, size_t length, int64_t id, bool replace,
                   const char *where, struct error *error)
{
    if (id < 0 || id >= VOCABULARY_ID_LIMIT)
        return error_set(error, "%s: expected an id from 0 to %lld for \"%.*s\", found %lld", where,
                         (long long)VOCABULARY_ID_LIMIT - 1, (int)(length < 100 ? length : 100), text, (long long)id);
    if (grow_slots(vocabulary) != 0 || grow_entries(vocabulary, (size_t)id) != 0 || grow_pool(vocabulary, length) != 0)
        return error_set(error, "%s: out of memory", where);
    if (vocabulary->entries[id].at != UINT32_MAX)
        return error_set(error, "%s: two tokens have the id %lld", where, (long long)id);
    uint32_t *slot = find_slot(vocabulary, text, length);
    if (*slot != 0 && !replace)
        return error_set(error, "%s: \"%.*s\" occurs twice", where, (int)(length < 100 ? length : 100), text);
    vocabulary->count += *slot == 0;
    vocabulary->entries[id] = (struct vocabulary_entry){(uint32_t)vocabulary->pool_length, (uint32_t)length};
    memcpy(vocabulary->pool + vocabulary->pool_length, text, length);
    vocabulary->pool_length += length;
    *slot = (uint32_t)id + 1;
    return 0;
}

int vocabulary_finish(struct vocabulary *vocabulary, struct error *error)
{
    char *pool = realloc(vocabulary->pool, vocabulary->pool_length + 1);
    struct vocabulary_entry *entries = realloc(vocabulary->entries, (vocabulary->ids + 1) * sizeof *entries);
    if (pool)
        vocabulary->pool = pool;
    if (entries)
        vocabulary->entries = entries;
    if (!pool || !entries || grow_slots(vocabulary) != 0)
        return error_set(error, "out of memory");
    vocabulary->pool_capacity = vocabulary->pool_length;
    vocabulary->entries_capacity = vocabulary->ids;
    return 0;
}

int32_t vocabulary_id(const struct vocabulary *vocabulary, const char *text, size_t length)
{
    return vocabulary->n_slots == 0 ? -1 : (int32_t)*find_slot(vocabulary, text, length) - 1;
}

const char *vocabulary_text(const struct vocabulary *vocabulary, int64_t id, size_t *length)
{
    if (id < 0 || (size_t)id >= vocabulary->ids || vocabulary->entries[id].at == UINT32_MAX)
        return NULL;
    *length = vocabulary->entries[id].length;
    return entry_text(vocabulary, (size_t)id);
}
