#include "weights/torch_archive.h"

#include "weights/pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN "%.120s" /* names come from the file */
#define SAVE_ALONE "; save the weights alone: torch.save(model.state_dict(), \"model.pt\")"
#define PICKLE_NAME "data.pkl"
#define MAX_TIMES 4 /* limit for the bytes of all tensors, as a multiple of the file's bytes */

/* The data of one entry of the zip archive. */
struct storage {
    const struct zip_entry *entry;
    char *bytes;  /* NULL if it was not read */
    bool is_used; /* tensors point into it */
};

/* Where the elements of a tensor are. */
struct tensor_view {
    size_t storage; /* index in `storages` */
    enum weights_dtype dtype;
    int rank;
    int64_t offset; /* in elements */
    int64_t shape[WEIGHTS_MAX_RANK], strides[WEIGHTS_MAX_RANK];
    int64_t elements;
    bool is_contiguous;
};

/* A name of the state_dict, with its view. */
struct named_view {
    char *name;
    size_t order; /* position of the name in the state_dict */
    size_t tensor;
    struct tensor_view view;
};

struct torch_archive {
    struct zip_archive zip;
    struct storage *storages; /* (n_storages): one for each entry of the zip archive */
    size_t n_storages;
    struct named_view *named; /* (n_named) */
    size_t n_named;
    struct tensor_view *views; /* (table.n_tensors) */
    char **copies;             /* (table.n_tensors): NULL for a contiguous tensor */
    struct tensor_table table;
};

/* ---- The entries ---- */

/* Reads the data of an entry, `length` bytes from its start. */
static int read_entry(const struct zip_source *source, const struct zip_entry *entry, void *bytes, size_t length,
                      struct error *error)
{
    if (entry->is_compressed)
        return error_set(error, "entry '" SHOWN "' of the zip archive is compressed; torch.save does not compress",
                         entry->name);
    return zip_source_read(source, entry->offset, bytes, length, error);
}

/* Whether torch.jit.save wrote the archive. Such an archive also has a data.pkl. */
static bool is_script(const struct zip_archive *zip)
{
    for (size_t i = 0; i < zip->n_entries; i++) {
        const char *slash = strchr(zip->entries[i].name, '/');
        if (slash && strcmp(slash, "/constants.pkl") == 0)
            return true;
    }
    return false;
}

/* Finds the entry NAME/data.pkl, where NAME has no slash. */
static const struct zip_entry *find_pickle(const struct zip_archive *zip, int *prefix_length)
{
    for (size_t i = 0; i < zip->n_entries; i++) {
        const char *slash = strchr(zip->entries[i].name, '/');
        if (slash && strcmp(slash + 1, PICKLE_NAME) == 0) {
            *prefix_length = (int)(slash + 1 - zip->entries[i].name);
            return &zip->entries[i];
        }
    }
    return NULL;
}

/* Finds the entry `name` behind the prefix of the archive. *entry becomes NULL if there is none. Returns -1 if memory
 * is lacking. */
static int find_entry(const struct zip_archive *zip, const struct zip_entry *pickle, int prefix, const char *name,
                      const struct zip_entry **entry, struct error *error)
{
    size_t length = (size_t)prefix + strlen(name) + 1;
    char *full = malloc(length);
    if (!full)
        return error_set(error, "out of memory");
    snprintf(full, length, "%.*s%s", prefix, pickle->name, name);
    *entry = zip_archive_find(zip, full);
    free(full);
    return 0;
}

/* Old versions of PyTorch wrote no entry `byteorder`, and only little-endian files. */
static int check_byte_order(const struct zip_source *source, const struct zip_entry *entry, struct error *error)
{
    static const char little[] = "little";
    char found[16] = "";
    if (!entry)
        return 0;
    size_t length = entry->size < sizeof found - 1 ? entry->size : sizeof found - 1;
    if (read_entry(source, entry, found, length, error) != 0)
        return -1;
    return strcmp(found, little) == 0
               ? 0
               : error_set(error, "has the byte order \"%s\", expected \"little\"; save it on a little-endian machine",
                           found);
}

