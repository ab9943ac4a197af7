/* Tests of module graphs that are refused. If one node is at fault, the message must name it. All refusals together
 * must need little memory. The weights are a table (8, 4), a matrix (4, 4), a vector (4), and a kernel (4, 4, 3). */
#include "engine/engine.h"
#include "tests/unit/loaded.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define FLOATS (32 + 16 + 4 + 48)
#define MAX_KILOBYTES (2 << 20) /* limit for the memory of the process, including that of the sanitizers */

static struct engine *engine;

static int start(void **state)
{
    (void)state;
    struct error error;
    struct engine_options options = {
        .device = {DEVICE_CPU}, .dtype = DTYPE_F32, .threads = 1, .max_batch_tokens = 256, .max_batch_requests = 2};
    return engine_open(&options, &engine, &error);
}

static int stop(void **state)
{
    (void)state;
    engine_close(engine);
    return 0;
}

static struct weights *open_weights(char *bytes, size_t size)
{
    static const char header[] = "{\"table\":{\"dtype\":\"F32\",\"shape\":[8,4],\"data_offsets\":[0,128]},"
                                 "\"matrix\":{\"dtype\":\"F32\",\"shape\":[4,4],\"data_offsets\":[128,192]},"
                                 "\"vector\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[192,208]},"
                                 "\"kernel\":{\"dtype\":\"F32\",\"shape\":[4,4,3],\"data_offsets\":[208,400]}}";
    size_t length = sizeof header - 1;
    struct weights *weights;
    struct error error;
    assert_true(8 + length + 4 * FLOATS <= size);
    memset(bytes, 0, size);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    must(weights_open_memory(bytes, 8 + length + 4 * FLOATS, "weights", &weights, &error), &error);
    return weights;
}

/* Loads the graph. Returns the message of the refusal, which is empty if the graph is accepted. `causal` is the value
 * of this key of config.json. */
static struct error load_config(const char *graph, bool causal)
{
    char bytes[2048];
    struct error error = {""};
    struct model *model = NULL;
    struct model_config config = {.architecture = (char *)"module", .causal = causal};
    struct weights *weights = open_weights(bytes, sizeof bytes);
    json_error_t where;
    config.graph = json_loads(graph, 0, &where);
    config.ignore = json_pack("[s]", "*");
    if (!config.graph)
        fail_msg("%s at %d of %.200s", where.text, where.position, graph);
    if (engine_load(engine, &config, weights, NULL, NULL, &model, &error) == 0)
        error.message[0] = '\0';
    model_close(model);
    weights_close(weights);
    json_decref(config.graph);
    json_decref(config.ignore);
    return error;
}

static struct error load_graph(const char *graph)
{
    return load_config(graph, false);
}

/* Makes a graph with the inputs ids (batch, n), x (batch, n, 4), image (batch, 4, 6, 6) and flags (batch), with n from
 * 2 to 8. Its output is the result "y" of a node. */
static char *around(const char *nodes)
{
    static const char text[] =
        "{\"inputs\": [{\"name\": \"ids\", \"dtype\": \"int64\", \"shape\": [\"batch\", \"n\"]},"
        "{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [\"batch\", \"n\", 4]},"
        "{\"name\": \"image\", \"dtype\": \"float32\", \"shape\": [\"batch\", 4, 6, 6]},"
        "{\"name\": \"flags\", \"dtype\": \"bool\", \"shape\": [\"batch\"]}],"
        "\"sizes\": {\"n\": {\"least\": 2, \"most\": 8}}, \"nodes\": [%s], \"outputs\": {\"output\": \"y\"}}";
    size_t size = sizeof text + strlen(nodes);
    char *graph = malloc(size);
    assert_non_null(graph);
    snprintf(graph, size, text, nodes);
    return graph;
}

struct refusal {
    const char *text, *expected;
};

/* Number of graphs that were accepted, or refused with another message than the expected one. */
static int found_otherwise;

static void compare(const char *text, const char *graph, const char *expected, const char *place)
{
    struct error error = load_graph(graph);
    if (error.message[0] != '\0' && strstr(error.message, expected) && strstr(error.message, place))
        return;
    print_message("%s: expected \"%s\" with %s, found \"%s\"\n", text, expected, place, error.message);
    found_otherwise++;
}

static void expect(const char *graph, const char *expected, const char *place)
{
    found_otherwise = 0;
    compare("graph", graph, expected, place);
    assert_int_equal(found_otherwise, 0);
}

