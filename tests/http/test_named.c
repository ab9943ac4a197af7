/* Inputs by name on the JSON routes: forms of a request, masks, texts, sources that several items share, and refusals.
 * test_reference.c compares results with the libraries. */
#include "tests/http/checkpoint.h"
#include "tests/http/daemon.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENIZER                                                                                             \
    "{\"version\": \"1.0\", \"added_tokens\": [], \"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"model\": " \
    "{\"type\": \"WordLevel\", \"unk_token\": \"none\", \"vocab\": {\"none\": 0, \"red\": 5, \"green\": 6, "  \
    "\"blue\": 7}}}"

static struct daemon *the_daemon;
static char *folder;

/* Writes the model "words": an encoder and a decoder, with a tokenizer. */
static void write_words(char path[256])
{
    struct checkpoint checkpoint = checkpoint_read("linear_attention_encoder_decoder");
    char file[300];
    snprintf(path, 256, "%s/words", folder);
    checkpoint_write(&checkpoint, path, 0);
    checkpoint_free(&checkpoint);
    snprintf(file, sizeof file, "%s/tokenizer.json", path);
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    fputs(TOKENIZER, out);
    assert_int_equal(fclose(out), 0);
}

static int start(void **state)
{
    (void)state;
    char words[256];
    folder = folder_make();
    write_words(words);
    the_daemon = daemon_start(
        ARGUMENTS("--model", words, "--model", "pair=tests/reference/linear_attention_encoder_decoder", "--model",
                  "masked=tests/reference/linear_attention_lm", "--model", "rows=tests/reference/linformer_attention",
                  "--model", "decoder=tests/reference/linformer_pytorch_decoder", "--model",
                  "call=tests/reference/linear_multihead_attention_attn_mask", "--model",
                  "keras=tests/reference/keras_attention_mask", "--model",
                  "exact=tests/reference/linformer_pytorch_enc_dec", "--max-client-batch-size", "6"));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    daemon_stop(the_daemon);
    folder_remove(folder);
    free(folder);
    return 0;
}

static json_t *post(const char *path, const char *model, const char *rest)
{
    char body[16384];
    int length = snprintf(body, sizeof body, "{\"model\": \"%s\", %s}", model, rest);
    assert_in_range(length, 1, sizeof body - 1);
    return daemon_post_json(the_daemon, path, body);
}

static void expect_same(const char *path, const char *model, const char *one, const char *other)
{
    json_t *a = post(path, model, one), *b = post(path, model, other);
    if (!json_equal(a, b))
        fail_msg("%s: %s and %s have different answers", path, one, other);
    json_decref(a);
    json_decref(b);
}

static void expect_different(const char *path, const char *model, const char *one, const char *other)
{
    json_t *a = post(path, model, one), *b = post(path, model, other);
    assert_false(json_equal(a, b));
    json_decref(a);
    json_decref(b);
}

#define SOURCE "[5, 6, 7]"
#define TARGET "[1, 2, 3, 4]"

static void three_forms_of_named_inputs_have_the_same_answer(void **state)
{
    (void)state;
    static const char *const paths[] = {"/embed", "/embed_all", "/logits"};
    for (size_t i = 0; i < LENGTH(paths); i++) {
        const char *beside = "\"inputs\": " SOURCE ", \"tgt\": " TARGET;
        expect_same(paths[i], "pair", beside, "\"inputs\": {\"src\": " SOURCE ", \"tgt\": " TARGET "}");
        expect_same(paths[i], "pair", beside, "\"src\": " SOURCE ", \"tgt\": " TARGET);
        expect_same(paths[i], "pair", beside, "\"src\": [" SOURCE "], \"tgt\": [" TARGET "]");
        expect_same(paths[i], "pair", beside, "\"inputs\": {\"src\": " SOURCE "}, \"tgt\": " TARGET);
        expect_same(paths[i], "pair", beside,
                    "\"inputs\": {\"src\": " SOURCE ", \"src_mask\": null}, \"tgt\": " TARGET);
        expect_different(paths[i], "pair", beside, "\"inputs\": [5, 6, 8], \"tgt\": " TARGET);
        expect_different(paths[i], "pair", beside, "\"inputs\": " SOURCE ", \"tgt\": [1, 2, 3, 5]");
    }
}

/* Compares item i of the answer to `all` with the answer to each[i]. */
static void expect_items(const char *path, const char *all, const char *const *each, size_t count)
{
    json_t *list = post(path, "pair", all);
    assert_int_equal(json_array_size(list), count);
    for (size_t i = 0; i < count; i++) {
        json_t *alone = post(path, "pair", each[i]);
        assert_true(json_equal(json_array_get(list, i), json_array_get(alone, 0)));
        json_decref(alone);
    }
    json_decref(list);
}