/* ---- One tensor ---- */

/* Reads a tuple of integers that are not negative. */
static int read_sizes(const struct pickle *pickle, uint32_t tuple, const char *what, int *rank,
                      int64_t sizes[WEIGHTS_MAX_RANK], struct error *error)
{
    const struct pickle_value *list = &pickle->values[tuple];
    if (list->list.count > WEIGHTS_MAX_RANK)
        return error_set(error, "%s has %u dimensions, expected at most %d", what, (unsigned)list->list.count,
                         WEIGHTS_MAX_RANK);
    *rank = 0;
    for (uint32_t cell = list->list.first; cell != 0; cell = pickle->cells[cell].next) {
        const struct pickle_value *size = &pickle->values[pickle->cells[cell].value];
        if (size->kind != PICKLE_INTEGER)
            return error_set(error, "dimension %d of %s is %s, expected an integer", *rank, what,
                             pickle_kind_name(size->kind));
        if (size->integer < 0)
            return error_set(error, "dimension %d of %s is negative: %lld", *rank, what, (long long)size->integer);
        sizes[(*rank)++] = size->integer;
    }
    return 0;
}

/* Finds the storage of a tensor, which must have as many bytes as the pickle says. */
static int find_storage(const struct torch_archive *archive, const struct zip_entry *data, int prefix,
                        const struct pickle *pickle, const struct pickle_value *storage, struct tensor_view *view,
                        struct error *error)
{
    const struct pickle_value *key = &pickle->values[storage->storage.key];
    char name[128];
    int64_t bytes;
    snprintf(name, sizeof name, "data/%.*s", (int)(key->text.length < 100 ? key->text.length : 100),
             pickle->bytes + key->text.begin);
    const struct zip_entry *entry = NULL;
    if (find_entry(&archive->zip, data, prefix, name, &entry, error) != 0)
        return -1;
    if (!entry)
        return error_set(error, "its storage '%s' is missing in the archive", name);
    if (entry->is_compressed)
        return error_set(error, "its storage '%s' is compressed; torch.save does not compress", name);
    view->dtype = storage->storage.dtype;
    if (storage->storage.elements < 0 ||
        __builtin_mul_overflow(storage->storage.elements, (int64_t)weights_dtype_size(view->dtype), &bytes) ||
        (uint64_t)bytes != entry->size)
        return error_set(error, "its storage '%s' has %zu bytes; expected %lld elements of %s", name, entry->size,
                         (long long)storage->storage.elements, weights_dtype_name(view->dtype));
    view->storage = (size_t)(entry - archive->zip.entries);
    return 0;
}

/* Checks that all elements are in the storage. Sets `elements`. */
static int check_extent(struct tensor_view *view, int64_t storage_elements, struct error *error)
{
    char text[192], strides[192];
    int64_t last = view->offset, step, bytes;
    view->elements = 1;
    for (int i = 0; i < view->rank; i++)
        if (__builtin_mul_overflow(view->elements, view->shape[i], &view->elements))
            return error_set(error, "shape %s has too many elements to count",
                             weights_shape_text(view->rank, view->shape, text, sizeof text));
    if (__builtin_mul_overflow(view->elements, (int64_t)weights_dtype_size(view->dtype), &bytes))
        return error_set(error, "shape %s has too many bytes to count",
                         weights_shape_text(view->rank, view->shape, text, sizeof text));
    if (view->offset < 0 || view->offset > storage_elements)
        return error_set(error, "it begins at element %lld of its storage, which has %lld elements",
                         (long long)view->offset, (long long)storage_elements);
    bool fits = true;
    for (int i = 0; view->elements > 0 && i < view->rank && fits; i++)
        fits = !__builtin_mul_overflow(view->shape[i] - 1, view->strides[i], &step) &&
               !__builtin_add_overflow(last, step, &last) && last < storage_elements;
    if (view->elements > 0 && (!fits || last >= storage_elements))
        return error_set(
            error, "its elements extend beyond its storage of %lld elements: shape %s, strides %s, offset %lld",
            (long long)storage_elements, weights_shape_text(view->rank, view->shape, text, sizeof text),
            weights_shape_text(view->rank, view->strides, strides, sizeof strides), (long long)view->offset);
    return 0;
}

