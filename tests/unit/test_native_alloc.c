/* Calls the routes of `cases` while each allocation fails in turn. Each failure must be reported, and no memory may
 * leak. */
#include "server/text/json_body.h"
#include "tests/fake_engine.c" /* replaces the engine */
#include "tests/http/native_call.h"
#include "tests/unit/alloc_fail.h"

static const char *path, *body;

/* Runs a job of the fake engine without failing allocations, because the fake engine itself is not tested. */
static int run_unharmed(struct model *model, int lane, const struct engine_item *items, int64_t n_items,
                        struct error *error)
{
    long countdown = alloc_fail.countdown, live = alloc_fail.live;
    alloc_fail.countdown = 0;
    int result = model_run(model, lane, items, n_items, error);
    alloc_fail.countdown = countdown;
    alloc_fail.live = live;
    return result;
}

static int call(struct error *error)
{
    struct request request;
    int result = native_call(path, body, strlen(body), &request);
    if (result != 0) {
        if (!alloc_fail.failed)
            fail_msg("%s %s fails with all memory: %s", path, body, request.failure.error.message);
        if (request.failure.kind != FAILURE_BACKEND)
            print_error("%s %s: %s\n", path, body, request.failure.error.message);
        assert_int_equal(request.failure.kind, FAILURE_BACKEND);
        *error = request.failure.error;
    }
    request_close(&request);
    assert_int_equal(atomic_load(&native_service.results.used), 0);
    return result;
}

static const struct {
    const char *path, *body;
} cases[] = {
    {"/embed", "{\"inputs\": [\"text\", [1, 2]], \"normalize\": true, \"dimensions\": 3}"},
    {"/embed", "{\"model\": \"rows\", \"embeddings\": [[1, 2, 3, 4], [5, 6, 7, 8]], \"pooling\": \"max\"}"},
    {"/embed", "{\"inputs\": [[1, 2], [3]]}"},
    {"/embed", "{\"inputs\": [1, 2, 3, 4, 5, 6, 7, 8, 9], \"truncate\": true, \"truncation_direction\": \"left\"}"},
    {"/embed", "{\"inputs\": \"text\", \"encoding_format\": \"base64\"}"},
    {"/embed_all", "{\"inputs\": [\"some text\", \"and more\"], \"truncate\": true}"},
    {"/logits", "{\"inputs\": [\"text\", [1, 2]], \"positions\": \"last\"}"},
    {"/logits", "{\"inputs\": \"text\", \"positions\": [0, 3], \"top_k\": 7, \"softmax\": true}"},
    {"/logits", "{\"inputs\": [\"text\", [1, 2]], \"targets\": \"next\"}"},
    {"/logits", "{\"inputs\": [[5, 6], [1, 2]], \"targets\": [[5, -100], [3, 4]]}"},
    {"/logits", "{\"inputs\": [[5, 6], [1, 2]], \"targets\": [[5, null], [3, 4]]}"},
    {"/logits", "{\"model\": \"pair\", \"inputs\": {\"src\": [[1, 2], [3, 4]], \"tgt\": \"ab\", \"src_mask\": [1, 0],"
                " \"context\": [[1, 2], [3, 4.5]], \"scores\": [[0.5], [1]]}}"},
    {"/embed", "{\"model\": \"pair\", \"src\": \"ab\", \"tgt\": [[1], [2, 3]], \"scores\": [[true]]}"},
    {"/predict", "{\"model\": \"classes\", \"inputs\": [[\"text\"], [1, 2]], \"top_k\": 2}"},
    {"/", "{\"model\": \"classes\", \"inputs\": \"text\", \"parameters\": {\"function_to_apply\": \"none\"}}"},
    {"/similarity", "{\"inputs\": {\"source_sentence\": \"text\", \"sentences\": [\"a\", \"b\"]}}"},
    {"/fill-mask", "{\"inputs\": [\"te[MASK]t\", \"[MASK][MASK]\"]}"},
    {"/fill-mask", "{\"model\": \"words\", \"inputs\": \"ab [MASK]\", \"targets\": [\"ab\", \"x y\"]}"},
    {"/embed", "{\"model\": \"words\", \"inputs\": [\"ab\", \"cd\"], \"prompt_name\": \"query\"}"},
    {"/tokenize", "{\"inputs\": [\"text\", \"[MASK]\"]}"},
    {"/decode", "{\"ids\": [[100, 101], [2, 0]]}"},
    {"/embed", "{\"model\": \"words\", \"inputs\": [\"h\u00e4user \uFFFF ab\", [1, 2]]}"},
    {"/logits", "{\"model\": \"words\", \"inputs\": \"ab\", \"positions\": [0], \"top_k\": 7}"},
    {"/tokenize", "{\"model\": \"words\", \"inputs\": [\"h\u00e4user\", \"[MASK]\"]}"},
    {"/decode", "{\"model\": \"words\", \"ids\": [[100, 101], [2, 0]]}"},
    {"/v2/models/words/infer", "{\"inputs\": [{\"name\": \"x\", \"shape\": [2], \"datatype\": \"BYTES\","
                               " \"data\": [\"ab\", \"cd\"]}]}"},
    {"/v1/embeddings", "{\"input\": [\"text\", [1, 2]], \"dimensions\": 3, \"encoding_format\": \"base64\"}"},
    {"/v2/models/ids/infer",
     "{\"id\": \"a\", \"inputs\": [{\"name\": \"x\", \"shape\": [2, 2], \"datatype\": \"INT64\","
     " \"data\": [[1, 2], [3, 4]]}], \"outputs\": [{\"name\": \"output\"}]}"},
    {"/v2/models/rows/infer", "{\"inputs\": [{\"name\": \"x\", \"shape\": [1, 1, 4], \"datatype\": \"FP32\","
                              " \"data\": [1, 2, 3, 4]}], \"parameters\": {\"binary_data_output\": true}}"},
    {"/classify", "{\"model\": \"classes\", \"input\": \"text\"}"},
    {"/api/embed", "{\"input\": [\"text\", \"more\"], \"dimensions\": 3, \"keep_alive\": 0}"},
    {"/api/embeddings", "{\"model\": \"words\", \"prompt\": \"ab\", \"options\": {\"num_ctx\": 9}}"},
    {"/invocations", "{\"model\": \"classes\", \"inputs\": \"text\", \"parameters\": {\"top_k\": 2}}"},
    {"/generate", "{\"inputs\": \"text\"}"},
    {"/generate", "{\"model\": \"writer\", \"inputs\": [1, 2], \"parameters\": {\"max_new_tokens\": 3, "
                  "\"details\": true, \"top_n_tokens\": 2,"
                  " \"return_full_text\": true, \"stop\": [\"xyz\", \"zyx\"], \"truncate\": 1}}"},
    {"/generate", "{\"model\": \"words\", \"inputs\": \"ab\", \"prompt_name\": \"query\", \"parameters\": {\"seed\": 1,"
                  " \"do_sample\": true, \"top_k\": 5, \"return_full_text\": true, \"max_new_tokens\": 4}}"},
    {"/generate_stream", "{\"inputs\": \"text\", \"parameters\": {\"max_new_tokens\": 3, \"stop\": \"xyz\"}}"},
    {"/generate_stream", "{\"model\": \"words\", \"inputs\": \"ab\", \"parameters\": {\"top_n_tokens\": 2}}"},
    {"/", "{\"model\": \"writer\", \"inputs\": \"text\", \"parameters\": {\"max_new_tokens\": 2}}"},
    {"/v1/completions", "{\"prompt\": \"text\", \"max_tokens\": 3, \"seed\": 5}"},
    {"/v1/completions", "{\"model\": \"writer\", \"prompt\": [\"some text\", [1, 2]], \"n\": 2, \"echo\": true, "
                        "\"logprobs\": 2, \"stop\": [\"xyz\"], \"seed\": 5,"
                        " \"max_tokens\": 3, \"truncate_prompt_tokens\": 3, \"return_token_ids\": true}"},
    {"/v1/completions", "{\"model\": \"words\", \"prompt\": \"ab cd\", \"echo\": true, \"logprobs\": 1, "
                        "\"max_tokens\": 2, \"seed\": 5}"},
    {"/v1/completions",
     "{\"prompt\": \"text\", \"stream\": true, \"stream_options\": {\"include_usage\": true}, \"n\": 2,"
     " \"temperature\": 0.7, \"seed\": 5, \"logprobs\": 1}"},
    {"/openai/deployments/words/completions", "{\"prompt\": [[1, 2], [3]], \"max_tokens\": 0, \"echo\": true}"},
};

