/* trie: builds the double array. Nodes are in blocks of 256. The indices of a node's children differ only in the lowest
 * byte, so the children are in one block. */
#include "server/tokenizer/trie.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK 256
#define FREE UINT32_MAX
#define OPEN_BLOCKS 8   /* maximum number of open blocks. The search for free nodes tries only these blocks */
#define MAX_FAILURES 64 /* number of failed attempts after which a block is removed from the open blocks */

struct build {
    struct trie *trie;
    const struct trie_key *keys;
    struct {
        uint32_t block;
        int failures;
    } open[OPEN_BLOCKS]; /* `n_open` blocks */
    size_t n_open;
    size_t capacity; /* number of nodes for which memory is allocated */
};

static int compare_keys(const void *one, const void *other)
{
    const struct trie_key *a = one, *b = other;
    int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
    if (order != 0)
        return order;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return a->value < b->value ? -1 : a->value > b->value;
}

/* Appends a block of free nodes. The block replaces the oldest block in the list of open blocks, if the list is
 * full. */
static int add_block(struct build *build)
{
    struct trie *trie = build->trie;
    if (trie->count + BLOCK > build->capacity) {
        size_t wanted = build->capacity + build->capacity / 2 + 16 * BLOCK;
        struct trie_node *nodes = wanted < UINT32_MAX ? realloc(trie->nodes, wanted * sizeof *nodes) : NULL;
        if (!nodes)
            return -1;
        trie->nodes = nodes;
        build->capacity = wanted;
    }
    for (size_t i = trie->count; i < trie->count + BLOCK; i++)
        trie->nodes[i] = (struct trie_node){.parent = FREE, .value = -1};
    if (build->n_open == OPEN_BLOCKS) {
        memmove(build->open, build->open + 1, (OPEN_BLOCKS - 1) * sizeof *build->open);
        build->n_open--;
    }
    build->open[build->n_open].block = (uint32_t)trie->count;
    build->open[build->n_open++].failures = 0;
    trie->count += BLOCK;
    return 0;
}

/* Returns a base with which all children are free nodes of the block, or FREE if there is none. `labels` are the bytes
 * of the children. */
static uint32_t base_in_block(const struct trie *trie, uint32_t block, const unsigned char *labels, size_t count)
{
    for (uint32_t first = block; first < block + BLOCK; first++) {
        if (trie->nodes[first].parent != FREE)
            continue;
        uint32_t base = first ^ labels[0];
        size_t i = 1;
        while (i < count && trie->nodes[base ^ labels[i]].parent == FREE)
            i++;
        if (i == count)
            return base;
    }
    return FREE;
}

static int find_base(struct build *build, const unsigned char *labels, size_t count, uint32_t *base)
{
    for (size_t i = build->n_open; i-- > 0;) {
        *base = base_in_block(build->trie, build->open[i].block, labels, count);
        if (*base != FREE)
            return 0;
        if (++build->open[i].failures >= MAX_FAILURES) {
            memmove(build->open + i, build->open + i + 1, (build->n_open - i - 1) * sizeof *build->open);
            build->n_open--;
        }
    }
    if (add_block(build) != 0)
        return -1;
    *base = base_in_block(build->trie, (uint32_t)build->trie->count - BLOCK, labels, count);
    return 0;
}

/* A node whose children have not been created yet. keys[begin] to keys[end - 1] have the same first `depth` bytes. */
struct trie_task {
    uint32_t node;
    size_t begin, end, depth;
};

struct trie_tasks {
    struct trie_task *items;
    size_t count, capacity;
};

static int push(struct trie_tasks *tasks, struct trie_task task)
{
    if (tasks->count == tasks->capacity) {
        size_t wanted = tasks->capacity * 2 + 256;
        struct trie_task *items = realloc(tasks->items, wanted * sizeof *items);
        if (!items)
            return -1;
        tasks->items = items;
        tasks->capacity = wanted;
    }
    tasks->items[tasks->count++] = task;
    return 0;
}

/* Creates the children of a node, and tasks for them. */
static int expand(struct build *build, struct trie_tasks *tasks, struct trie_task task)
{
    const struct trie_key *keys = build->keys;
    while (task.begin < task.end && keys[task.begin].length == task.depth)
        build->trie->nodes[task.node].value = keys[task.begin++].value;
    if (task.begin == task.end)
        return 0;
    unsigned char labels[BLOCK];
    size_t begins[BLOCK + 1], count = 0;
    for (size_t i = task.begin; i < task.end; i++) {
        unsigned char label = (unsigned char)keys[i].bytes[task.depth];
        if (count == 0 || labels[count - 1] != label) {
            labels[count] = label;
            begins[count++] = i;
        }
    }
    begins[count] = task.end;
    uint32_t base;
    if (find_base(build, labels, count, &base) != 0)
        return -1;
    build->trie->nodes[task.node].base = base;
    for (size_t i = 0; i < count; i++)
        build->trie->nodes[base ^ labels[i]].parent = task.node;
    for (size_t i = count; i-- > 0;)
        if (push(tasks, (struct trie_task){base ^ labels[i], begins[i], begins[i + 1], task.depth + 1}) != 0)
            return -1;
    return 0;
}

int trie_build(struct trie *trie, struct trie_key *keys, size_t count, struct error *error)
{
    *trie = (struct trie){0};
    qsort(keys, count, sizeof *keys, compare_keys);
    struct build build = {.trie = trie, .keys = keys};
    struct trie_tasks tasks = {0};
    int status = add_block(&build);
    if (status == 0) {
        trie->nodes[0].parent = 0; /* the root is not free */
        status = push(&tasks, (struct trie_task){.end = count});
    }
    while (status == 0 && tasks.count > 0)
        status = expand(&build, &tasks, tasks.items[--tasks.count]);
    free(tasks.items);
    struct trie_node *nodes = status == 0 ? realloc(trie->nodes, trie->count * sizeof *nodes) : NULL;
    if (!nodes) {
        trie_free(trie);
        return error_set(error, "out of memory");
    }
    trie->nodes = nodes;
    return 0;
}

void trie_free(struct trie *trie)
{
    free(trie->nodes);
    *trie = (struct trie){0};
}
