/* products: products of two tensors, and tensors of constants. */
#include "engine/families/module/tensor.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* ---- Contractions. Every product in this file is a contraction ---- */

/* The dimensions of x (outer…, m, k) and of z (outer…, k, n) in a product (outer…, m, n). Members are indices of
 * dimensions, or -1 if the operand lacks the dimension. Each outer dimension has an index in x and one in z. */
struct contraction {
    int n_outer, x_outer[MODULE_RANK], z_outer[MODULE_RANK];
    int x_m, z_n, x_k, z_k;
};

static struct tensor_dimension dimension_of(const struct module *module, const struct tensor *t, int d)
{
    return d < 0 ? (struct tensor_dimension){.size = module->one, .stride = module->zero} : t->dims[d];
}

static int stride_of(const struct module *module, const struct tensor *t, int d)
{
    return d < 0 ? module->zero : tensor_stride(module, t, d);
}

/* Sets *both to the dimension of the result for dimensions a and b of the operands. Their sizes must be equal, or one
 * size must be 1. */
static bool common(struct module *module, struct tensor_dimension a, struct tensor_dimension b,
                   struct tensor_dimension *both)
{
    bool a_one = a.size == module->one && !a.batched, b_one = b.size == module->one && !b.batched;
    *both = a_one ? b : a;
    if (!a_one && !b_one && (a.size != b.size || a.batched != b.batched || a.inner != b.inner))
        return module_fail(module, "the sizes of the operands do not match"), false;
    return true;
}

/* Computes y (outer…, m, n). */
static struct tensor contract(struct module *module, struct tensor x, struct tensor z, const struct contraction *c,
                              double scale)
{
    struct tensor_dimension dims[MODULE_RANK];
    struct plan_space space = {.x_first = x.first, .z_first = z.first, .y_first = module->zero};
    int rank = c->n_outer;
    if (module_failed(module))
        return x;
    for (int o = 0; o < rank; o++)
        if (!common(module, dimension_of(module, &x, c->x_outer[o]), dimension_of(module, &z, c->z_outer[o]), &dims[o]))
            return x;
    dims[rank] = dimension_of(module, &x, c->x_m);
    dims[rank + 1] = dimension_of(module, &z, c->z_n);
    struct tensor_dimension k = dimension_of(module, &x, c->x_k), other = dimension_of(module, &z, c->z_k);
    if (k.size != other.size || k.batched || other.batched) {
        module_fail(module, "the inner sizes of the operands do not match, or are the batch");
        return x;
    }
    struct tensor y = tensor_new(module, rank + 2, dims);
    for (int o = 0; o < rank; o++)
        space.dimensions[o] = space_dimension(dims[o].size, stride_of(module, &x, c->x_outer[o]),
                                              stride_of(module, &z, c->z_outer[o]), y.dims[o].stride);
    space.dimensions[rank] =
        space_dimension(dims[rank].size, stride_of(module, &x, c->x_m), module->zero, y.dims[rank].stride);
    space.dimensions[rank + 1] =
        space_dimension(dims[rank + 1].size, module->zero, stride_of(module, &z, c->z_n), y.dims[rank + 1].stride);
    space.dimensions[rank + 2] =
        space_dimension(k.size, stride_of(module, &x, c->x_k), stride_of(module, &z, c->z_k), module->zero);
    space.rank = rank + 3;
    struct plan_source source = {.value = z.value, .weight = z.value == PLAN_NONE ? z.weight : PLAN_NONE};
    y.value = plan_multiply(module->builder, x.value, source, (float)scale, plan_add_space(module->builder, &space),
                            tensor_target(module, &y));
    return y;
}

/* Computes x times a matrix of the file by a linear step. */
static bool multiply_by_weight(struct module *module, const struct tensor *x, const struct tensor *z, struct tensor *y)
{
    int64_t in, out;
    if (z->value != PLAN_NONE || z->rank != 2 || x->value == PLAN_NONE ||
        !plan_size_is_constant(module->builder->plan, z->dims[0].size, &in) ||
        !plan_size_is_constant(module->builder->plan, z->dims[1].size, &out) ||
        x->dims[x->rank - 1].size != z->dims[0].size)
        return false;
    const int order[] = {1, 0};
    int weight = tensor_weight(module, tensor_permute(module, *z, order), out, in);
    int value = plan_linear(module->builder, tensor_rows(module, *x, 1, false), weight, PLAN_NONE);
    if (module_failed(module))
        return false;
    *y = tensor_of_rows(module, value, *x, 1, out);
    return true;
}