static void requests_survive_each_failure(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        path = cases[i].path;
        body = cases[i].body;
        fake_reset();
        assert_true(alloc_fail_each(call) > 5);
    }
}

/* From some allocation on, all allocations fail while a long text is parsed. The parser may try a few more allocations,
 * but not one for each character. */
static void a_parse_without_memory_does_not_allocate_at_each_character(void **unused)
{
    (void)unused;
    enum { LENGTH = 100000, FEW = 50 };
    long n = 1;
    char *text = test_malloc(LENGTH + 64);
    struct error error;
    int at = sprintf(text, "{\"inputs\": \"");
    memset(text + at, 'x', LENGTH);
    strcpy(text + at + LENGTH, "\"}");
    path = "/tokenize";
    body = text;
    fake_reset();
    alloc_fail.for_good = true;
    for (int result = -1; result != 0; n++) {
        alloc_fail.failed = false;
        alloc_fail.refused = 0;
        alloc_fail.countdown = n;
        result = call(&error);
        assert_int_equal(result, alloc_fail.failed ? -1 : 0);
        assert_in_range(alloc_fail.refused, 0, FEW);
    }
    assert_true(n > 20); /* a call with enough memory makes at least 19 allocations */
    alloc_fail.for_good = alloc_fail.failed = false;
    alloc_fail.countdown = 0;
    test_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(requests_survive_each_failure),
                                       cmocka_unit_test(a_parse_without_memory_does_not_allocate_at_each_character)};
    json_object_seed(1);
    json_body_init();
    native_open();
    native_run = run_unharmed;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    native_close();
    return failed;
}