static void a_graph_without_faults_is_served(void **state)
{
    (void)state;
    char *graph = around("{\"op\": \"relu\", \"to\": \"y\", \"self\": \"x\"}");
    assert_string_equal(load_graph(graph).message, "");
    free(graph);
}

#define Y(op, rest) "{\"op\": \"" op "\", \"to\": \"y\", " rest "}"
#define VIEW(to, self, size) "{\"op\": \"view\", \"to\": \"" to "\", \"self\": \"" self "\", \"size\": [" size "]}, "
#define ADD Y("add", "\"self\": \"a\", \"other\": \"b\"")

/* Nodes whose refusal must name the node. */
static const struct refusal nodes[] = {
    {Y("frobnicate", "\"self\": \"x\""), "the operation is not supported"},
    {Y("relu", "\"self\": \"x\", \"inplace\": true"), "argument \"inplace\" is not supported"},
    {Y("relu", "\"source\": \"x\""), "is missing"},
    {Y("relu", "\"self\": 7"), "expected the name of a tensor"},
    {Y("relu", "\"self\": \"y\""), "no input or earlier result is named \"y\""},
    {Y("relu", "\"self\": \"later\""), "no input or earlier result is named \"later\""},
    {Y("relu", "\"self\": \"@missing\""), "tensor \"missing\""},
    {"{\"op\": \"relu\", \"to\": \"x\", \"self\": \"x\"}", "the name \"x\" is in use for another input or result"},
    {"{\"op\": \"relu\", \"to\": \"n\", \"self\": \"x\"}", "the name \"n\" is in use for a size"},
    {"{\"op\": \"relu\", \"to\": \"batch\", \"self\": \"x\"}", "the name \"batch\" is in use for a size"},
    {"{\"op\": \"relu\", \"to\": \"@table\", \"self\": \"x\"}", "the name \"@table\" begins with @"},
    {"{\"op\": \"relu\", \"to\": \"\", \"self\": \"x\"}", "the name of an input or result is empty"},
    {"{\"op\": \"relu\", \"self\": \"x\"}", "\"to\": expected one name"},
    {"{\"op\": \"relu\", \"to\": [\"y\"], \"self\": \"x\"}", "\"to\": expected one name"},
    {"{\"op\": \"chunk\", \"to\": [], \"self\": \"x\", \"chunks\": 2}", "\"to\": expected 1 to"},
    {"{\"op\": \"chunk\", \"to\": [\"y\", 7], \"self\": \"x\", \"chunks\": 2, \"dim\": 2}", "\"to\": expected a list"},
    {"{\"op\": \"chunk\", \"to\": [\"y\", \"z\"], \"self\": \"x\", \"chunks\": 0}", "expected 1 or more"},
    {"{\"op\": \"split\", \"to\": [\"y\", \"z\"], \"self\": \"x\", \"split_size\": 0, \"dim\": 2}", "last part"},
    {"{\"op\": \"split\", \"to\": [\"y\", \"z\"], \"self\": \"x\", \"split_size\": 9, \"dim\": 2}", "last part"},
    {Y("leaky_relu", "\"self\": \"x\", \"negative_slope\": \"much\""), "expected a number"},
    {Y("softmax", "\"self\": \"x\", \"dim\": 3"), "the tensor has 3 dimensions"},
    {Y("softmax", "\"self\": \"x\", \"dim\": 4294967296"), "a 32-bit integer"},
    {Y("softmax", "\"self\": \"x\", \"dim\": 0"), "a softmax over the batch dimension is not supported"},
    {"{\"op\": \"max\", \"to\": [\"y\", \"i\"], \"self\": \"x\", \"dim\": 2}", "a second result; use argmax"},
    {"{\"op\": \"min\", \"to\": [\"y\", \"i\"], \"self\": \"x\", \"dim\": 2}", "use argmax of the negated input"},
    {Y("mean", "\"self\": \"x\", \"dim\": [0]"), "a reduction over the batch dimension"},
    {Y("mean", "\"self\": \"x\", \"dim\": [1, 1, 1, 1, 1, 1, 1, 1, 1]"), "an integer, or a list of at most 8 integers"},
    {Y("mean", "\"self\": \"x\", \"dim\": [1, 2, -2]"), "has dimension 1 twice"},
    {Y("mean", "\"self\": \"x\", \"dim\": [2, 2, 2, 2]"), "has dimension 2 twice"},
    {Y("mean", "\"self\": \"x\", \"dim\": [1], \"keepdim\": 1"), "expected true or false"},
    {Y("cumsum", "\"self\": \"x\", \"dim\": 0"), "a sum over the batch dimension is not supported"},
    {Y("flip", "\"self\": \"x\", \"dims\": [0]"), "argument \"dims\" contains the batch dimension"},
    {Y("flip", "\"self\": \"x\", \"dims\": 4611686018427387904"), "expected a 32-bit integer"},
    {Y("roll", "\"self\": \"x\", \"shifts\": [1], \"dims\": [0]"), "argument \"dims\" contains the batch dimension"},
    {Y("select", "\"self\": \"x\", \"dim\": 0, \"index\": 0"), "batch"},
    {Y("slice", "\"self\": \"x\", \"dim\": 0, \"start\": 1"), ""},
    {Y("slice", "\"self\": \"x\", \"dim\": 1, \"step\": 0"), "expected 1 or more"},
    {Y("slice", "\"self\": \"x\", \"dim\": 2, \"start\": 4"), "the slice has no elements"},
    {Y("select", "\"self\": \"x\", \"dim\": 2, \"index\": 4"), "minus the selected index"},
    {Y("select", "\"self\": \"x\", \"dim\": 2, \"index\": -5"), "the bound of a slice"},
    {Y("select", "\"self\": \"x\", \"dim\": 1, \"index\": -9"), "the bound of a slice"},
    {Y("slice", "\"self\": \"x\", \"dim\": 1, \"start\": -9"), "the bound of a slice"},
    {Y("cat", "\"tensors\": [\"x\", \"x\"], \"dim\": 0"), "joining along the batch dimension is not supported"},
    {Y("cat", "\"tensors\": []"), "a non-empty list"},
    {Y("cat", "\"tensors\": [\"x\", \"image\"], \"dim\": 1"), "tensors of 3 and 4 dimensions cannot be joined"},
    {Y("cat", "\"tensors\": [\"x\", 3], \"dim\": 1"), "expected the name of a tensor"},
    {Y("add", "\"self\": \"x\", \"other\": \"image\""), "dimension"},
    {VIEW("a", "x", "\"batch*n\", 4") VIEW("b", "x", "\"4*batch\", \"n\"") ADD,
     "dimension 0 has size batch * (n) in one operand and batch * (4) in the other"},
    {VIEW("a", "x", "\"batch*n\", 4") "{\"op\": \"transpose\", \"to\": \"t\", \"self\": \"x\", \"dim0\": 0, \"dim1\": "
                                      "1}, " VIEW("b", "t", "\"batch*n\", 4") ADD,
     "dimension 0 joins the batch and another dimension, but in a different order in each operand"},
    {Y("add", "\"self\": 1, \"other\": 2"), "expected the name of a tensor"},
    {Y("add", "\"self\": \"x\", \"other\": \"m\""), "no input has a size \"m\""},
    {Y("permute", "\"self\": \"x\", \"dims\": [0, 1]"), "must contain each of the tensor's 3 dimensions once"},
    {Y("permute", "\"self\": \"x\", \"dims\": [0, 1, 1]"), "must contain each of the tensor's 3 dimensions once"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"n\", 5]"), "cannot have a shape of"},
    {Y("view", "\"self\": \"x\", \"size\": [\"n\", \"batch\", 4]"), "mix the items of a batch"},
    {Y("view", "\"self\": \"x\", \"size\": [\"4*n\"]"), "cannot have a shape of"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch*batch\", \"n\", 4]"), "the square of the batch"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch + 1\", \"n\", 4]"), "only some of its terms"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch // 2\", \"n\", 8]"), ""},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"n\", \"2*\"]"), "expected a sum, product or quotient"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"n\", \"4)\"]"), "expected a sum, product or quotient"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"n\", \"9999999999\"]"), "expected a sum, product or quotient"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"n\", \"((((((((((((((((((((4))))))))))))))))))))\"]"),
     "expected a sum, product or quotient"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"n\", \"4//0\"]"), "divided by 0"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"n\", \"4%(n-n)\"]"), "divided by 0"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"n\", \"4//(n-2)\"]"), "may be 0"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"n\", \"n*n*n*n*n*n*n\"]"), "factors"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"n\", \"2147483647*2147483647*2147483647\"]"), "64 bits"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"n\", \"(((((n//3+n)//5+n)//7+n)//9+n)//11+n)//13\"]"), "deep"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"n\", 4294967296]"), "too large"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"n\", 4.0]"), "expected a size"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", 1, 1, 1, 1, 1, 1, 1, \"n\", 4]"), "a list of at most 8 sizes"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"n\", 0]"), "cannot have a shape of"},
    {Y("view", "\"self\": \"x\", \"size\": [\"batch\", \"-n\", -4]"), ""},
    {Y("expand", "\"self\": \"x\", \"size\": [\"batch\", \"n\", 8]"), "cannot be expanded, because its size is not 1"},
    {Y("expand", "\"self\": \"x\", \"size\": [\"n\", 4]"), "a tensor of 3 dimensions cannot be expanded to 2"},
    {Y("expand", "\"self\": \"@vector\", \"size\": [\"batch\", \"batch\", 4]"), "mix the items"},
    {Y("repeat", "\"self\": \"x\", \"repeats\": [2, 1, 1]"), "repeating the batch dimension is not supported"},
    {Y("repeat", "\"self\": \"x\", \"repeats\": [1, 1, 2147483647]"), ""},
    {Y("full", "\"size\": [\"batch\", -4], \"fill_value\": 1"), ""},
    {Y("full", "\"size\": [\"batch\", 0], \"fill_value\": 1"), ""},
    {Y("arange", "\"end\": 2147483647"), "arange has at least"},
    {Y("arange", "\"end\": 0"), "arange has at least"},
    {Y("arange", "\"end\": \"-n\""), "arange has at least"},
    {Y("constant_pad_nd", "\"self\": \"x\", \"pad\": [2147483647, 2147483647]"), ""},
    {Y("pad", "\"self\": \"x\", \"pad\": [2147483647, 2147483647]"), ""},
    {Y("pad", "\"self\": \"x\", \"pad\": [-4, 0]"), ""},
    {Y("pad", "\"self\": \"x\", \"pad\": [1]"), "has 1 numbers"},
    {Y("pad", "\"self\": \"x\", \"pad\": [1, 1], \"mode\": \"circular\""), "is not supported"},
    {Y("pad", "\"self\": \"x\", \"pad\": [0, 0, 0, 0, 1, 0]"), "padding the batch dimension is not supported"},
    {Y("pixel_shuffle", "\"self\": \"image\", \"upscale_factor\": 0"), ""},
    {Y("pixel_shuffle", "\"self\": \"image\", \"upscale_factor\": 2147483647"), ""},
    {Y("linear", "\"input\": \"image\", \"weight\": \"@matrix\""), "columns"},
    {Y("linear", "\"input\": \"x\", \"weight\": \"@vector\""), "must be a matrix"},
    {Y("linear", "\"input\": \"x\", \"weight\": \"@kernel\""), "must be a matrix"},
    {Y("linear", "\"input\": \"x\", \"weight\": \"@matrix\", \"bias\": \"@matrix\""), "expected 4"},
    {Y("embedding", "\"weight\": \"@vector\", \"indices\": \"ids\""), "must be a matrix"},
    {Y("rms_norm", "\"input\": \"x\", \"normalized_shape\": [5]"),
     "normalized_shape[0] is 5; expected 4, the size of dimension 2"},
    {Y("rms_norm", "\"input\": \"x\", \"normalized_shape\": [3, 4]"),
     "rms_norm is supported only over the last dimension of a tensor"},
    {Y("layer_norm", "\"input\": \"x\", \"normalized_shape\": [5]"),
     "normalized_shape[0] is 5; expected 4, the size of dimension 2"},
    {Y("batch_norm", "\"input\": \"x\", \"eps\": 1e-5"), "mix the items of a batch"},
    {Y("group_norm", "\"input\": \"image\", \"num_groups\": 3"), "into 3 groups"},
    {Y("group_norm", "\"input\": \"image\", \"num_groups\": 0"), "into 0 groups"},
    {Y("conv2d", "\"input\": \"image\", \"weight\": \"@kernel\""),
     "must be a tensor of the weights file with 4 dimensions"},
    {Y("conv1d", "\"input\": \"x\", \"weight\": \"@kernel\""), ""},
    {Y("conv1d", "\"input\": \"z\", \"weight\": \"@kernel\""), "no input or earlier result"},
    {Y("max_pool2d", "\"self\": \"image\", \"kernel_size\": [0, 0]"), "\"kernel_size\" is 0; expected at least 1"},
    {Y("max_pool2d", "\"self\": \"image\", \"kernel_size\": [7, 7]"), ""},
    {Y("avg_pool2d", "\"self\": \"image\", \"kernel_size\": [2, 2], \"stride\": [-1, 1]"),
     "is -1; expected at least 0"},
    {Y("full", "\"size\": [\"batch\", 2147483647, 2147483647], \"fill_value\": 1"), "a constant tensor has more than"},
    {Y("zeros", "\"size\": [\"batch\", 8192, 8193]"), "a constant tensor has more than"},
    {Y("adaptive_avg_pool2d", "\"self\": \"image\", \"output_size\": [0, 4]"),
     "\"output_size\" is 0; expected 1 to 16384"},
    {Y("adaptive_avg_pool2d", "\"self\": \"image\", \"output_size\": [65536, 1]"),
     "\"output_size\" is 65536; expected 1 to 16384"},
    {Y("adaptive_max_pool2d", "\"self\": \"image\", \"output_size\": [4, 4]"), "in 4 windows is not supported"},
    {Y("max_pool1d", "\"self\": \"x\", \"kernel_size\": [2], \"padding\": [2]"),
     "\"padding\" is 2; expected at most half of kernel_size 2"},
    {Y("conv_transpose2d", "\"input\": \"image\", \"weight\": \"@kernel\", \"groups\": 3"),
     "must be a tensor of the weights file with 4 dimensions"},
    {Y("conv_transpose1d", "\"input\": \"x\", \"weight\": \"@kernel\", \"groups\": 0"), ""},
    {Y("pixel_unshuffle", "\"self\": \"image\", \"downscale_factor\": 4"), ""},
    {Y("pixel_unshuffle", "\"self\": \"image\", \"downscale_factor\": 0"), ""},
    {Y("upsample_nearest2d", "\"input\": \"image\", \"output_size\": [2147483647, 2147483647]"), ""},
    {Y("matmul", "\"self\": \"x\", \"other\": \"x\""), "do not match"},
    {Y("matmul", "\"self\": \"x\", \"other\": 3"), ""},
    {Y("einsum", "\"equation\": \"bnd,bmd->nm\", \"tensors\": [\"x\", \"x\"]"), "batch"},
    {Y("einsum", "\"equation\": \"bnd,cnd->bc\", \"tensors\": [\"x\", \"x\"]"), "mix the items"},
    {Y("einsum", "\"equation\": \"bnd\", \"tensors\": [\"x\", \"x\"]"), "is not supported"},
    {Y("einsum", "\"equation\": \"bnn,bmd->bnm\", \"tensors\": [\"x\", \"x\"]"), "is not supported"},
    {Y("einsum", "\"equation\": \"bn,bm->bnm\", \"tensors\": [\"x\", \"x\"]"), "more or fewer dimensions than letters"},
    {Y("einsum", "\"equation\": \"bnd,bmd->bnq\", \"tensors\": [\"x\", \"x\"]"), "no operand has"},
    {Y("to", "\"self\": \"x\", \"dtype\": \"complex64\""), ""},
    {Y("stft", "\"self\": \"x\", \"n_fft\": 2147483647"), ""},
    {Y("stft", "\"self\": \"ids\", \"n_fft\": 4, \"window\": \"x\""), "the weight is a computed tensor"},
    {Y("leaf", "\"class\": \"linformer.Linformer\", \"path\": \"\""), "argument \"kwargs\": expected an object"},
    {Y("leaf", "\"class\": \"linformer.Linformer\", \"kwargs\": {\"dim\": 4, \"seq_len\": 8, \"depth\": 1}"),
     "argument \"inputs\": expected an object with at least one input"},
    {Y("leaf", "\"class\": \"linformer.Nothing\", \"kwargs\": {}, \"inputs\": {\"x\": \"x\"}"), "linformer.Nothing"},
    {Y("leaf", "\"class\": \"module\", \"kwargs\": {}, \"inputs\": {\"x\": \"x\"}"), ""},
    {Y("leaf",
       "\"class\": \"linformer.Linformer\", \"kwargs\": {\"dim\": 4, \"seq_len\": 8, \"depth\": 1}, \"inputs\": "
       "{\"x\": \"later\"}"),
     "expected the name of an input or of an earlier result"},
    {Y("leaf",
       "\"class\": \"linformer.Linformer\", \"kwargs\": {\"dim\": 4, \"seq_len\": 8, \"depth\": 1}, \"inputs\": "
       "{\"x\": \"@table\"}"),
     "expected the name of an input or of an earlier result"},
};