struct tensor tensor_multiply(struct module *module, struct tensor x, struct tensor z, double scale)
{
    struct tensor y;
    x = tensor_as_floats(module, x);
    z = tensor_as_floats(module, z);
    if (module_failed(module))
        return x;
    if (x.rank < 1 || z.rank < 1) {
        module_fail(module, "a product needs two tensors of at least one dimension");
        return x;
    }
    if (scale == 1 && multiply_by_weight(module, &x, &z, &y))
        return y;
    x = tensor_as_value(module, x);
    bool row = x.rank == 1, column = z.rank == 1;
    if (row)
        x = tensor_unsqueeze(module, x, 0);
    if (column)
        z = tensor_unsqueeze(module, z, 1);
    struct contraction c = {.x_m = x.rank - 2, .x_k = x.rank - 1, .z_k = z.rank - 2, .z_n = z.rank - 1};
    int outer = (x.rank > z.rank ? x.rank : z.rank) - 2;
    if (outer + 3 > PLAN_SPACE_RANK) {
        module_fail(module, "a product of more than %d dimensions is not supported", PLAN_SPACE_RANK - 1);
        return x;
    }
    for (int o = 0; o < outer; o++) {
        c.x_outer[c.n_outer] = o - (outer - (x.rank - 2));
        c.z_outer[c.n_outer++] = o - (outer - (z.rank - 2));
    }
    for (int o = 0; o < outer; o++) {
        c.x_outer[o] = c.x_outer[o] < 0 ? -1 : c.x_outer[o];
        c.z_outer[o] = c.z_outer[o] < 0 ? -1 : c.z_outer[o];
    }
    y = contract(module, x, z, &c, scale);
    if (column && !module_failed(module))
        y = tensor_squeeze(module, y, y.rank - 1);
    if (row && !module_failed(module))
        y = tensor_squeeze(module, y, y.rank - (column ? 1 : 2));
    return y;
}

struct tensor tensor_mapped(struct module *module, struct tensor t, int dim, int matrix, int64_t out)
{
    int order[MODULE_RANK];
    for (int d = 0; d < t.rank; d++)
        order[d] = d == dim ? t.rank - 1 : d == t.rank - 1 ? dim : d;
    t = tensor_permute(module, t, order);
    int value = tensor_rows(module, t, 1, false);
    if (module_failed(module))
        return t;
    value = plan_linear(module->builder, value, matrix, PLAN_NONE);
    return tensor_permute(module, tensor_of_rows(module, value, t, 1, out), order);
}

static void build_matmul(struct node *node, int variant)
{
    struct module *module = node->module;
    struct tensor x = node_tensor(node, "self"), z = node_tensor(node, variant ? "mat2" : "other");
    if (!module_failed(module))
        node_give(node, tensor_multiply(module, x, z, 1));
}

/* beta * self + alpha * (first @ second) */
static void build_added(struct node *node, int variant)
{
    struct module *module = node->module;
    struct tensor added = node_tensor(node, "self"), x = node_tensor(node, variant ? "batch1" : "mat1"),
                  z = node_tensor(node, variant ? "batch2" : "mat2");
    double alpha = node_number(node, "alpha", 1), beta = node_number(node, "beta", 1);
    if (module_failed(module))
        return;
    struct tensor y = tensor_multiply(module, x, z, alpha);
    if (beta != 1)
        added = tensor_activate(module, added,
                                (struct plan_activation){.kind = ACTIVATION_AFFINE, .a = (float)beta, .b = 0});
    node_give(node, tensor_combine(module, FUNCTION_ADD, y, added));
}

/* ---- einsum of one or two tensors ---- */

struct equation {
    char x[MODULE_RANK + 1], z[MODULE_RANK + 1], y[MODULE_RANK + 1];
};

/* Copies letters up to a comma, a minus sign or the end of the text. Returns false if there are too many letters, a
 * letter twice, or other characters. */
static bool read_letters(const char **text, char *letters)
{
    int count = 0;
    for (; **text && **text != ',' && **text != '-'; ++*text) {
        if (**text == ' ')
            continue;
        if (!isalpha((unsigned char)**text) || count == MODULE_RANK || memchr(letters, **text, (size_t)count))
            return false;
        letters[count++] = **text;
    }
    letters[count] = '\0';
    return true;
}

