/* The opcodes are documented in Python's pickletools.py. */
#include "weights/pickle.h"

#include <stdlib.h>
#include <string.h>

#define LIMIT_BYTES ((size_t)16 << 20) /* limit for the size of a pickle. With 10 000 tensors, a pickle has 2 MB */
#define MARK UINT32_MAX                /* stands for a mark on the stack */
#define OLDEST_PROTOCOL 2
#define NEWEST_PROTOCOL 5

/* Indices of the first values, each of which exists only once. */
enum { VALUE_NONE, VALUE_FALSE, VALUE_TRUE, N_FIXED };

/* What a pickle may import. */
enum global_use { USE_DICT, USE_TENSOR, USE_PARAMETER, USE_STORAGE };
static const struct {
    const char *module, *name;
    enum global_use use;
    enum weights_dtype dtype; /* only for USE_STORAGE */
} globals[] = {
    {"collections", "OrderedDict", USE_DICT, 0},
    {"torch._utils", "_rebuild_tensor_v2", USE_TENSOR, 0},
    {"torch._utils", "_rebuild_parameter", USE_PARAMETER, 0},
    {"torch", "DoubleStorage", USE_STORAGE, WEIGHTS_F64},
    {"torch", "FloatStorage", USE_STORAGE, WEIGHTS_F32},
    {"torch", "HalfStorage", USE_STORAGE, WEIGHTS_F16},
    {"torch", "BFloat16Storage", USE_STORAGE, WEIGHTS_BF16},
    {"torch", "LongStorage", USE_STORAGE, WEIGHTS_I64},
    {"torch", "IntStorage", USE_STORAGE, WEIGHTS_I32},
    {"torch", "ShortStorage", USE_STORAGE, WEIGHTS_I16},
    {"torch", "CharStorage", USE_STORAGE, WEIGHTS_I8},
    {"torch", "ByteStorage", USE_STORAGE, WEIGHTS_U8},
    {"torch", "BoolStorage", USE_STORAGE, WEIGHTS_BOOL},
};
#define N_GLOBALS (sizeof globals / sizeof *globals)

struct unpickler {
    struct pickle *pickle;
    const char *bytes;
    size_t size, at; /* the next byte to read */
    uint32_t *stack; /* (n_stack): values and marks */
    uint32_t *memo;  /* (n_memo): values that the pickle may use again */
    uint32_t n_stack, n_memo;
    uint32_t stack_room, memo_room, value_room, cell_room;
    bool stopped;
    struct error *error;
};

const char *pickle_kind_name(enum pickle_kind kind)
{
    static const char *const names[] = {"None",    "a bool", "an integer",   "a number",  "a string", "a function",
                                        "a tuple", "a list", "a dictionary", "a storage", "a tensor"};
    _Static_assert(sizeof names / sizeof *names == PICKLE_TENSOR + 1, "the table has a name for each kind");
    return names[kind];
}

/* ---- Memory ---- */

/* Makes room for one more element of an array. Returns the array, perhaps at another place. Returns NULL if memory is
 * lacking. Then the old array is unchanged. */
static void *grow(void *array, uint32_t count, uint32_t *room, size_t size, struct error *error)
{
    if (count < *room)
        return array;
    uint32_t larger = *room ? *room * 2 : 64; /* counts are at most LIMIT_BYTES, so this does not overflow */
    void *grown = realloc(array, larger * size);
    if (grown)
        *room = larger;
    else
        error_set(error, "out of memory for a pickle");
    return grown;
}

static int push(struct unpickler *unpickler, uint32_t value)
{
    uint32_t *stack =
        grow(unpickler->stack, unpickler->n_stack, &unpickler->stack_room, sizeof *stack, unpickler->error);
    if (!stack)
        return -1;
    stack[unpickler->n_stack++] = value;
    unpickler->stack = stack;
    return 0;
}

static int add_value(struct unpickler *unpickler, struct pickle_value value)
{
    struct pickle *pickle = unpickler->pickle;
    struct pickle_value *values =
        grow(pickle->values, pickle->n_values, &unpickler->value_room, sizeof *values, unpickler->error);
    if (!values)
        return -1;
    values[pickle->n_values++] = value;
    pickle->values = values;
    return 0;
}