/* Whether the elements follow each other in the order of the tensor. */
static bool is_contiguous(const struct tensor_view *view)
{
    int64_t step = 1;
    for (int i = view->rank; view->elements > 0 && i-- > 0;) {
        if (view->shape[i] != 1 && view->strides[i] != step)
            return false;
        step *= view->shape[i]; /* at most `elements` */
    }
    return true;
}

static int read_view(const struct torch_archive *archive, const struct zip_entry *data, int prefix,
                     const struct pickle *pickle, const struct pickle_value *tensor, struct tensor_view *view,
                     struct error *error)
{
    const struct pickle_value *storage = &pickle->values[tensor->tensor.storage];
    int strides;
    *view = (struct tensor_view){.offset = pickle->values[tensor->tensor.offset].integer};
    if (read_sizes(pickle, tensor->tensor.shape, "shape", &view->rank, view->shape, error) != 0 ||
        read_sizes(pickle, tensor->tensor.strides, "list of strides", &strides, view->strides, error) != 0)
        return -1;
    if (strides != view->rank)
        return error_set(error, "it has %d sizes, but %d strides", view->rank, strides);
    for (int i = 0; i < view->rank; i++)
        if (view->shape[i] == 1)
            view->strides[i] = 0; /* the stride has no effect, and may be any number */
    if (find_storage(archive, data, prefix, pickle, storage, view, error) != 0 ||
        check_extent(view, storage->storage.elements, error) != 0)
        return -1;
    view->is_contiguous = is_contiguous(view);
    return 0;
}

/* ---- The state_dict ---- */

/* Whether the value is a dictionary of strings and tensors, with at least one item. Adds the number of items that were
 * examined to *looked. */
static bool is_state(const struct pickle *pickle, const struct pickle_value *value, uint64_t *looked)
{
    if (value->kind != PICKLE_DICT || value->list.count == 0)
        return false;
    for (uint32_t cell = value->list.first; cell != 0; cell = pickle->cells[cell].next, ++*looked)
        if (pickle->values[pickle->cells[cell].key].kind != PICKLE_STRING ||
            pickle->values[pickle->cells[cell].value].kind != PICKLE_TENSOR)
            return false;
    return true;
}

/* Writes a key for a message. Returns `text`. */
static const char *key_text(const struct pickle *pickle, uint32_t key, char text[64])
{
    const struct pickle_value *value = &pickle->values[key];
    if (value->kind == PICKLE_STRING)
        snprintf(text, 64, "\"%.*s\"", (int)(value->text.length < 50 ? value->text.length : 50),
                 pickle->bytes + value->text.begin);
    else if (value->kind == PICKLE_INTEGER)
        snprintf(text, 64, "%lld", (long long)value->integer);
    else
        snprintf(text, 64, "%s", pickle_kind_name(value->kind));
    return text;
}

static bool is_wrapper(const struct pickle *pickle, uint32_t key)
{
    static const char *const keys[] = {"state_dict", "model", "model_state_dict"};
    const struct pickle_value *value = &pickle->values[key];
    for (size_t i = 0; value->kind == PICKLE_STRING && i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i]) == value->text.length &&
            memcmp(keys[i], pickle->bytes + value->text.begin, value->text.length) == 0)
            return true;
    return false;
}

/* Says why `root` is no state_dict. If it is a dictionary, describes the first item that is not a name with a tensor.
 */