static void several_targets_can_share_one_source(void **state)
{
    (void)state;
    static const char *const each[] = {"\"src\": " SOURCE ", \"tgt\": [1, 2]", "\"src\": " SOURCE ", \"tgt\": [3]",
                                       "\"src\": " SOURCE ", \"tgt\": [1, 4, 5]"};
    static const char *const sources[] = {"\"src\": [5], \"tgt\": [1, 2]", "\"src\": [6, 7], \"tgt\": [1, 2]"};
    static const char *const pairs[] = {"\"src\": [5], \"tgt\": [1, 2]", "\"src\": [6, 7], \"tgt\": [3]"};
    expect_items("/logits", "\"src\": " SOURCE ", \"tgt\": [[1, 2], [3], [1, 4, 5]]", each, 3);
    expect_items("/embed", "\"inputs\": {\"src\": [" SOURCE "], \"tgt\": [[1, 2], [3], [1, 4, 5]]}", each, 3);
    expect_items("/embed_all", "\"src\": [[5], [6, 7]], \"tgt\": [1, 2]", sources, 2);
    expect_items("/logits", "\"src\": [[5], [6, 7]], \"tgt\": [[1, 2], [3]]", pairs, 2);
}

static void rows_of_an_answer_are_those_of_the_target(void **state)
{
    (void)state;
    json_t *list = post("/logits", "pair", "\"src\": " SOURCE ", \"tgt\": " TARGET ", \"targets\": \"next\"");
    json_t *given = post("/logits", "pair", "\"src\": " SOURCE ", \"tgt\": " TARGET ", \"targets\": [2, 3, 4, -100]");
    assert_int_equal(json_array_size(json_object_get(json_array_get(list, 0), "logprobs")), 4);
    assert_true(json_equal(list, given));
    json_decref(list);
    json_decref(given);
    expect_failure(the_daemon, "/logits",
                   "{\"model\": \"pair\", \"src\": [[5, 6, 7]], \"tgt\": [1, 2], \"positions\": [2]}", 422,
                   "Validation", "positions[0] is 2, but tgt has 2 tokens");
}

static void masks_are_booleans_or_numbers(void **state)
{
    (void)state;
    const char *plain = "\"inputs\": [[5, 6, 7], [8, 9]]";
    const char *some = "\"inputs\": [[5, 6, 7], [8, 9]], \"input_mask\": [[true, false, true], [true, true]]";
    expect_different("/logits", "masked", plain, some);
    expect_same("/logits", "masked", some, "\"inputs\": [[5, 6, 7], [8, 9]], \"input_mask\": [[1, 0, 1], [1, 1]]");
    expect_same("/logits", "masked", some,
                "\"inputs\": {\"x\": [[5, 6, 7], [8, 9]], \"input_mask\": [[1, 0, true], [true, 1]]}");
    expect_same("/logits", "masked", plain, "\"inputs\": [[5, 6, 7], [8, 9]], \"input_mask\": [[1, 1, 1], [1, 1]]");
    expect_same("/embed", "masked", "\"inputs\": [5, 6], \"input_mask\": [1, 0]",
                "\"inputs\": [[5, 6]], \"input_mask\": [[true, false]]");
    expect_different("/logits", "pair", "\"src\": " SOURCE ", \"tgt\": " TARGET,
                     "\"src\": " SOURCE ", \"tgt\": " TARGET ", \"src_mask\": [1, 1, 0]");
    expect_different("/logits", "pair", "\"src\": " SOURCE ", \"tgt\": " TARGET,
                     "\"src\": " SOURCE ", \"tgt\": " TARGET ", \"tgt_mask\": [1, 0, 1, 1]");
}