static int push_new(struct unpickler *unpickler, struct pickle_value value)
{
    return add_value(unpickler, value) == 0 ? push(unpickler, unpickler->pickle->n_values - 1) : -1;
}

/* Appends a cell to a tuple, list or dictionary. */
static int append(struct unpickler *unpickler, uint32_t list, uint32_t key, uint32_t value)
{
    struct pickle *pickle = unpickler->pickle;
    struct pickle_cell *cells =
        grow(pickle->cells, pickle->n_cells, &unpickler->cell_room, sizeof *cells, unpickler->error);
    if (!cells)
        return -1;
    pickle->cells = cells;
    struct pickle_value *owner = &pickle->values[list];
    uint32_t cell = pickle->n_cells++;
    cells[cell] = (struct pickle_cell){.key = key, .value = value};
    if (owner->list.count > 0)
        cells[owner->list.last].next = cell;
    else
        owner->list.first = cell;
    owner->list.last = cell;
    owner->list.count++;
    return 0;
}

/* ---- Reading ---- */

/* Returns the next `count` bytes. NULL if there are fewer. */
static const char *take(struct unpickler *unpickler, size_t count)
{
    if (count > unpickler->size - unpickler->at) {
        error_set(unpickler->error, "the pickle is cut off: expected %zu bytes more after byte %zu", count,
                  unpickler->at);
        return NULL;
    }
    const char *bytes = unpickler->bytes + unpickler->at;
    unpickler->at += count;
    return bytes;
}

/* Reads a number of `count` bytes, at most 8. */
static int take_number(struct unpickler *unpickler, int count, uint64_t *value)
{
    const char *bytes = take(unpickler, (size_t)count);
    *value = 0;
    for (int i = count - 1; bytes && i >= 0; i--)
        *value = *value << 8 | (unsigned char)bytes[i];
    return bytes ? 0 : -1;
}

static struct pickle_value *value_at(const struct unpickler *unpickler, uint32_t index)
{
    return &unpickler->pickle->values[index];
}

/* Removes the top of the stack, which must be a value. */
static int pop(struct unpickler *unpickler, uint32_t *value)
{
    if (unpickler->n_stack == 0 || unpickler->stack[unpickler->n_stack - 1] == MARK)
        return error_set(unpickler->error, "the pickle is damaged: a value is missing before byte %zu", unpickler->at);
    *value = unpickler->stack[--unpickler->n_stack];
    return 0;
}

/* Removes all values down to the last mark, and the mark. They stay in the array, from stack[*first] on. */
static int pop_to_mark(struct unpickler *unpickler, uint32_t *first, uint32_t *count)
{
    uint32_t at = unpickler->n_stack;
    while (at > 0 && unpickler->stack[at - 1] != MARK)
        at--;
    if (at == 0)
        return error_set(unpickler->error, "the pickle is damaged: a mark is missing before byte %zu", unpickler->at);
    *first = at;
    *count = unpickler->n_stack - at;
    unpickler->n_stack = at - 1;
    return 0;
}

/* The top of the stack, which must be of this kind. */
static int top(const struct unpickler *unpickler, enum pickle_kind kind, uint32_t *value)
{
    *value = unpickler->n_stack > 0 ? unpickler->stack[unpickler->n_stack - 1] : MARK;
    if (*value != MARK && value_at(unpickler, *value)->kind == kind)
        return 0;
    return error_set(unpickler->error, "the pickle adds to %s at byte %zu; expected %s",
                     *value == MARK ? "nothing" : pickle_kind_name(value_at(unpickler, *value)->kind), unpickler->at,
                     pickle_kind_name(kind));
}

/* ---- Plain values. Each function runs one opcode, whose byte was already read ---- */

static int read_protocol(struct unpickler *unpickler, uint8_t opcode)
{
    uint64_t version = 0;
    (void)opcode;
    if (take_number(unpickler, 1, &version) != 0)
        return -1;
    if (version >= OLDEST_PROTOCOL && version <= NEWEST_PROTOCOL)
        return 0;
    return error_set(unpickler->error, "the pickle has version %d of the protocol; expected %d to %d", (int)version,
                     OLDEST_PROTOCOL, NEWEST_PROTOCOL);
}

/* A frame is a hint for readers of streams. */
static int read_frame(struct unpickler *unpickler, uint8_t opcode)
{
    (void)opcode;
    return take(unpickler, 8) ? 0 : -1;
}