static int refuse_root(const struct pickle *pickle, const struct pickle_value *root, struct error *error)
{
    char text[64];
    if (root->kind != PICKLE_DICT)
        return error_set(error, "contains %s, expected a dictionary of names and tensors" SAVE_ALONE,
                         pickle_kind_name(root->kind));
    for (uint32_t cell = root->list.first; cell != 0; cell = pickle->cells[cell].next) {
        enum pickle_kind kind = pickle->values[pickle->cells[cell].value].kind;
        if (kind != PICKLE_TENSOR)
            return error_set(error, "has %s under %s, expected a tensor" SAVE_ALONE, pickle_kind_name(kind),
                             key_text(pickle, pickle->cells[cell].key, text));
        if (pickle->values[pickle->cells[cell].key].kind != PICKLE_STRING)
            return error_set(error, "has a tensor under %s, expected a name" SAVE_ALONE,
                             key_text(pickle, pickle->cells[cell].key, text));
    }
    return error_set(error, "contains no tensor" SAVE_ALONE);
}

/* Finds the state_dict: the whole pickle, or the value under a key of TORCH_ARCHIVE_WRAPPERS. Fails if several values
 * are state_dicts. */
static const struct pickle_value *find_state(const struct pickle *pickle, struct error *error)
{
    const struct pickle_value *root = &pickle->values[pickle->root];
    uint32_t found = 0;
    uint64_t looked = 0;
    char text[64], other[64];
    if (is_state(pickle, root, &looked))
        return root;
    for (uint32_t cell = root->kind == PICKLE_DICT ? root->list.first : 0; cell != 0; cell = pickle->cells[cell].next) {
        bool is_found = is_state(pickle, &pickle->values[pickle->cells[cell].value], &looked);
        /* No two dictionaries share cells, so here one dictionary must be under several keys. A large dictionary under
         * many keys would take hours. */
        if (looked > pickle->n_cells) {
            error_set(error, "has one dictionary under several keys" SAVE_ALONE);
            return NULL;
        }
        if (!is_found)
            continue;
        if (found != 0) {
            error_set(error, "has several state_dicts, under %s and %s" SAVE_ALONE,
                      key_text(pickle, pickle->cells[found].key, text),
                      key_text(pickle, pickle->cells[cell].key, other));
            return NULL;
        }
        found = cell;
    }
    if (found != 0 && is_wrapper(pickle, pickle->cells[found].key))
        return &pickle->values[pickle->cells[found].value];
    if (found != 0)
        error_set(error, "has its tensors under %s, expected " TORCH_ARCHIVE_WRAPPERS SAVE_ALONE,
                  key_text(pickle, pickle->cells[found].key, text));
    else
        refuse_root(pickle, root, error);
    return NULL;
}

static int read_state(struct torch_archive *archive, const struct zip_entry *data, int prefix,
                      const struct pickle *pickle, struct error *error)
{
    const struct pickle_value *state = find_state(pickle, error);
    if (!state)
        return -1;
    archive->named = calloc(state->list.count, sizeof *archive->named);
    if (!archive->named)
        return error_set(error, "out of memory for %u tensors", (unsigned)state->list.count);
    for (uint32_t cell = state->list.first; cell != 0; cell = pickle->cells[cell].next) {
        const struct pickle_value *name = &pickle->values[pickle->cells[cell].key];
        struct named_view *named = &archive->named[archive->n_named];
        if (memchr(pickle->bytes + name->text.begin, '\0', name->text.length))
            return error_set(error, "the name of tensor %zu contains a zero byte", archive->n_named);
        named->name = strndup(pickle->bytes + name->text.begin, name->text.length);
        named->order = archive->n_named++;
        if (!named->name)
            return error_set(error, "out of memory for names");
        if (read_view(archive, data, prefix, pickle, &pickle->values[pickle->cells[cell].value], &named->view, error) !=
            0)
            return error_prefix(error, "tensor '" SHOWN "'", named->name);
    }
    return 0;
}

/* ---- The table ---- */

static int compare_views(const struct tensor_view *a, const struct tensor_view *b)
{
    if (a->storage != b->storage)
        return a->storage < b->storage ? -1 : 1;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if (a->dtype != b->dtype || a->rank != b->rank)
        return a->dtype != b->dtype ? (int)a->dtype - (int)b->dtype : a->rank - b->rank;
    int order = memcmp(a->shape, b->shape, sizeof a->shape);
    return order != 0 ? order : memcmp(a->strides, b->strides, sizeof a->strides);
}

