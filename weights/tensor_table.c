#include "weights/tensor_table.h"

#include <stdlib.h>
#include <string.h>

static int compare_names(const void *left, const void *right)
{
    const struct tensor_name *a = left, *b = right;
    return strcmp(a->name, b->name);
}

void tensor_table_sort(struct tensor_table *table)
{
    qsort(table->names, table->n_names, sizeof *table->names, compare_names);
}

const struct tensor_name *tensor_table_name(const struct tensor_table *table, const char *name)
{
    struct tensor_name key = {.name = name};
    return bsearch(&key, table->names, table->n_names, sizeof *table->names, compare_names);
}

const struct weights_tensor *tensor_table_find(const struct tensor_table *table, const char *name)
{
    const struct tensor_name *found = tensor_table_name(table, name);
    return found ? &table->tensors[found->tensor] : NULL;
}

void tensor_table_free(struct tensor_table *table)
{
    free(table->names);
    free(table->tensors);
    *table = (struct tensor_table){0};
}