static void a_mask_is_cut_like_its_sequence(void **state)
{
    (void)state;
    enum { LONG = 70, MAX_LENGTH = 64 };
    char ids[512] = "", mask[512] = "", cut_ids[512] = "", cut_mask[512] = "", body[2048], cut[2048];
    for (int i = 0; i < LONG; i++) {
        char id[16], bit[16];
        snprintf(id, sizeof id, "%s%d", i % MAX_LENGTH == 0 ? "" : ",", i % 50);
        snprintf(bit, sizeof bit, "%s%d", i % MAX_LENGTH == 0 ? "" : ",", i % 3 > 0);
        snprintf(ids + strlen(ids), 16, "%s%d", i == 0 ? "" : ",", i % 50);
        snprintf(mask + strlen(mask), 16, "%s%d", i == 0 ? "" : ",", i % 3 > 0);
        if (i < LONG - MAX_LENGTH)
            continue;
        snprintf(cut_ids + strlen(cut_ids), 16, "%s%d", i == LONG - MAX_LENGTH ? "" : ",", i % 50);
        snprintf(cut_mask + strlen(cut_mask), 16, "%s%d", i == LONG - MAX_LENGTH ? "" : ",", i % 3 > 0);
    }
    snprintf(body, sizeof body,
             "\"inputs\": [[%s], [1, 2]], \"input_mask\": [[%s], [1, 0]], \"truncate\": true, "
             "\"truncation_direction\": \"left\"",
             ids, mask);
    snprintf(cut, sizeof cut, "\"inputs\": [[%s], [1, 2]], \"input_mask\": [[%s], [true, false]]", cut_ids, cut_mask);
    expect_same("/logits", "masked", body, cut);
}

static void each_named_input_can_be_a_text(void **state)
{
    (void)state;
    expect_same("/logits", "words", "\"inputs\": \"red blue\", \"tgt\": \"green\"", "\"src\": [5, 7], \"tgt\": [6]");
    expect_same("/embed", "words", "\"inputs\": {\"src\": \"red blue\", \"tgt\": [\"green red\", [7]]}",
                "\"src\": [5, 7], \"tgt\": [[6, 5], [7]]");
    expect_failure(the_daemon, "/logits", "{\"model\": \"pair\", \"src\": [5], \"tgt\": \"green\"}", 422, "Validation",
                   "tgt is a text, but model \"pair\" has no tokenizer");
}

/* The model "rows" has the inputs x and `context`, the model "decoder" has `tensor` and `embeddings`. The key
 * `embeddings` of a request also stands for x. Without `context`, the model "rows" reads x instead. */
static void inputs_of_floats_are_found_by_name(void **state)
{
    (void)state;
    json_t *rows = json_array();
    for (int r = 0; r < 32; r++) {
        json_t *row = json_array();
        for (int c = 0; c < 32; c++)
            json_array_append_new(row, json_real(sin(r * 32 + c)));
        json_array_append_new(rows, row);
    }
    json_t *few = json_array(), *narrow = json_array();
    for (size_t r = 0; r < 32; r++) {
        json_t *row = json_array();
        for (size_t c = 0; c < 24; c++)
            json_array_append(row, json_array_get(json_array_get(rows, r), c));
        json_array_append_new(narrow, row);
        if (r < 24)
            json_array_append(few, json_array_get(rows, r));
    }
    json_t *forms[][2] = {
        {json_pack("{s:s,s:O,s:O}", "model", "rows", "embeddings", few, "context", few),
         json_pack("{s:s,s:{s:O}}", "model", "rows", "inputs", "x", few)},
        {json_pack("{s:s,s:O,s:O}", "model", "decoder", "tensor", narrow, "embeddings", narrow),
         json_pack("{s:s,s:{s:O,s:O}}", "model", "decoder", "inputs", "tensor", narrow, "embeddings", narrow)},
    };
    for (size_t i = 0; i < LENGTH(forms); i++) {
        json_t *answers[2];
        for (int k = 0; k < 2; k++) {
            char *body = json_dumps(forms[i][k], JSON_COMPACT);
            answers[k] = daemon_post_json(the_daemon, "/embed_all", body);
            json_decref(forms[i][k]);
            free(body);
        }
        assert_true(json_equal(answers[0], answers[1]));
        json_decref(answers[0]);
        json_decref(answers[1]);
    }
    json_decref(rows);
    json_decref(few);
    json_decref(narrow);
}

/* Returns rows of shape (length, 24), or of shape (length, 1, 24) if `calls` is set. */
static json_t *some_rows(int length, double phase, bool calls)
{
    json_t *rows = json_array();
    for (int r = 0; r < length; r++) {
        json_t *row = json_array();
        for (int c = 0; c < 24; c++)
            json_array_append_new(row, json_real(sin(r * 24 + c + phase)));
        json_array_append_new(rows, calls ? json_pack("[o]", row) : row);
    }
    return rows;
}

static json_t *some_tensor(const char *name, int length, double phase)
{
    return json_pack("{s:s,s:s,s:[i,i,i],s:o}", "name", name, "datatype", "FP32", "shape", length, 1, 24, "data",
                     some_rows(length, phase, true));
}