static int read_constant(struct unpickler *unpickler, uint8_t opcode)
{
    return push(unpickler, opcode == 'N' ? VALUE_NONE : opcode == 0x88 ? VALUE_TRUE : VALUE_FALSE);
}

static int read_integer(struct unpickler *unpickler, uint8_t opcode)
{
    uint64_t value = 0;
    if (take_number(unpickler, opcode == 'K' ? 1 : opcode == 'M' ? 2 : 4, &value) != 0)
        return -1;
    int64_t integer = opcode == 'J' ? (int32_t)(uint32_t)value : (int64_t)value;
    return push_new(unpickler, (struct pickle_value){.kind = PICKLE_INTEGER, .integer = integer});
}

/* An integer of any length, in two's complement. */
static int read_long(struct unpickler *unpickler, uint8_t opcode)
{
    uint64_t length;
    if (take_number(unpickler, opcode == 0x8a ? 1 : 4, &length) != 0)
        return -1;
    const char *bytes = take(unpickler, (size_t)length);
    if (!bytes)
        return -1;
    if (length > 8)
        return push_new(unpickler, (struct pickle_value){.kind = PICKLE_NUMBER});
    /* little-endian, and the sign is in the highest bit of the last byte */
    uint64_t value = length > 0 && (bytes[length - 1] & 0x80) ? UINT64_MAX : 0;
    for (int i = (int)length - 1; i >= 0; i--)
        value = value << 8 | (unsigned char)bytes[i];
    return push_new(unpickler, (struct pickle_value){.kind = PICKLE_INTEGER, .integer = (int64_t)value});
}

static int read_float(struct unpickler *unpickler, uint8_t opcode)
{
    (void)opcode;
    return take(unpickler, 8) ? push_new(unpickler, (struct pickle_value){.kind = PICKLE_NUMBER}) : -1;
}

static int read_string(struct unpickler *unpickler, uint8_t opcode)
{
    uint64_t length = 0;
    if (take_number(unpickler, opcode == 0x8c ? 1 : opcode == 'X' ? 4 : 8, &length) != 0)
        return -1;
    size_t begin = unpickler->at;
    if (!take(unpickler, (size_t)length))
        return -1;
    return push_new(unpickler, (struct pickle_value){.kind = PICKLE_STRING,
                                                     .text = {.begin = (uint32_t)begin, .length = (uint32_t)length}});
}

/* ---- Tuples, lists and dictionaries ---- */

static int read_mark(struct unpickler *unpickler, uint8_t opcode)
{
    (void)opcode;
    return push(unpickler, MARK);
}

static int read_empty(struct unpickler *unpickler, uint8_t opcode)
{
    enum pickle_kind kind = opcode == '}' ? PICKLE_DICT : opcode == ']' ? PICKLE_LIST : PICKLE_TUPLE;
    return push_new(unpickler, (struct pickle_value){.kind = kind});
}

/* Makes a tuple of `count` values that were removed from the stack, from stack[first] on. */
static int make_tuple(struct unpickler *unpickler, uint32_t first, uint32_t count)
{
    if (add_value(unpickler, (struct pickle_value){.kind = PICKLE_TUPLE}) != 0)
        return -1;
    uint32_t tuple = unpickler->pickle->n_values - 1;
    for (uint32_t i = 0; i < count; i++)
        if (append(unpickler, tuple, VALUE_NONE, unpickler->stack[first + i]) != 0)
            return -1;
    return push(unpickler, tuple);
}

static int read_tuple(struct unpickler *unpickler, uint8_t opcode)
{
    (void)opcode;
    uint32_t first = 0, count = 0;
    return pop_to_mark(unpickler, &first, &count) == 0 ? make_tuple(unpickler, first, count) : -1;
}

static int read_short_tuple(struct unpickler *unpickler, uint8_t opcode)
{
    uint32_t count = opcode - 0x85U + 1, ignored;
    for (uint32_t i = 0; i < count; i++)
        if (pop(unpickler, &ignored) != 0)
            return -1;
    return make_tuple(unpickler, unpickler->n_stack, count);
}