static int compare_named(const void *left, const void *right)
{
    const struct named_view *a = left, *b = right;
    int order = compare_views(&a->view, &b->view);
    return order != 0 ? order : a->order < b->order ? -1 : a->order > b->order;
}

/* Makes one tensor for each different view. If several names have this view, the tensor gets the name that comes first
 * in the state_dict. */
static int build_tensors(struct torch_archive *archive, size_t file_size, struct error *error)
{
    struct tensor_table *table = &archive->table;
    size_t total = 0;
    qsort(archive->named, archive->n_named, sizeof *archive->named, compare_named);
    for (size_t i = 0; i < archive->n_named; i++) {
        struct named_view *named = &archive->named[i];
        if (i == 0 || compare_views(&named->view, &archive->named[i - 1].view) != 0) {
            struct weights_tensor *tensor = &table->tensors[table->n_tensors];
            *tensor =
                (struct weights_tensor){.name = named->name,
                                        .dtype = named->view.dtype,
                                        .rank = named->view.rank,
                                        .elements = named->view.elements,
                                        .bytes = (size_t)named->view.elements * weights_dtype_size(named->view.dtype)};
            memcpy(tensor->shape, named->view.shape, sizeof tensor->shape);
            archive->views[table->n_tensors++] = named->view;
            if (__builtin_add_overflow(total, tensor->bytes, &total) || total / MAX_TIMES > file_size)
                return error_set(error,
                                 "tensor '" SHOWN "': the tensors together have more than %d times the bytes of the "
                                 "file; save copies of expanded tensors (tensor.clone())",
                                 named->name, MAX_TIMES);
        }
        named->tensor = table->n_tensors - 1;
        table->names[table->n_names++] = (struct tensor_name){named->name, named->tensor};
    }
    tensor_table_sort(table);
    for (size_t i = 1; i < table->n_names; i++)
        if (strcmp(table->names[i - 1].name, table->names[i].name) == 0)
            return error_set(error, "tensor '" SHOWN "' is in the file twice", table->names[i].name);
    return 0;
}

static int build_table(struct torch_archive *archive, size_t file_size, struct error *error)
{
    archive->table.tensors = calloc(archive->n_named, sizeof *archive->table.tensors);
    archive->table.names = calloc(archive->n_named, sizeof *archive->table.names);
    archive->views = calloc(archive->n_named, sizeof *archive->views);
    archive->copies = calloc(archive->n_named, sizeof *archive->copies);
    if (!archive->table.tensors || !archive->table.names || !archive->views || !archive->copies)
        return error_set(error, "out of memory for %zu tensors", archive->n_named);
    return build_tensors(archive, file_size, error);
}

/* ---- Opening ---- */

static int read_pickle(struct torch_archive *archive, const struct zip_source *source, const struct zip_entry *entry,
                       int prefix, struct error *error)
{
    struct pickle pickle;
    char *bytes = malloc(entry->size + 1);
    if (!bytes)
        return error_set(error, "out of memory for a pickle of %zu bytes", entry->size);
    int status = read_entry(source, entry, bytes, entry->size, error);
    if (status == 0)
        status = pickle_read(bytes, entry->size, &pickle, error);
    if (status == 0) {
        status = read_state(archive, entry, prefix, &pickle, error);
        pickle_free(&pickle);
    }
    free(bytes);
    return status;
}

static int open_entries(struct torch_archive *archive, const struct zip_source *source, struct error *error)
{
    int prefix = 0;
    const struct zip_entry *pickle = find_pickle(&archive->zip, &prefix);
    if (is_script(&archive->zip))
        return error_set(error, "is a TorchScript archive" SAVE_ALONE);
    if (!pickle)
        return error_set(error, "is a zip archive without " PICKLE_NAME ", so torch.save did not write it" SAVE_ALONE);
    const struct zip_entry *order = NULL;
    if (find_entry(&archive->zip, pickle, prefix, "byteorder", &order, error) != 0 ||
        check_byte_order(source, order, error) != 0)
        return -1;
    archive->storages = calloc(archive->zip.n_entries, sizeof *archive->storages);
    if (!archive->storages)
        return error_set(error, "out of memory for %zu entries", archive->zip.n_entries);
    archive->n_storages = archive->zip.n_entries;
    for (size_t i = 0; i < archive->n_storages; i++)
        archive->storages[i].entry = &archive->zip.entries[i];
    if (read_pickle(archive, source, pickle, prefix, error) != 0)
        return -1;
    return build_table(archive, source->size, error);
}