/* The first value decides whether the mask of LinearMultiheadAttention consists of floats. */
static void a_mask_of_booleans_or_floats_cannot_mix_them(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"[0.5,true,0,0,0,0,0,0]",
         "inputs.attn_mask[0][1] is a boolean, a number like the first value of the mask was expected"},
        {"[0,true,0,0,0,0,0,0]",
         "inputs.attn_mask[0][1] is a boolean, a number like the first value of the mask was expected"},
        {"[true,0.5,0,0,0,0,0,0]",
         "inputs.attn_mask[0][1] is a float, true or false like the first value of the mask was expected"},
        {"[null,true,0,0,0,0,0,0]", "inputs.attn_mask[0][0] is null, true, false or a number was expected"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        json_t *body = json_pack("{s:s,s:{s:o,s:o,s:o,s:[o]}}", "model", "call", "inputs", "query",
                                 some_rows(1, 0, false), "key", some_rows(8, 1, false), "value", some_rows(8, 2, false),
                                 "attn_mask", json_loads(cases[i][0], 0, NULL));
        char *text = json_dumps(body, 0);
        expect_failure(the_daemon, "/embed_all", text, 422, "Validation", cases[i][1]);
        free(text);
        json_decref(body);
    }
}

/* Each item is a separate call with a batch of 1. */
static void each_item_has_the_result_of_a_separate_call(void **state)
{
    (void)state;
    json_t *mask = json_pack("[[b,b,b,b,b,b,b,b]]", 0, 1, 0, 0, 1, 0, 0, 0);
    json_array_append(mask, json_array_get(mask, 0));
    json_t *native = json_pack("{s:s,s:{s:o,s:o,s:o,s:O}}", "model", "call", "inputs", "query", some_rows(2, 0, false),
                               "key", some_rows(8, 1, false), "value", some_rows(8, 2, false), "attn_mask", mask);
    json_t *call =
        json_pack("{s:[o,o,o,{s:s,s:s,s:[i,i],s:O}]}", "inputs", some_tensor("query", 2, 0), some_tensor("key", 8, 1),
                  some_tensor("value", 8, 2), "name", "attn_mask", "datatype", "BOOL", "shape", 2, 8, "data", mask);
    char *native_body = json_dumps(native, 0), *call_body = json_dumps(call, 0);
    json_t *rows = daemon_post_json(the_daemon, "/embed_all", native_body);
    json_t *answer = daemon_post_json(the_daemon, "/v2/models/call/infer", call_body);
    const json_t *data = json_object_get(json_array_get(json_object_get(answer, "outputs"), 0), "data");
    assert_int_equal(json_array_size(data), 48);
    for (size_t i = 0; i < 48; i++)
        assert_true(json_number_at(json_array_get(json_array_get(rows, 0), i / 24), i % 24) == json_number_at(data, i));
    free(native_body);
    free(call_body);
    json_decref(rows);
    json_decref(answer);
    json_decref(native);
    json_decref(call);
    json_decref(mask);
}