static int read_append(struct unpickler *unpickler, uint8_t opcode)
{
    uint32_t value = 0, list = 0;
    (void)opcode;
    if (pop(unpickler, &value) != 0 || top(unpickler, PICKLE_LIST, &list) != 0)
        return -1;
    return append(unpickler, list, VALUE_NONE, value);
}

static int read_appends(struct unpickler *unpickler, uint8_t opcode)
{
    uint32_t first = 0, count = 0, list = 0;
    (void)opcode;
    if (pop_to_mark(unpickler, &first, &count) != 0 || top(unpickler, PICKLE_LIST, &list) != 0)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        if (append(unpickler, list, VALUE_NONE, unpickler->stack[first + i]) != 0)
            return -1;
    return 0;
}

static int read_item(struct unpickler *unpickler, uint8_t opcode)
{
    uint32_t key = 0, value = 0, dictionary = 0;
    (void)opcode;
    if (pop(unpickler, &value) != 0 || pop(unpickler, &key) != 0 || top(unpickler, PICKLE_DICT, &dictionary) != 0)
        return -1;
    return append(unpickler, dictionary, key, value);
}

static int read_items(struct unpickler *unpickler, uint8_t opcode)
{
    uint32_t first = 0, count = 0, dictionary = 0;
    (void)opcode;
    if (pop_to_mark(unpickler, &first, &count) != 0 || top(unpickler, PICKLE_DICT, &dictionary) != 0)
        return -1;
    if (count % 2 != 0)
        return error_set(unpickler->error, "the pickle is damaged: a key has no value before byte %zu", unpickler->at);
    for (uint32_t i = 0; i < count; i += 2)
        if (append(unpickler, dictionary, unpickler->stack[first + i], unpickler->stack[first + i + 1]) != 0)
            return -1;
    return 0;
}

/* ---- The memo ---- */

/* Python numbers the values of the memo from 0 on. */
static int remember(struct unpickler *unpickler, uint64_t index)
{
    if (unpickler->n_stack == 0 || unpickler->stack[unpickler->n_stack - 1] == MARK || index > unpickler->n_memo)
        return error_set(unpickler->error,
                         "the pickle is damaged: it cannot store a value as memo entry %llu at byte %zu",
                         (unsigned long long)index, unpickler->at);
    uint32_t *memo = grow(unpickler->memo, unpickler->n_memo, &unpickler->memo_room, sizeof *memo, unpickler->error);
    if (!memo)
        return -1;
    unpickler->memo = memo;
    memo[index] = unpickler->stack[unpickler->n_stack - 1];
    unpickler->n_memo += index == unpickler->n_memo;
    return 0;
}

static int read_put(struct unpickler *unpickler, uint8_t opcode)
{
    uint64_t index = unpickler->n_memo;
    if (opcode != 0x94 && take_number(unpickler, opcode == 'q' ? 1 : 4, &index) != 0)
        return -1;
    return remember(unpickler, index);
}

static int read_get(struct unpickler *unpickler, uint8_t opcode)
{
    uint64_t index = 0;
    if (take_number(unpickler, opcode == 'h' ? 1 : 4, &index) != 0)
        return -1;
    if (index >= unpickler->n_memo)
        return error_set(unpickler->error,
                         "the pickle is damaged: it reads memo entry %llu at byte %zu, but the memo has %u entries",
                         (unsigned long long)index, unpickler->at, (unsigned)unpickler->n_memo);
    return push(unpickler, unpickler->memo[index]);
}

/* ---- Imports ---- */

static bool equals(const char *text, const char *bytes, size_t length)
{
    return strlen(text) == length && memcmp(text, bytes, length) == 0;
}

static int refuse_call(struct unpickler *unpickler, const char *module, size_t module_length, const char *name,
                       size_t name_length)
{
    return error_set(unpickler->error,
                     "the file uses %.*s.%.*s, which is not supported in a file of weights; save the weights alone: "
                     "torch.save(model.state_dict(), \"model.pt\")",
                     (int)(module_length < 120 ? module_length : 120), module,
                     (int)(name_length < 120 ? name_length : 120), name);
}

static int import(struct unpickler *unpickler, const char *module, size_t module_length, const char *name,
                  size_t name_length)
{
    for (size_t i = 0; i < N_GLOBALS; i++)
        if (equals(globals[i].module, module, module_length) && equals(globals[i].name, name, name_length))
            return push_new(unpickler, (struct pickle_value){.kind = PICKLE_GLOBAL, .integer = (int64_t)i});
    return refuse_call(unpickler, module, module_length, name, name_length);
}

