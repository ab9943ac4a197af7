/* trie: the longest or all keys that a text begins with, in time that the length of the key bounds. */
#ifndef SERVER_TRIE_H
#define SERVER_TRIE_H

#include "config/config.h"

#include <stddef.h>
#include <stdint.h>

struct trie_key {
    const char *bytes;
    size_t length;
    int32_t value; /* >= 0 */
};

/* A double array: the child of node n by byte b is node base[n] ^ b, if that node's parent is n. */
struct trie_node {
    uint32_t base;
    uint32_t parent; /* UINT32_MAX: the node is free */
    int32_t value;   /* of the key that ends here; -1: none does */
};

struct trie {
    struct trie_node *nodes; /* (count, a multiple of 256) node 0 is the root */
    size_t count;
};

/* Sorts the keys by their bytes and builds the trie. Two equal keys: the one with the larger value wins. -1: memory is
 * out. After success trie_free is owed. */
int trie_build(struct trie *trie, struct trie_key *keys, size_t count, struct error *error);
void trie_free(struct trie *trie);

/* The child of a node. UINT32_MAX: there is none. */
static inline uint32_t trie_child(const struct trie *trie, uint32_t node, unsigned char byte)
{
    uint32_t child = trie->nodes[node].base ^ byte;
    return trie->nodes[child].parent == node && child != 0 ? child : UINT32_MAX;
}

#endif
