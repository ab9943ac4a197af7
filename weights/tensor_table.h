/* The tensors of one file, by index and by name. Private to weights/. */
#ifndef WEIGHTS_TENSOR_TABLE_H
#define WEIGHTS_TENSOR_TABLE_H

#include "weights/tensor.h"

/* A name of a tensor: the name in the file, or an alias. */
struct tensor_name {
    const char *name;
    size_t tensor; /* index of the tensor */
};

/* The struct owns both arrays, but not the names. */
struct tensor_table {
    struct weights_tensor *tensors;
    size_t n_tensors;
    struct tensor_name *names;
    size_t n_names; /* number of names, which are sorted by strcmp */
};

/* Sorts the names, for tensor_table_find. */
void tensor_table_sort(struct tensor_table *table);

/* NULL if no tensor has the name. */
const struct tensor_name *tensor_table_name(const struct tensor_table *table, const char *name);
const struct weights_tensor *tensor_table_find(const struct tensor_table *table, const char *name);

void tensor_table_free(struct tensor_table *table);

#endif