/* Reads a line without its line feed. NULL if there is none. */
static const char *take_line(struct unpickler *unpickler, size_t *length)
{
    const char *begin = unpickler->bytes + unpickler->at;
    const char *end = memchr(begin, '\n', unpickler->size - unpickler->at);
    if (!end) {
        error_set(unpickler->error, "the pickle is cut off within a name at byte %zu", unpickler->at);
        return NULL;
    }
    *length = (size_t)(end - begin);
    unpickler->at += *length + 1;
    return begin;
}

/* Runs the opcode GLOBAL. Refuses the opcode INST, which occurs only in old pickles and calls a class at once. */
static int read_global(struct unpickler *unpickler, uint8_t opcode)
{
    size_t module_length = 0, name_length = 0;
    const char *module = take_line(unpickler, &module_length);
    const char *name = module ? take_line(unpickler, &name_length) : NULL;
    if (!name)
        return -1;
    if (opcode == 'i')
        return refuse_call(unpickler, module, module_length, name, name_length);
    return import(unpickler, module, module_length, name, name_length);
}

static int read_stack_global(struct unpickler *unpickler, uint8_t opcode)
{
    uint32_t name = 0, module = 0;
    (void)opcode;
    if (pop(unpickler, &name) != 0 || pop(unpickler, &module) != 0)
        return -1;
    const struct pickle_value *first = value_at(unpickler, module), *second = value_at(unpickler, name);
    if (first->kind != PICKLE_STRING || second->kind != PICKLE_STRING)
        return error_set(unpickler->error, "the pickle is damaged: it imports %s from %s; expected two strings",
                         pickle_kind_name(second->kind), pickle_kind_name(first->kind));
    return import(unpickler, unpickler->bytes + first->text.begin, first->text.length,
                  unpickler->bytes + second->text.begin, second->text.length);
}

/* ---- Calls ---- */

#define MAX_ARGUMENTS 8

/* Writes the arguments of a call, and checks their number. */
static int take_arguments(struct unpickler *unpickler, uint32_t tuple, const char *name, uint32_t least, uint32_t most,
                          uint32_t arguments[MAX_ARGUMENTS])
{
    const struct pickle_value *value = value_at(unpickler, tuple);
    if (value->kind != PICKLE_TUPLE)
        return error_set(unpickler->error, "the file calls %s with %s; expected a tuple of arguments", name,
                         pickle_kind_name(value->kind));
    if (value->list.count < least || value->list.count > most)
        return error_set(unpickler->error,
                         least == most ? "the file calls %s with %u arguments; expected %u"
                                       : "the file calls %s with %u arguments; expected %u to %u",
                         name, (unsigned)value->list.count, (unsigned)least, (unsigned)most);
    uint32_t count = 0;
    for (uint32_t cell = value->list.first; cell != 0; cell = unpickler->pickle->cells[cell].next)
        arguments[count++] = unpickler->pickle->cells[cell].value;
    return 0;
}

static int check_kind(struct unpickler *unpickler, const char *name, const uint32_t *arguments, unsigned index,
                      enum pickle_kind kind)
{
    enum pickle_kind found = value_at(unpickler, arguments[index])->kind;
    return found == kind ? 0
                         : error_set(unpickler->error, "the file calls %s: argument %u is %s; expected %s", name,
                                     index + 1, pickle_kind_name(found), pickle_kind_name(kind));
}

/* Fails if hooks or metadata are present, because they change a tensor in ways that are not supported. For example,
 * metadata mark a conjugate. */
static int check_empty(struct unpickler *unpickler, const char *name, uint32_t value)
{
    const struct pickle_value *found = value_at(unpickler, value);
    bool empty = found->kind == PICKLE_NONE || (found->kind == PICKLE_DICT && found->list.count == 0);
    return empty ? 0 : error_set(unpickler->error, "the file calls %s with hooks or metadata; expected none", name);
}