static bool read_equation(struct module *module, const char *text, int operands, struct equation *equation)
{
    bool two = operands == 2;
    const char *all = text;
    *equation = (struct equation){.x = ""};
    bool right = read_letters(&text, equation->x) && (!two || (*text++ == ',' && read_letters(&text, equation->z))) &&
                 strncmp(text, "->", 2) == 0;
    text += right ? 2 : 0;
    if (!right || !read_letters(&text, equation->y) || *text != '\0')
        return module_fail(module,
                           "equation \"%.60s\" is not supported: expected letters, at most %d in an operand and none "
                           "twice, without \"...\", and \"->\"",
                           all, MODULE_RANK),
               false;
    return true;
}

static int place(const char *letters, char letter)
{
    const char *found = letter ? strchr(letters, letter) : NULL;
    return found ? (int)(found - letters) : -1;
}

/* Sums over the letters that are neither in the other operand nor in the result. */
static struct tensor sum_alone(struct module *module, struct tensor t, char *letters, const char *other, const char *y)
{
    for (int d = (int)strlen(letters) - 1; d >= 0 && !module_failed(module); d--)
        if (place(other, letters[d]) < 0 && place(y, letters[d]) < 0) {
            t = tensor_reduced(module, REDUCTION_SUM, t, &d, 1, false, 0);
            memmove(letters + d, letters + d + 1, strlen(letters + d));
        }
    return t;
}

/* Moves the dimensions with the letters `last` to the end, and merges them into one. */
static struct tensor merge_last(struct module *module, struct tensor t, char *letters, const char *last)
{
    int order[MODULE_RANK], sizes[MODULE_RANK], count = 0, kept = 0, merged = module->one;
    char rest[MODULE_RANK + 1];
    for (int d = 0; d < t.rank; d++)
        if (place(last, letters[d]) < 0) {
            sizes[count] = t.dims[d].batched ? module_product(module, module->batch, t.dims[d].size) : t.dims[d].size;
            rest[count] = letters[d];
            order[count++] = d;
        }
    kept = count;
    for (const char *l = last; *l; l++) {
        int d = place(letters, *l);
        if (t.dims[d].batched)
            module_fail(module, "an equation that sums over the batch is not supported");
        merged = module_product(module, merged, t.dims[d].size);
        order[count++] = d;
    }
    if (module_failed(module))
        return t;
    sizes[kept] = merged;
    rest[kept] = '*';
    rest[kept + 1] = '\0';
    strcpy(letters, rest);
    return tensor_reshape(module, tensor_permute(module, t, order), kept + 1, sizes);
}

/* Writes to `summed` the letters that are in both operands, but not in the result. */
static void summed_letters(const struct equation *e, char *summed)
{
    int count = 0;
    for (const char *l = e->x; *l; l++)
        if (place(e->z, *l) >= 0 && place(e->y, *l) < 0)
            summed[count++] = *l;
    summed[count] = '\0';
}

/* "abc->ca": sums over the letters that the result lacks, then permutes. */
static void build_einsum_of_one(struct node *node, const char *text)
{
    struct module *module = node->module;
    struct tensor x = node_list_tensor(node, "tensors", 0);
    const char *arrow = strstr(text, "->"), *result = arrow ? arrow + 2 : text;
    int summed[MODULE_RANK], order[MODULE_RANK], n_summed = 0, kept = 0;
    if (module_failed(module))
        return;
    bool served = arrow && arrow - text == x.rank && strlen(result) <= (size_t)x.rank;
    for (int d = 0; served && d < x.rank; d++)
        served = memchr(text + d + 1, text[d], (size_t)(x.rank - d - 1)) == NULL;
    for (const char *letter = result; served && *letter != '\0'; letter++)
        served = memchr(text, *letter, (size_t)x.rank) && !strchr(letter + 1, *letter);
    if (!served) {
        module_fail(
            module,
            "equation \"%.60s\" is not supported: expected \"->\", a letter for each of the %d dimensions of the "
            "operand, and letters of the operand in the result, none twice",
            text, x.rank);
        return;
    }
    for (int d = 0; d < x.rank; d++)
        if (!strchr(result, text[d]))
            summed[n_summed++] = d;
    if (n_summed > 0)
        x = tensor_reduced(module, REDUCTION_SUM, x, summed, n_summed, false, 0);
    for (const char *letter = result; *letter != '\0'; letter++) {
        order[kept] = 0;
        for (int d = 0; text[d] != *letter; d++)
            order[kept] += strchr(result, text[d]) != NULL;
        kept++;
    }
    if (!module_failed(module))
        node_give(node, tensor_permute(module, x, order));
}