int torch_archive_open(const struct zip_source *source, struct torch_archive **opened, struct error *error)
{
    struct torch_archive *archive = calloc(1, sizeof *archive);
    if (!archive)
        return error_set(error, "out of memory");
    if (zip_archive_open(source, &archive->zip, error) != 0 || open_entries(archive, source, error) != 0) {
        torch_archive_close(archive);
        return -1;
    }
    *opened = archive;
    return 0;
}

const struct tensor_table *torch_archive_table(const struct torch_archive *archive)
{
    return &archive->table;
}

void torch_archive_close(struct torch_archive *archive)
{
    if (!archive)
        return;
    for (size_t i = 0; i < archive->n_storages; i++)
        free(archive->storages[i].bytes);
    for (size_t i = 0; archive->copies && i < archive->table.n_tensors; i++)
        free(archive->copies[i]);
    for (size_t i = 0; i < archive->n_named; i++)
        free(archive->named[i].name);
    free(archive->storages);
    free(archive->copies);
    free(archive->named);
    free(archive->views);
    tensor_table_free(&archive->table);
    zip_archive_free(&archive->zip);
    free(archive);
}

/* ---- The data ---- */

static int read_storage(struct storage *storage, const struct zip_source *source, struct error *error)
{
    if (storage->bytes)
        return 0;
    storage->bytes = malloc(storage->entry->size + 1);
    if (!storage->bytes)
        return error_set(error, "out of memory: its data needs %zu bytes", storage->entry->size);
    return read_entry(source, storage->entry, storage->bytes, storage->entry->size, error);
}

/* Copies the elements in the order of the tensor. There is at least one element. */
static void gather(const struct tensor_view *view, const char *storage, char *out)
{
    size_t size = weights_dtype_size(view->dtype);
    int64_t place[WEIGHTS_MAX_RANK] = {0}, at = view->offset;
    for (int64_t i = 0; i < view->elements; i++) {
        memcpy(out + (size_t)i * size, storage + (size_t)at * size, size);
        for (int d = view->rank; d-- > 0;) {
            at += view->strides[d];
            if (++place[d] < view->shape[d])
                break;
            at -= view->strides[d] * view->shape[d];
            place[d] = 0;
        }
    }
}

static int place_tensor(struct torch_archive *archive, size_t index, const struct zip_source *source,
                        struct error *error)
{
    const struct tensor_view *view = &archive->views[index];
    struct weights_tensor *tensor = &archive->table.tensors[index];
    struct storage *storage = &archive->storages[view->storage];
    if (read_storage(storage, source, error) != 0)
        return -1;
    if (view->is_contiguous) {
        storage->is_used = true;
        tensor->data = storage->bytes + (size_t)view->offset * weights_dtype_size(view->dtype);
        return 0;
    }
    archive->copies[index] = malloc(tensor->bytes);
    if (!archive->copies[index])
        return error_set(error, "out of memory: tensor '" SHOWN "' needs %zu bytes", tensor->name, tensor->bytes);
    gather(view, storage->bytes, archive->copies[index]);
    tensor->data = archive->copies[index];
    return 0;
}

int torch_archive_read(struct torch_archive *archive, const struct zip_source *source, struct error *error)
{
    for (size_t i = 0; i < archive->table.n_tensors; i++)
        if (place_tensor(archive, i, source, error) != 0)
            return -1;
    for (size_t i = 0; i < archive->n_storages; i++)
        if (!archive->storages[i].is_used) {
            free(archive->storages[i].bytes);
            archive->storages[i].bytes = NULL;
        }
    return 0;
}
