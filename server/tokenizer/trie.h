/* trie: a search tree over keys. It finds all keys that are prefixes of a text. The time is proportional to the length
 * of the longest of these keys. */
#ifndef SERVER_TRIE_H
#define SERVER_TRIE_H

#include "config/config.h"

#include <stddef.h>
#include <stdint.h>

struct trie_key {
    const char *bytes;
    size_t length;
    int32_t value; /* must be at least 0 */
};

/* The tree is stored as a double array. The child of node n for byte b is the node base[n] ^ b, provided that the
 * parent of this node is n. */
struct trie_node {
    uint32_t base;
    uint32_t parent; /* UINT32_MAX if the node is free */
    int32_t value;   /* value of the key that ends here. -1 if no key ends here */
};

struct trie {
    struct trie_node *nodes; /* `count` nodes. `count` is a multiple of 256. Node 0 is the root */
    size_t count;
};

/* Sorts the keys by their bytes and builds the trie. Of equal keys, the key with the largest value is kept. Returns -1
 * if memory is lacking. After success the caller must call trie_free. */
int trie_build(struct trie *trie, struct trie_key *keys, size_t count, struct error *error);
void trie_free(struct trie *trie);

/* Returns the child of a node for a byte, or UINT32_MAX if there is none. */
static inline uint32_t trie_child(const struct trie *trie, uint32_t node, unsigned char byte)
{
    uint32_t child = trie->nodes[node].base ^ byte;
    return trie->nodes[child].parent == node && child != 0 ? child : UINT32_MAX;
}

#endif