/* (storage, offset, shape, strides, requires_grad, hooks) or the same and metadata */
static int call_tensor(struct unpickler *unpickler, uint32_t tuple)
{
    static const char name[] = "torch._utils._rebuild_tensor_v2";
    uint32_t arguments[MAX_ARGUMENTS] = {0}; /* a missing argument is VALUE_NONE */
    if (take_arguments(unpickler, tuple, name, 6, 7, arguments) != 0 ||
        check_kind(unpickler, name, arguments, 0, PICKLE_STORAGE) != 0 ||
        check_kind(unpickler, name, arguments, 1, PICKLE_INTEGER) != 0 ||
        check_kind(unpickler, name, arguments, 2, PICKLE_TUPLE) != 0 ||
        check_kind(unpickler, name, arguments, 3, PICKLE_TUPLE) != 0 ||
        check_empty(unpickler, name, arguments[5]) != 0 || check_empty(unpickler, name, arguments[6]) != 0)
        return -1;
    return push_new(unpickler, (struct pickle_value){.kind = PICKLE_TENSOR,
                                                     .tensor = {.storage = arguments[0],
                                                                .offset = arguments[1],
                                                                .shape = arguments[2],
                                                                .strides = arguments[3]}});
}

/* (tensor, requires_grad, hooks). A parameter is its tensor. */
static int call_parameter(struct unpickler *unpickler, uint32_t tuple)
{
    static const char name[] = "torch._utils._rebuild_parameter";
    uint32_t arguments[MAX_ARGUMENTS] = {0};
    if (take_arguments(unpickler, tuple, name, 3, 3, arguments) != 0 ||
        check_kind(unpickler, name, arguments, 0, PICKLE_TENSOR) != 0 ||
        check_empty(unpickler, name, arguments[2]) != 0)
        return -1;
    return push(unpickler, arguments[0]);
}

static int call_dict(struct unpickler *unpickler, uint32_t tuple)
{
    uint32_t arguments[MAX_ARGUMENTS] = {0};
    if (take_arguments(unpickler, tuple, "collections.OrderedDict", 0, 0, arguments) != 0)
        return -1;
    return push_new(unpickler, (struct pickle_value){.kind = PICKLE_DICT});
}

static int read_reduce(struct unpickler *unpickler, uint8_t opcode)
{
    uint32_t tuple = 0, function = 0;
    (void)opcode;
    if (pop(unpickler, &tuple) != 0 || pop(unpickler, &function) != 0)
        return -1;
    if (value_at(unpickler, function)->kind != PICKLE_GLOBAL)
        return error_set(unpickler->error, "the file calls %s; expected a function",
                         pickle_kind_name(value_at(unpickler, function)->kind));
    size_t global = (size_t)value_at(unpickler, function)->integer;
    switch (globals[global].use) {
    case USE_DICT:
        return call_dict(unpickler, tuple);
    case USE_TENSOR:
        return call_tensor(unpickler, tuple);
    case USE_PARAMETER:
        return call_parameter(unpickler, tuple);
    case USE_STORAGE:
        break;
    }
    return refuse_call(unpickler, globals[global].module, strlen(globals[global].module), globals[global].name,
                       strlen(globals[global].name));
}

/* Sets attributes of an object. state_dict() sets `_metadata` of its OrderedDict, which is ignored. */
static int read_build(struct unpickler *unpickler, uint8_t opcode)
{
    uint32_t state = 0, object = 0;
    (void)opcode;
    if (pop(unpickler, &state) != 0)
        return -1;
    if (value_at(unpickler, state)->kind != PICKLE_DICT)
        return error_set(unpickler->error, "the state of an object is %s; expected a dictionary",
                         pickle_kind_name(value_at(unpickler, state)->kind));
    return top(unpickler, PICKLE_DICT, &object);
}