static void faulty_nodes_are_refused_by_name(void **state)
{
    (void)state;
    found_otherwise = 0;
    for (size_t i = 0; i < COUNT(nodes); i++) {
        char *graph = around(nodes[i].text);
        compare(nodes[i].text, graph, nodes[i].expected, "node \"");
        free(graph);
    }
    assert_int_equal(found_otherwise, 0);
}

/* The input of the class is (n, batch, 4). The class would confuse the batch with the sequence. */
static void a_leaf_needs_the_batch_as_first_dimension(void **state)
{
    (void)state;
    char *graph = around("{\"op\": \"transpose\", \"to\": \"t\", \"self\": \"x\", \"dim0\": 0, \"dim1\": 1},"
                         "{\"op\": \"leaf\", \"to\": \"y\", \"class\": \"linformer.Linformer\", \"kwargs\": {\"dim\": "
                         "4, \"seq_len\": 8, "
                         "\"depth\": 1}, \"inputs\": {\"x\": \"t\"}}");
    expect(graph, "expected the batch as the first dimension", "node \"y\"");
    free(graph);
}

/* An operation on x[:, None] and x[None] would combine different items of the batch. */
static void operations_between_items_are_refused(void **state)
{
    (void)state;
    static const char *const ops[] = {"add", "where", "matmul"};
    for (size_t i = 0; i < COUNT(ops); i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"op\": \"unsqueeze\", \"to\": \"a\", \"self\": \"x\", \"dim\": 1},"
                 "{\"op\": \"unsqueeze\", \"to\": \"b\", \"self\": \"x\", \"dim\": 0},"
                 "{\"op\": \"%s\", \"to\": \"y\", \"self\": \"a\", \"other\": \"b\"%s}",
                 ops[i], i == 1 ? ", \"condition\": \"a\"" : "");
        char *graph = around(text);
        expect(graph, i == 2 ? "" : "mix the items", "node \"y\"");
        free(graph);
    }
}