static void wrong_requests_say_what_is_expected(void **state)
{
    (void)state;
    static const struct {
        const char *model, *rest, *part;
    } cases[] = {
        {"pair", "\"inputs\": [5]", "model \"pair\" needs the inputs \"src\", \"tgt\", but \"tgt\" is missing"},
        {"pair", "\"tgt\": [5]", "model \"pair\" accepts ids, but `inputs` is missing"},
        {"pair", "\"inputs\": {\"source\": [5], \"tgt\": [5]}",
         "inputs.source is unknown; the inputs of model \"pair\" are \"src\", \"tgt\", \"src_mask\", \"tgt_mask\""},
        {"pair", "\"inputs\": {\"src\": [5], \"tgt\": [5]}, \"tgt\": [6]",
         "both tgt and inputs.tgt are given, one was expected"},
        {"pair", "\"inputs\": [5], \"src\": [5], \"tgt\": [6]", "both src and inputs are given"},
        {"pair", "\"inputs\": {}", "inputs is empty; the inputs of model \"pair\" are \"src\", \"tgt\""},
        {"pair", "\"src\": [[5], [6]], \"tgt\": [[1], [2], [3]]",
         "tgt has 3 items, but other inputs have 2: the same number, or one item for all, was expected"},
        {"pair", "\"src\": [5], \"tgt\": [[1], [1], [1], [1], [1], [1], [1]]",
         "the request has 7 inputs, this server accepts at most 6 in one request"},
        {"pair", "\"src\": [5], \"tgt\": []", "tgt is empty"},
        {"pair", "\"src\": [5], \"tgt\": [[1], []]", "tgt[1] is empty"},
        {"pair", "\"src\": [5], \"tgt\": {}", "tgt is an object, a list of values was expected"},
        {"pair", "\"src\": [5], \"tgt\": 5", "tgt is an integer, a list of values was expected"},
        {"pair", "\"src\": [5], \"tgt\": [[1], [61]]", "tgt[1][0] is 61; ids of input \"tgt\" are below 61"},
        {"pair", "\"src\": [5], \"tgt\": [1, -1]", "tgt[1] is -1; ids of input \"tgt\" are at least 0 and below 61"},
        {"pair", "\"src\": [5], \"tgt\": [1, 4294967297]", "tgt[1] is 4294967297"},
        {"pair", "\"src\": [5], \"tgt\": [1, 2.5]", "tgt[1] is a float, an integer id was expected"},
        {"pair", "\"src\": [5], \"tgt\": [1, \"a\"]", "tgt[1] is a string, an integer id was expected"},
        {"pair", "\"src\": [5], \"tgt\": [[[1]]]", "tgt[0][0] is a list, an integer id was expected"},
        {"pair", "\"src\": [5], \"tgt\": [1], \"tgt_mask\": [1, 1]", "tgt_mask"},
        {"pair", "\"src\": [5], \"tgt\": [1], \"tgt_mask\": [2]", "tgt_mask[0] is an integer, true, false, 1 or 0"},
        {"pair", "\"src\": [5], \"tgt\": [1], \"tgt_mask\": [1.0]", "tgt_mask[0] is a float, true, false, 1 or 0"},
        {"pair", "\"src\": [5], \"tgt\": [1], \"tgt_mask\": \"1\"",
         "tgt_mask is a text, a list was expected: texts are supported only"},
        {"pair", "\"src\": [5], \"tgt\": [1], \"inputs\": {\"tgt_mask\": [null]}",
         "inputs.tgt_mask[0] is null, true, false, 1 or 0 was expected"},
        {"masked", "\"inputs\": [[5, 6], [7, 8]], \"input_mask\": [[1, 0], [1, 1], [1, 1]]",
         "input_mask has 3 items, but other inputs have 2"},
        {"rows", "\"embeddings\": [[1]], \"context\": [[1, 2]]", "embeddings[0] has 1 values"},
        {"keras", "\"embeddings\": [[1]], \"value\": [[1]]", "embeddings[0] has 1 values"},
        {"exact", "\"inputs\": [5, 6]", "32"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        char body[512];
        snprintf(body, sizeof body, "{\"model\": \"%s\", %s}", cases[i].model, cases[i].rest);
        expect_failure(the_daemon, "/embed_all", body, 422, "Validation", cases[i].part);
    }
}

/* Every second list of `context` is empty. */
static void lists_of_uneven_lengths_are_refused(void **state)
{
    (void)state;
    json_t *row = json_array(), *rows = json_array(), *ragged = json_array();
    for (int c = 0; c < 32; c++)
        json_array_append_new(row, json_integer(c));
    json_array_append(rows, row);
    for (int r = 0; r < 20; r++) {
        json_array_append(ragged, row);
        json_array_append_new(ragged, json_array());
    }
    json_t *body = json_pack("{s:s,s:O,s:O}", "model", "rows", "embeddings", rows, "context", ragged);
    char *text = json_dumps(body, 0);
    expect_failure(the_daemon, "/embed", text, 422, "Validation",
                   "context[1] is a list of 0 elements, a list of 32 was expected, like the lists before");
    free(text);
    json_decref(body);
    json_decref(row);
    json_decref(rows);
    json_decref(ragged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_forms_of_named_inputs_have_the_same_answer),
        cmocka_unit_test(several_targets_can_share_one_source),
        cmocka_unit_test(rows_of_an_answer_are_those_of_the_target),
        cmocka_unit_test(masks_are_booleans_or_numbers),
        cmocka_unit_test(a_mask_is_cut_like_its_sequence),
        cmocka_unit_test(each_named_input_can_be_a_text),
        cmocka_unit_test(inputs_of_floats_are_found_by_name),
        cmocka_unit_test(a_mask_of_booleans_or_floats_cannot_mix_them),
        cmocka_unit_test(each_item_has_the_result_of_a_separate_call),
        cmocka_unit_test(wrong_requests_say_what_is_expected),
        cmocka_unit_test(lists_of_uneven_lengths_are_refused),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