static struct tensor contract_equation(struct module *module, struct tensor x, struct tensor z, struct equation e)
{
    char summed[MODULE_RANK + 1], made[MODULE_RANK + 3] = "";
    struct contraction c = {.x_m = -1, .z_n = -1};
    int count = 0;
    x = sum_alone(module, x, e.x, e.z, e.y);
    z = sum_alone(module, z, e.z, e.x, e.y);
    summed_letters(&e, summed);
    if (module_failed(module))
        return x;
    x = merge_last(module, x, e.x, summed);
    z = merge_last(module, z, e.z, summed);
    if (module_failed(module))
        return x;
    c.x_k = x.rank - 1;
    c.z_k = z.rank - 1;
    /* The last letter that is only in z is n, and the last letter that is only in x is m. */
    for (int d = 0; d < z.rank - 1; d++)
        c.z_n = place(e.x, e.z[d]) < 0 ? d : c.z_n;
    for (int d = 0; d < x.rank - 1; d++)
        c.x_m = place(e.z, e.x[d]) < 0 ? d : c.x_m;
    for (int d = 0; d < x.rank - 1; d++)
        if (d != c.x_m) {
            c.x_outer[c.n_outer] = d;
            c.z_outer[c.n_outer++] = place(e.z, e.x[d]);
            made[count++] = e.x[d];
        }
    for (int d = 0; d < z.rank - 1; d++)
        if (d != c.z_n && place(e.x, e.z[d]) < 0) {
            if (c.n_outer + 3 > PLAN_SPACE_RANK - 1)
                return module_fail(module, "the equation has too many letters"), x;
            c.x_outer[c.n_outer] = -1;
            c.z_outer[c.n_outer++] = d;
            made[count++] = e.z[d];
        }
    if (c.n_outer + 3 > PLAN_SPACE_RANK)
        return module_fail(module, "the equation has too many letters"), x;
    made[count++] = c.x_m < 0 ? '+' : e.x[c.x_m];
    made[count++] = c.z_n < 0 ? '-' : e.z[c.z_n];
    struct tensor y = contract(module, x, z, &c, 1);
    for (int d = count - 1; d >= 0 && !module_failed(module); d--)
        if (made[d] == '+' || made[d] == '-') {
            y = tensor_squeeze(module, y, d);
            memmove(made + d, made + d + 1, strlen(made + d));
        }
    int order[MODULE_RANK];
    for (int d = 0; d < y.rank && !module_failed(module); d++) {
        order[d] = place(made, e.y[d]);
        if (order[d] < 0 || strlen(e.y) != (size_t)y.rank)
            module_fail(module, "the equation's result has a letter that no operand has");
    }
    return module_failed(module) ? y : tensor_permute(module, y, order);
}

static void build_einsum(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    const char *text = node_string(node, "equation", NULL);
    int count = node_count(node, "tensors");
    node_has(node, "operands"), node_has(node, "path");
    struct equation e;
    if (module_failed(module))
        return;
    if (count > 2) {
        module_fail(module, "einsum of %d tensors; expected one or two", count);
        return;
    }
    if (count == 1) {
        build_einsum_of_one(node, text);
        return;
    }
    struct tensor x = node_list_tensor(node, "tensors", 0), z = node_list_tensor(node, "tensors", 1);
    if (!read_equation(module, text, count, &e))
        return;
    if (strlen(e.x) != (size_t)x.rank || strlen(e.z) != (size_t)z.rank) {
        module_fail(module, "an operand has more or fewer dimensions than letters in the equation");
        return;
    }
    x = tensor_as_value(module, tensor_as_floats(module, x));
    z = tensor_as_floats(module, z);
    node_give(node, contract_equation(module, x, z, e));
}

/* ---- Tensors of constants ---- */

#define MAX_COUNTED (1 << 24) /* beyond this number, floats cannot represent every integer */
/* Limit for the elements of arange in the smallest item. Also in every item, if the largest item may exceed
 * MAX_COUNTED. */
#define MAX_UNLIMITED (1 << 20)