/* ("storage", class, key, device, elements): data in another entry of the archive */
static int read_persistent(struct unpickler *unpickler, uint8_t opcode)
{
    static const char name[] = "persistent_load";
    uint32_t tuple = 0, arguments[MAX_ARGUMENTS] = {0};
    (void)opcode;
    if (pop(unpickler, &tuple) != 0 || take_arguments(unpickler, tuple, name, 5, 5, arguments) != 0 ||
        check_kind(unpickler, name, arguments, 0, PICKLE_STRING) != 0 ||
        check_kind(unpickler, name, arguments, 1, PICKLE_GLOBAL) != 0 ||
        check_kind(unpickler, name, arguments, 2, PICKLE_STRING) != 0 ||
        check_kind(unpickler, name, arguments, 3, PICKLE_STRING) != 0 ||
        check_kind(unpickler, name, arguments, 4, PICKLE_INTEGER) != 0)
        return -1;
    const struct pickle_value *tag = value_at(unpickler, arguments[0]);
    size_t global = (size_t)value_at(unpickler, arguments[1])->integer;
    if (!equals("storage", unpickler->bytes + tag->text.begin, tag->text.length) || globals[global].use != USE_STORAGE)
        return error_set(unpickler->error, "the file contains a persistent id that is not a storage");
    return push_new(unpickler,
                    (struct pickle_value){.kind = PICKLE_STORAGE,
                                          .storage = {.key = arguments[2],
                                                      .dtype = globals[global].dtype,
                                                      .elements = value_at(unpickler, arguments[4])->integer}});
}

static int read_stop(struct unpickler *unpickler, uint8_t opcode)
{
    (void)opcode;
    unpickler->stopped = true;
    return pop(unpickler, &unpickler->pickle->root);
}

/* ---- The machine ---- */

static int (*const opcodes[256])(struct unpickler *unpickler, uint8_t opcode) = {
    [0x80] = read_protocol,    [0x95] = read_frame,        ['N'] = read_constant, [0x88] = read_constant,
    [0x89] = read_constant,    ['K'] = read_integer,       ['M'] = read_integer,  ['J'] = read_integer,
    [0x8a] = read_long,        [0x8b] = read_long,         ['G'] = read_float,    ['X'] = read_string,
    [0x8c] = read_string,      [0x8d] = read_string,       ['('] = read_mark,     ['}'] = read_empty,
    [']'] = read_empty,        [')'] = read_empty,         ['t'] = read_tuple,    [0x85] = read_short_tuple,
    [0x86] = read_short_tuple, [0x87] = read_short_tuple,  ['a'] = read_append,   ['e'] = read_appends,
    ['s'] = read_item,         ['u'] = read_items,         ['q'] = read_put,      ['r'] = read_put,
    [0x94] = read_put,         ['h'] = read_get,           ['j'] = read_get,      ['c'] = read_global,
    ['i'] = read_global,       [0x93] = read_stack_global, ['R'] = read_reduce,   ['b'] = read_build,
    ['Q'] = read_persistent,   ['.'] = read_stop,
};

static int run(struct unpickler *unpickler)
{
    while (!unpickler->stopped) {
        const char *byte = take(unpickler, 1);
        if (!byte)
            return -1;
        uint8_t opcode = (uint8_t)*byte;
        if (!opcodes[opcode])
            return error_set(
                unpickler->error,
                "the pickle contains the opcode 0x%02x at byte %zu, which no state_dict needs; save the weights "
                "alone: torch.save(model.state_dict(), \"model.pt\")",
                opcode, unpickler->at - 1);
        if (opcodes[opcode](unpickler, opcode) != 0)
            return -1;
    }
    return 0;
}

int pickle_read(const char *bytes, size_t size, struct pickle *pickle, struct error *error)
{
    struct unpickler unpickler = {.pickle = pickle, .bytes = bytes, .size = size, .error = error};
    *pickle = (struct pickle){.bytes = bytes, .n_cells = 0};
    if (size > LIMIT_BYTES)
        return error_set(error, "the pickle has %zu bytes, expected at most %zu", size, LIMIT_BYTES);
    pickle->cells = grow(NULL, 0, &unpickler.cell_room, sizeof *pickle->cells, error);
    pickle->n_cells = 1;
    int status = pickle->cells ? 0 : -1;
    for (uint32_t i = 0; i < N_FIXED && status == 0; i++)
        status = add_value(&unpickler, (struct pickle_value){.kind = i == VALUE_NONE ? PICKLE_NONE : PICKLE_BOOL,
                                                             .integer = i == VALUE_TRUE});
    if (status == 0)
        status = run(&unpickler);
    free(unpickler.stack);
    free(unpickler.memo);
    if (status != 0)
        pickle_free(pickle);
    return status;
}

void pickle_free(struct pickle *pickle)
{
    free(pickle->values);
    free(pickle->cells);
    *pickle = (struct pickle){0};
}