#define INPUT(shape) "{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": " shape "}"
#define GRAPH(inputs, sizes) \
    "{\"inputs\": [" inputs "], \"sizes\": " sizes ", \"nodes\": [], \"outputs\": {\"output\": \"x\"}}"

static const struct refusal graphs[] = {
    {"{}", "\"inputs\": expected a list"},
    {GRAPH(INPUT("[\"batch\", 2, 4]"), "[]"), "\"sizes\": expected an object"},
    {GRAPH(INPUT("[\"batch\", \"n\", 4]"), "{\"n\": 7}"), "size \"n\": expected"},
    {GRAPH(INPUT("[\"batch\", \"n\", 4]"), "{\"n\": {\"least\": 0}}"), "expected"},
    {GRAPH(INPUT("[\"batch\", \"n\", 4]"), "{\"n\": {\"least\": 5, \"most\": 4}}"), "size \"n\""},
    {GRAPH(INPUT("[\"batch\", \"n\", 4]"), "{\"n\": {\"most\": 99999999999}}"),
     "\"most\": expected an integer from 1 to"},
    {GRAPH(INPUT("[\"batch\", \"m\", 4]"), "{\"n\": {}}"), "inputs[0].shape[1]"},
    {GRAPH(INPUT("[\"batch\", \"n+1\", 4]"), "{\"n\": {}}"), "inputs[0].shape[1]"},
    {GRAPH(INPUT("[\"batch\", 0, 4]"), "{}"), "inputs[0].shape[1]"},
    {GRAPH(INPUT("[\"batch\", -1, 4]"), "{}"), "inputs[0].shape[1]"},
    {GRAPH(INPUT("[\"batch\", 4294967296, 4]"), "{}"), "inputs[0].shape[1]"},
    {GRAPH(INPUT("[\"batch\", 2147483647, 2147483647]"), "{}"), ""},
    {GRAPH(INPUT("[\"batch\", 2147483647, 2147483647, 2147483647, 2147483647]"), "{}"), ""},
    {GRAPH(INPUT("[2, 4]"), "{}"), "the first \"batch\""},
    {GRAPH(INPUT("[]"), "{}"), "the first \"batch\""},
    {GRAPH(INPUT("[\"batch\", 1, 1, 1, 1, 1, 1, 1]"), "{}"), "1 to"},
    {GRAPH(INPUT("\"batch\""), "{}"), "inputs[0]"},
    {GRAPH(INPUT("[\"batch\", 2]") "," INPUT("[\"batch\", 2]"), "{}"), "\"x\" is in use"},
    {GRAPH("7", "{}"), "inputs[0]"},
    {GRAPH("{\"name\": \"x\", \"dtype\": \"float8\", \"shape\": [\"batch\", 2]}", "{}"), "inputs[0].dtype"},
    {GRAPH("{\"name\": \"@x\", \"dtype\": \"float32\", \"shape\": [\"batch\", 2]}", "{}"),
     "the name \"@x\" begins with @, which marks weights"},
    {GRAPH("{\"name\": \"batch\", \"dtype\": \"float32\", \"shape\": [\"batch\", 2]}", "{}"), "\"batch\" is in use"},
    {GRAPH("{}, {}, {}, {}, {}, {}", "{}"), "1 to 5 inputs"},
    {"{\"inputs\": [], \"edges\": []}", "unknown key \"edges\""},
    {"{\"inputs\": [" INPUT("[\"batch\", 2, 4]") "], \"nodes\": {}, \"outputs\": {\"output\": \"x\"}}",
     "\"nodes\": expected a list"},
    {"{\"inputs\": [" INPUT("[\"batch\", 2, 4]") "], \"nodes\": [7], \"outputs\": {\"output\": \"x\"}}",
     "nodes[0]: expected an object whose \"op\" is a string"},
    {"{\"inputs\": [" INPUT("[\"batch\", 2, 4]") "], \"nodes\": [], \"outputs\": {}}",
     "\"outputs\": expected an object"},
    {"{\"inputs\": [" INPUT("[\"batch\", 2, 4]") "], \"nodes\": [], \"outputs\": {\"output\": \"z\"}}",
     "output \"output\": no result"},
    {"{\"inputs\": [" INPUT("[\"batch\", 2, 4]") "], \"nodes\": [], \"outputs\": {\"output\": 3}}",
     "output \"output\": no result"},
    {"{\"inputs\": [" INPUT("[\"batch\", 2, 4]") "], \"nodes\": [{\"op\": \"permute\", \"to\": \"y\", \"self\": \"x\", "
                                                 "\"dims\": [1, 0, 2]}], \"outputs\": {\"output\": \"y\"}}",
     "the first dimension must be the batch"},
    {"{\"inputs\": [" INPUT("[\"batch\", 2, 4]") "], \"nodes\": [{\"op\": \"view\", \"to\": \"y\", \"self\": \"x\", "
                                                 "\"size\": [\"2*batch\", 4]}], \"outputs\": {\"output\": \"y\"}}",
     "the first dimension must be the batch"},
};