/* start, start + step … as a weight. The weight has as many elements as the largest item needs. */
static void build_arange(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct plan_builder *builder = module->builder;
    int start = node_size(node, "start", module->zero), end = node_size(node, "end", PLAN_NONE);
    int64_t step = node_integer(node, "step", 1), first, least, most;
    node_has(node, "dtype");
    if (module_failed(module))
        return;
    first = module_constant(module, start, "the start of arange");
    int length = plan_size_subtract(builder, end, start);
    if (step != 1)
        length = plan_size_divide(builder, plan_size_add(builder, length, module_size(module, step - 1)),
                                  module_size(module, step));
    if (module_failed(module))
        return;
    plan_size_bounds(builder->plan, length, &least, &most);
    if (step < 1) {
        module_fail(module, "argument \"step\" is %lld; expected 1 or more", (long long)step);
        return;
    }
    if (least < 1 || least > MAX_UNLIMITED) {
        module_fail(module, "arange has at least %lld elements; expected 1 to %d", (long long)least, MAX_UNLIMITED);
        return;
    }
    if (most > MAX_COUNTED) {
        most = MAX_UNLIMITED;
        plan_limit_size(
            builder,
            (struct plan_size_limit){
                .size = length, .least = 1, .most = most, .multiple = 1, .what = "the number of elements of arange"});
    }
    struct tensor t = {.value = PLAN_NONE, .first = module->zero, .rank = 1, .counts = first == 0 && step == 1};
    t.weight = module_numbers(module, first, step, most);
    t.dims[0] = (struct tensor_dimension){.size = length, .stride = module->one};
    node_give(node, t);
}

#define MAX_FILLED (1 << 26) /* limit for the elements of a tensor in the smallest item */

struct tensor tensor_filled(struct module *module, double number, int rank, const int *sizes)
{
    int64_t least, most, elements = 1;
    for (int d = 0; d < rank && !module_failed(module); d++) {
        plan_size_bounds(module->builder->plan, sizes[d], &least, &most);
        if (least > 1 && (__builtin_mul_overflow(elements, least, &elements) || elements > MAX_FILLED))
            module_fail(module, "a constant tensor has more than %d elements", MAX_FILLED);
    }
    struct tensor t = {.value = PLAN_NONE, .first = module->zero, .rank = 0};
    t.weight = plan_number_weight(module->builder, 1, 1, (float)number, 0);
    return tensor_expand(module, t, rank, sizes);
}

/* zeros, ones and full, which are variants 0, 1 and 2. */
static void build_full(struct node *node, int variant)
{
    struct module *module = node->module;
    int sizes[MODULE_RANK], rank = node_sizes(node, "size", sizes, MODULE_RANK);
    double number = variant == 2 ? node_number(node, "fill_value", 0) : variant;
    node_has(node, "dtype");
    if (rank >= 0)
        node_give(node, tensor_filled(module, number, rank, sizes));
}

static void build_full_like(struct node *node, int variant)
{
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int sizes[MODULE_RANK];
    double number = variant == 2 ? node_number(node, "fill_value", 0) : variant;
    node_has(node, "dtype");
    for (int d = 0; d < t.rank && !module_failed(module); d++)
        sizes[d] = t.dims[d].batched ? module_product(module, module->batch, t.dims[d].size) : t.dims[d].size;
    if (!module_failed(module))
        node_give(node, tensor_filled(module, number, t.rank, sizes));
}

static void build_scalar(struct node *node, int variant)
{
    (void)variant;
    double number;
    struct tensor t;
    bool tensor = node_operand(node, "s", &t, &number);
    node_has(node, "dtype");
    if (!module_failed(node->module))
        node_give(node, tensor ? t : tensor_filled(node->module, number, 0, NULL));
}

const struct module_operation module_products[] = {
    {"matmul", build_matmul, 0},
    {"mm", build_matmul, 1},
    {"bmm", build_matmul, 1},
    {"addmm", build_added, 0},
    {"baddbmm", build_added, 1},
    {"einsum", build_einsum, 0},
    {"arange", build_arange, 0},
    {"zeros", build_full, 0},
    {"ones", build_full, 1},
    {"full", build_full, 2},
    {"zeros_like", build_full_like, 0},
    {"ones_like", build_full_like, 1},
    {"full_like", build_full_like, 2},
    {"scalar_tensor", build_scalar, 0},
    {NULL, NULL, 0},
};
