/* The pickle in a file of torch.save. The reader supports plain Python values and tensors, and calls no function. A
 * pickle is a program for a stack machine, which may ask to import and call any function of Python. The reader refuses
 * every import except those of the table `globals` in pickle.c. The reader supports what torch.save uses of the
 * protocol's versions 2 to 5. Private to weights/. */
#ifndef WEIGHTS_PICKLE_H
#define WEIGHTS_PICKLE_H

#include "config/config.h"
#include "weights/tensor.h"

#include <stddef.h>
#include <stdint.h>

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INTEGER, /* an integer of at most 64 bits. A larger integer is a PICKLE_NUMBER */
    PICKLE_NUMBER,  /* a float or a large integer, whose value is not kept */
    PICKLE_STRING,
    PICKLE_GLOBAL, /* a function or class of the table `globals` */
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT, /* also an OrderedDict */
    PICKLE_STORAGE,
    PICKLE_TENSOR,
};

/* Values refer to each other by their index in pickle.values, and to cells by their index in pickle.cells. */
struct pickle_value {
    enum pickle_kind kind;
    union {
        int64_t integer; /* for PICKLE_GLOBAL, the index in the table `globals` */
        struct {
            uint32_t begin, length; /* place of the string in the bytes of the pickle */
        } text;
        struct {
            uint32_t first, last, count; /* the first and last cell of a tuple, list or dictionary, and their number.
                                            All are 0 if it is empty */
        } list;
        struct {
            uint32_t key; /* a string: the name of the data */
            enum weights_dtype dtype;
            int64_t elements;
        } storage;
        struct {
            uint32_t storage;
            uint32_t offset;         /* an integer: elements from the start of the storage. Not checked */
            uint32_t shape, strides; /* tuples, whose elements are not checked */
        } tensor;
    };
};

/* An element of a tuple or list, or an item of a dictionary. */
struct pickle_cell {
    uint32_t key; /* the key of a dictionary's item. Not used for tuples and lists */
    uint32_t value;
    uint32_t next; /* 0 for the last cell */
};

struct pickle {
    const char *bytes;           /* borrowed */
    struct pickle_value *values; /* (n_values) */
    struct pickle_cell *cells;   /* (n_cells). The first one is not used */
    uint32_t n_values, n_cells;
    uint32_t root; /* the value that the pickle describes */
};

/* Reads `size` bytes, which must outlive the result. Does no I/O. Its memory is at most 80 times `size`, plus 3 KB.
 * Errors do not name the file. After success, the caller must call pickle_free. */
int pickle_read(const char *bytes, size_t size, struct pickle *pickle, struct error *error);
void pickle_free(struct pickle *pickle);

const char *pickle_kind_name(enum pickle_kind kind); /* for messages: "a list" */

#endif