#define FLAGS "{\"op\": \"view\", \"to\": \"column\", \"self\": \"flags\", \"size\": [\"batch\", 1, 1]}, "

/* These faults are only found when the plan is complete, so the message names no node. */
static void results_of_huge_sizes_are_refused(void **state)
{
    (void)state;
    char *graph = around(FLAGS "{\"op\": \"expand\", \"to\": \"y\", \"self\": \"column\", "
                               "\"size\": [\"batch\", 2147483647, 2147483647]}");
    expect(graph, "exceed the address space", "");
    free(graph);
    graph = around(FLAGS "{\"op\": \"expand\", \"to\": \"y\", \"self\": \"column\", "
                         "\"size\": [\"batch\", 2147483647, 65536]}");
    expect(graph, "the model's activations need", "");
    free(graph);
}

/* The output must be the logits of a linear layer, with one column for each id of the input's vocabulary. */
static void causal_models_need_logits_and_a_free_length(void **state)
{
    (void)state;
#define IDS(length)                                                                                 \
    "{\"inputs\": [{\"name\": \"ids\", \"dtype\": \"int64\", \"shape\": [\"batch\", " length "]}]," \
    "\"sizes\": {\"n\": {}}, \"nodes\": [{\"op\": \"embedding\", \"to\": \"rows\", \"weight\": "    \
    "\"@table\", \"indices\": \"ids\"}, "
#define LINEAR(weight) "{\"op\": \"linear\", \"to\": \"y\", \"input\": \"rows\", \"weight\": \"@" weight "\"}"
#define END "], \"outputs\": {\"output\": \"y\"}}"
    static const struct refusal cases[] = {
        {IDS("\"n\"") LINEAR("table") END, ""},
        {IDS("\"n\"") LINEAR("matrix") END, "the output has logits for 4 ids, and input \"ids\" accepts 8"},
        {IDS("4") LINEAR("table") END, "input \"ids\" always has 4 ids"},
        {IDS("\"n\"") "{\"op\": \"relu\", \"to\": \"y\", \"self\": \"rows\"}" END,
         "the output is not logits: expected a linear layer as the last node"},
        {IDS("\"n\"") "{\"op\": \"mean\", \"to\": \"y\", \"self\": \"rows\", \"dim\": [1]}" END,
         "the output is not logits: expected the shape (batch, n, vocabulary)"},
        {IDS("\"n\"") LINEAR("table") "], \"outputs\": {\"logits\": \"y\"}}",
         "the output is not logits: expected one output with the name \"output\""},
        {GRAPH(INPUT("[\"batch\", \"n\", 4]"), "{\"n\": {}}"),
         "the output is not logits: expected ids (batch, n) as the first input"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct error error = load_config(cases[i].text, true);
        if (i == 0 ? *error.message : !strstr(error.message, cases[i].expected))
            fail_msg("%s: expected \"%s\", found \"%s\"", cases[i].text, cases[i].expected, error.message);
        assert_string_equal(load_graph(cases[i].text).message, "");
    }
}

static void faulty_graphs_are_refused(void **state)
{
    (void)state;
    found_otherwise = 0;
    for (size_t i = 0; i < COUNT(graphs); i++)
        compare(graphs[i].text, graphs[i].text, graphs[i].expected, "");
    assert_int_equal(found_otherwise, 0);
}

/* Makes a graph of `count` nodes relu. Each node reads the result of the previous node. */
static char *chain(int count)
{
    char *text = malloc((size_t)count * 80 + 1), *end = text;
    assert_non_null(text);
    for (int i = 0; i < count; i++) {
        char from[32];
        snprintf(from, sizeof from, i == 0 ? "x" : "node_%d", i - 1);
        end += sprintf(end, "%s{\"op\": \"relu\", \"to\": \"node_%d\", \"self\": \"%s\"}", i > 0 ? "," : "", i, from);
    }
    char *graph = around(text);
    free(text);
    return graph;
}

static void too_many_nodes_are_refused(void **state)
{
    (void)state;
    char *graph = chain(65537);
    expect(graph, "at most 65536 nodes", "graph");
    free(graph);
    graph = chain(20000); /* 20000 nodes are accepted, but the graph has no result "y" */
    expect(graph, "output \"output\": no result", "graph");
    free(graph);
}

/* The graph computes 17 different ranges of up to 4 million elements. */
static void too_many_numbers_are_refused(void **state)
{
    (void)state;
    char text[4096], *end = text;
    for (int i = 0; i < 17; i++)
        end += sprintf(end, "%s{\"op\": \"arange\", \"to\": \"range_%d\", \"start\": %d, \"end\": \"500000 * n\"}",
                       i > 0 ? "," : "", i, i);
    char *graph = around(text);
    expect(graph, "elements together", "\"range_16\" (arange)");
    free(graph);
}

static void refused_graphs_need_little_memory(void **state)
{
    (void)state;
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    print_message("%ld kB\n", usage.ru_maxrss);
    assert_true(usage.ru_maxrss < MAX_KILOBYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_without_faults_is_served),
        cmocka_unit_test(faulty_nodes_are_refused_by_name),
        cmocka_unit_test(a_leaf_needs_the_batch_as_first_dimension),
        cmocka_unit_test(operations_between_items_are_refused),
        cmocka_unit_test(causal_models_need_logits_and_a_free_length),
        cmocka_unit_test(faulty_graphs_are_refused),
        cmocka_unit_test(results_of_huge_sizes_are_refused),
        cmocka_unit_test(too_many_nodes_are_refused),
        cmocka_unit_test(too_many_numbers_are_refused),
        cmocka_unit_test(refused_graphs_need_little_memory),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
