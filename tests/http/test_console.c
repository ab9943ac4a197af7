/* GET / for browsers and for other clients, and the routes that the console needs: the plan of a model, and the picture
 * of its attention. tests/console runs the page in a browser. */
#include "tests/http/the_daemon.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define BROWSER "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"

static struct answer get_with(const char *path, const char *header, const char *another)
{
    return daemon_call(the_daemon, &(struct call){.path = path, .headers = {header, another}});
}

/* ---- The page ---- */

static void browsers_get_the_console(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        bool page;
    } cases[] = {
        {BROWSER, true},
        {"Accept: text/html", true},
        {"Accept: TEXT/HTML;charset=utf-8", true},
        {"Accept: application/json, text/html ; q=0.5", true},
        {"Accept: text/html;level=1;q=0.001", true},
        {"Accept: */*", false},
        {"Accept:", false},
        {"Accept: text/*", false},
        {"Accept: text/htmlx, xtext/html", false},
        {"Accept: text/html;q=0, */*", false},
        {"Accept: text/html; Q=0.0", false},
        {"Accept: application/json", false},
        {"Accept: ,;,,", false},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct answer answer = get_with("/", cases[i].accept, NULL);
        char *vary = answer_header(&answer, "Vary");
        assert_int_equal(answer.status, 200);
        if (!strstr(answer.body, "<title>linformerd console</title>") == cases[i].page)
            fail_msg("%s: not the expected page", cases[i].accept);
        if (!strstr(answer.body, "POST /embed\n") != cases[i].page)
            fail_msg("%s: not the expected list", cases[i].accept);
        assert_non_null(vary);
        assert_int_equal(strncmp(vary, "Accept", 6), 0);
        free(vary);
        answer_free(&answer);
    }
}

static void the_page_has_its_security_headers(void **state)
{
    (void)state;
    struct answer answer = get_with("/", BROWSER, NULL);
    struct answer head = daemon_call(the_daemon, &(struct call){.method = "HEAD", .path = "/", .headers = {BROWSER}});
    const struct answer *both[] = {&answer, &head};
    for (size_t i = 0; i < LENGTH(both); i++) {
        expect_header(both[i], "Content-Type", "text/html; charset=utf-8");
        expect_header(both[i], "Cache-Control", "no-cache");
        expect_header(both[i], "Vary", "Accept, Accept-Encoding");
        expect_header(both[i], "X-Content-Type-Options", "nosniff");
        expect_header(both[i], "X-Frame-Options", "DENY");
        expect_header(both[i], "Referrer-Policy", "no-referrer");
    }
    assert_int_equal(head.status, 200);
    assert_int_equal(head.length, 0);
    answer_free(&answer);
    answer_free(&head);
}

/* Returns the text of the only element with this tag. */
static char *element_text(const char *page, const char *tag)
{
    char open[16], close[16];
    snprintf(open, sizeof open, "<%s>", tag);
    snprintf(close, sizeof close, "</%s>", tag);
    const char *begin = strstr(page, open), *end = begin ? strstr(begin, close) : NULL;
    assert_non_null(end);
    assert_null(strstr(begin + 1, open));
    begin += strlen(open);
    return strndup(begin, (size_t)(end - begin));
}

/* Writes the base64 of the SHA-256 of a text. coreutils compute the hash. */
static void hash_of(const char *text, char hash[45])
{
    char name[] = "/tmp/linformerd-console-XXXXXX", command[128], digits[65] = "";
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t bytes[33] = {0};
    int descriptor = mkstemp(name);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, text, strlen(text)), strlen(text));
    close(descriptor);
    snprintf(command, sizeof command, "sha256sum %s", name);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%64s", digits), 1);
    pclose(pipe);
    unlink(name);
    for (int i = 0; i < 32; i++)
        assert_int_equal(sscanf(digits + 2 * i, "%2hhx", &bytes[i]), 1);
    for (int i = 0; i < 11; i++) {
        unsigned group = (unsigned)bytes[3 * i] << 16 | (unsigned)bytes[3 * i + 1] << 8 | bytes[3 * i + 2];
        for (int j = 0; j < 4; j++)
            hash[4 * i + j] = letters[group >> (18 - 6 * j) & 63];
    }
    strcpy(hash + 43, "="); /* the last group of base64 has only two bytes, so it ends in "=" */
}

static void the_security_policy_allows_only_the_page(void **state)
{
    (void)state;
    char expected[1024], script_hash[45], style_hash[45], page_hash[45], tag[64];
    struct answer answer = get_with("/", BROWSER, NULL);
    char *script = element_text(answer.body, "script"), *style = element_text(answer.body, "style");
    hash_of(script, script_hash);
    hash_of(style, style_hash);
    hash_of(answer.body, page_hash);
    snprintf(expected, sizeof expected,
             "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; connect-src 'self'; "
             "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
             "require-trusted-types-for 'script'; trusted-types 'none'",
             script_hash, style_hash);
    snprintf(tag, sizeof tag, "W/\"%s\"", page_hash);
    expect_header(&answer, "Content-Security-Policy", expected);
    expect_header(&answer, "ETag", tag);
    assert_true(strlen(script) > 10000 && strlen(style) > 1000);
    assert_null(strstr(script, "innerHTML"));
    assert_null(strstr(script, "eval("));
    assert_null(strstr(answer.body, "<script "));
    assert_null(strstr(answer.body, " style=\""));
    assert_null(strstr(answer.body, "https://"));
    free(script);
    free(style);
    answer_free(&answer);
}

static void a_current_page_is_not_sent_again(void **state)
{
    (void)state;
    struct answer answer = get_with("/", BROWSER, NULL);
    char *tag = answer_header(&answer, "ETag"), header[256];
    answer_free(&answer);
    static const char *const before[] = {"", "\"other\", ", "*"};
    for (size_t i = 0; i < LENGTH(before); i++) {
        bool any = strcmp(before[i], "*") == 0;
        snprintf(header, sizeof header, "If-None-Match: %s%s", before[i], any ? "" : tag);
        answer = get_with("/", BROWSER, header);
        assert_int_equal(answer.status, 304);
        assert_int_equal(answer.length, 0);
        expect_header(&answer, "ETag", tag);
        answer_free(&answer);
    }
    answer = get_with("/", BROWSER, "If-None-Match: W/\"another\"");
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    snprintf(header, sizeof header, "If-None-Match: %s", tag);
    answer = get_with("/", "Accept: */*", header); /* this ETag belongs to the page for browsers */
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    free(tag);
}

static void the_page_is_compressed_on_request(void **state)
{
    (void)state;
    struct answer plain = get_with("/", BROWSER, NULL),
                  packed = get_with("/", BROWSER, "Accept-Encoding: gzip, deflate");
    char *unpacked = malloc(plain.length + 1);
    z_stream stream = {.next_in = (Bytef *)packed.body,
                       .avail_in = (uInt)packed.length,
                       .next_out = (Bytef *)unpacked,
                       .avail_out = (uInt)plain.length + 1};
    assert_non_null(unpacked);
    assert_null(answer_header(&plain, "Content-Encoding"));
    expect_header(&packed, "Content-Encoding", "gzip");
    assert_true(packed.length < plain.length / 2);
    assert_int_equal(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(stream.total_out, plain.length);
    assert_memory_equal(unpacked, plain.body, plain.length);
    inflateEnd(&stream);
    free(unpacked);
    answer_free(&plain);
    answer_free(&packed);
}

/* ---- Failures ---- */

static void expect_refusal(const struct daemon *daemon, const char *path, long status, const char *part)
{
    struct answer answer = daemon_get(daemon, path);
    const char *error = json_string_value(json_object_get(answer.json, "error"));
    if (answer.status != status || !error || !strstr(error, part))
        fail_msg("%.200s: %ld %s", path, answer.status, answer.body);
    answer_free(&answer);
}

/* ---- The plan ---- */

/* Returns the number behind a word at the beginning of a line of --explain. */
static double explained(const char *text, const char *word)
{
    char line[64];
    snprintf(line, sizeof line, "\n%s ", word);
    const char *found = strstr(text, line);
    assert_non_null(found);
    return strtod(found + strlen(line), NULL);
}

static void the_plan_has_the_numbers_of_explain(void **state)
{
    (void)state;
    const char *binary = getenv("LINFORMERD");
    char command[512], *text = calloc(1, 1 << 20), row[128];
    assert_non_null(text);
    snprintf(command, sizeof command, "'%s' --explain tests/models/bytes 2>/dev/null",
             binary ? binary : "build/linformerd");
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_true(fread(text, 1, (1 << 20) - 1, pipe) > 0);
    pclose(pipe);

    struct answer answer = daemon_get(the_daemon, "/v2/models/builtin/plan");
    json_t *steps = json_object_get(answer.json, "steps"), *step;
    size_t i;
    assert_int_equal(answer.status, 200);
    assert_true(json_array_size(steps) > 10);
    json_array_foreach (steps, i, step) {
        long long flops = json_integer_value(json_object_get(step, "flops"));
        long long bytes = json_integer_value(json_object_get(step, "bytes"));
        snprintf(row, sizeof row, "\n%4zu %-16s %14lld %13lld ", i,
                 json_string_value(json_object_get(step, "operation")), flops, bytes);
        if (!strstr(text, row))
            fail_msg("--explain has no line \"%s\"", row + 1);
    }
    snprintf(row, sizeof row, "\n%4zu ", json_array_size(steps));
    assert_null(strstr(text, row));
    static const char *const words[] = {"flops", "weights_bytes", "arena_bytes"};
    for (size_t w = 0; w < LENGTH(words); w++)
        assert_true(json_number_value(json_object_get(answer.json, words[w])) == explained(text, words[w]));
    free(text);
    answer_free(&answer);
}

static void shapes_of_the_plan_follow_the_number_of_tokens(void **state)
{
    (void)state;
    struct answer few = daemon_get(the_daemon, "/v2/models/builtin/plan?tokens=7");
    const json_t *first = json_array_get(json_object_get(few.json, "steps"), 0);
    const json_t *shape = json_object_get(json_object_get(first, "writes"), "shape");
    assert_int_equal(json_integer_value(json_object_get(few.json, "rows")), 7);
    assert_string_equal(json_string_value(json_object_get(first, "operation")), "embed");
    assert_string_equal(json_string_value(json_object_get(first, "formula")), "y[r] = T[x[r]]");
    assert_int_equal(json_integer_value(json_array_get(shape, 0)), 7);
    assert_int_equal(json_integer_value(json_array_get(shape, 1)), 192);
    answer_free(&few);
    static const char *const wrong[] = {"0", "", "-1", "1025", "7x", "99999999999999999999", "%20"};
    char path[128];
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        snprintf(path, sizeof path, "/v2/models/builtin/plan?tokens=%s", wrong[i]);
        expect_refusal(the_daemon, path, 400, "an integer from 1 to 1024 was expected");
    }
    expect_refusal(the_daemon, "/v2/models/nobody/plan", 404, "nobody");
    expect_refusal(the_daemon, "/v2/models/nobody/plan?tokens=7", 404, "nobody");
}

/* Every kind of plan becomes valid JSON: classes, images, calls with several inputs, modules. */
static void plans_of_all_kinds_are_json(void **state)
{
    (void)state;
    static const char *const folders[] = {"tests/reference/linear_attention_encoder_decoder",
                                          "tests/reference/linear_attention_image",
                                          "tests/reference/linear_multihead_attention_default",
                                          "tests/reference/keras_default",
                                          "tests/reference/linear_attention_lm_everything",
                                          "tests/modules/reference/biot",
                                          "tests/modules/reference/vit_linformer",
                                          "tests/modules/reference/two_towers"};
    char model[256], path[128];
    for (size_t i = 0; i < LENGTH(folders); i++) {
        snprintf(model, sizeof model, "m=%s", folders[i]);
        struct daemon *daemon = daemon_start(ARGUMENTS("--model", model));
        for (int tokens = 0; tokens < 2; tokens++) {
            snprintf(path, sizeof path, "/v2/models/m/plan%s", tokens ? "?tokens=1" : "");
            struct answer answer = daemon_get(daemon, path);
            if (answer.status != 200 || json_array_size(json_object_get(answer.json, "steps")) == 0)
                fail_msg("%s: %ld %s", folders[i], answer.status, answer.body);
            answer_free(&answer);
        }
        daemon_stop(daemon);
    }
}

/* ---- The picture of attention ---- */

struct picture {
    png_image image;
    uint8_t *pixels; /* (height, width, 3) */
};

static struct picture get_picture(const char *path)
{
    struct picture picture = {.image.version = PNG_IMAGE_VERSION};
    struct answer answer = daemon_get(the_daemon, path);
    if (answer.status != 200)
        fail_msg("%s: %ld %s", path, answer.status, answer.body);
    expect_header(&answer, "Content-Type", "image/png");
    assert_true(png_image_begin_read_from_memory(&picture.image, answer.body, answer.length));
    picture.image.format = PNG_FORMAT_RGB;
    picture.pixels = malloc(PNG_IMAGE_SIZE(picture.image));
    assert_true(png_image_finish_read(&picture.image, NULL, picture.pixels, 0, NULL));
    answer_free(&answer);
    return picture;
}

/* Returns the red component of a pixel. Pixels of larger weights have less red. */
static int red_at(const struct picture *picture, size_t x, size_t y)
{
    return picture->pixels[3 * (y * picture->image.width + x)];
}

static bool is_coloured(const struct picture *picture, size_t at)
{
    const uint8_t *rgb = picture->pixels + 3 * at;
    return rgb[0] != rgb[1] || rgb[1] != rgb[2]; /* background and text are grey, so their components are equal */
}

/* The cell of a larger weight is darker. The expected weights are those of /infer. */
static void cells_of_larger_weights_are_darker(void **state)
{
    (void)state;
    enum { CELL = 5, LAYER = 3, HEAD = 2, N = 10, K = 32 };
    char path[128];
    snprintf(path, sizeof path, "/v2/models/builtin/attention.png?text=an+example&layer=%d&head=%d&cell=%d", LAYER,
             HEAD, CELL);
    struct picture picture = get_picture(path);
    json_t *answer = daemon_post_json(the_daemon, "/v2/models/builtin/infer",
                                      "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"BYTES\", \"shape\": [1], "
                                      "\"data\": [\"an example\"]}], \"outputs\": [{\"name\": \"attention.3\"}]}");
    const json_t *data = json_object_get(json_array_get(json_object_get(answer, "outputs"), 0), "data");
    assert_int_equal(json_array_size(data), 4 * N * K);
    size_t at = 0;
    while (!is_coloured(&picture, at))
        at++;
    size_t left = at % picture.image.width, top = at / picture.image.width, compared = 0;
    double most = 0;
    for (size_t i = 0; i < N * K; i++)
        most = json_number_at(data, HEAD * N * K + i) > most ? json_number_at(data, HEAD * N * K + i) : most;
    for (size_t i = 0; i < N * K; i++)
        for (size_t j = 0; j < N * K; j++) {
            double difference = json_number_at(data, HEAD * N * K + i) - json_number_at(data, HEAD * N * K + j);
            if (difference < most * 5 / 254)
                continue;
            int more = red_at(&picture, left + i % K * CELL, top + i / K * CELL);
            int less = red_at(&picture, left + j % K * CELL + CELL - 1, top + j / K * CELL + CELL - 1);
            assert_true(more < less);
            compared++;
        }
    assert_true(compared > 1000);
    json_decref(answer);
    free(picture.pixels);
}

static void pictures_have_the_size_asked_for(void **state)
{
    (void)state;
#define AT "/v2/models/builtin/attention.png?ids=100,101,102,103"
    struct picture all = get_picture(AT "&cell=8"), one = get_picture(AT "&cell=8&layer=1");
    struct picture head = get_picture(AT "&cell=8&head=3"), rows = get_picture(AT "&cell=8&rows=1");
    struct picture cells = get_picture(AT "&cell=9"), each = get_picture(AT "&cell=8&scale=each");
#undef AT
    /* `all` has three more layers than `one`, and the gaps between them */
    assert_int_equal(all.image.height - one.image.height, 3 * (4 * 8 + 8));
    assert_int_equal(all.image.width - head.image.width, 3 * (32 * 8 + 8));
    assert_int_equal(all.image.height - rows.image.height, 4 * 3 * 8);
    assert_int_equal(cells.image.width - all.image.width, 4 * 32);
    assert_int_equal(each.image.width, all.image.width);
    assert_memory_not_equal(each.pixels, all.pixels, PNG_IMAGE_SIZE(all.image));
    const struct picture *pictures[] = {&all, &one, &head, &rows, &cells, &each};
    for (size_t i = 0; i < LENGTH(pictures); i++)
        free(pictures[i]->pixels);
}

/* The ids of a text give the same picture as the text. With `truncate`, a text that is too long is accepted. */
static void a_text_and_its_ids_have_the_same_picture(void **state)
{
    (void)state;
    struct answer text = daemon_get(the_daemon, "/v2/models/builtin/attention.png?text=ab%20%C3%A9");
    struct answer ids = daemon_get(the_daemon, "/v2/models/builtin/attention.png?ids=100,101,35,198,172");
    assert_int_equal(text.status, 200);
    assert_int_equal(text.length, ids.length);
    assert_memory_equal(text.body, ids.body, text.length);
    answer_free(&text);
    answer_free(&ids);
    char path[2048] = "/v2/models/builtin/attention.png?layer=0&text=";
    size_t length = strlen(path);
    memset(path + length, 'a', 1100);
    expect_refusal(the_daemon, path, 400, "accepts at most 1024");
    strcpy(path + length + 1100, "&truncate=true");
    text = daemon_get(the_daemon, path);
    assert_int_equal(text.status, 200);
    answer_free(&text);
}

static void wrong_queries_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *query, *part;
    } cases[] = {
        {"", "neither text nor ids"},
        {"?text=a&ids=5", "text and ids"},
        {"?text=", "text is empty"},
        {"?text", "text is empty"},
        {"?text=%ff%fe", "text is not UTF-8"},
        {"?ids=", "ids[0] is not an id"},
        {"?ids=5,,6", "ids[1] is not an id"},
        {"?ids=5,6,", "ids[2] is not an id"},
        {"?ids=-1", "ids[0] is not an id"},
        {"?ids=99999999999", "ids[0] is not an id"},
        {"?ids=5,259", "259"},
        {"?ids=5&layer=4", "an integer from 0 to 3 was expected"},
        {"?ids=5&layer=x", "layer is \"x\""},
        {"?ids=5&head=4", "an integer from 0 to 3 was expected"},
        {"?ids=5&rows=0", "rows is \"0\""},
        {"?ids=5&cell=0", "an integer from 1 to 32 was expected"},
        {"?ids=5&cell=33", "an integer from 1 to 32 was expected"},
        {"?ids=5&scale=log", "all or each was expected"},
        {"?ids=5&truncate=yes", "true or false was expected"},
    };
    char path[2048];
    for (size_t i = 0; i < LENGTH(cases); i++) {
        snprintf(path, sizeof path, "/v2/models/builtin/attention.png%s", cases[i].query);
        expect_refusal(the_daemon, path, 400, cases[i].part);
    }
    expect_refusal(the_daemon, "/v2/models/nobody/attention.png?ids=5", 404, "nobody");
    expect_refusal(the_daemon, "/v2/models/builtin-writer/attention.png?ids=5", 400, "has no attention over k");
    strcpy(path, "/v2/models/builtin/attention.png?cell=32&text="); /* 4 layers of 600 rows of 32 pixels */
    size_t length = strlen(path);
    memset(path + length, 'a', 600);
    path[length + 600] = '\0';
    expect_refusal(the_daemon, path, 400, "choose a layer, a head, fewer rows or a smaller cell");
    struct answer answer = daemon_post(the_daemon, "/v2/models/builtin/attention.png?ids=5", "{}");
    assert_int_equal(answer.status, 405);
    answer_free(&answer);
}

static void models_say_which_inputs_a_picture_needs(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", "floats=tests/reference/linformer_encoder", "--model",
                                                   "pair=tests/reference/linear_attention_encoder_decoder", "--model",
                                                   "ids=tests/reference/linformer_lm", "--model",
                                                   "module=tests/modules/reference/token_classifier"));
    expect_refusal(daemon, "/v2/models/floats/attention.png?ids=5", 400, "needs other inputs than one list of ids");
    expect_refusal(daemon, "/v2/models/pair/attention.png?ids=5", 400, "needs other inputs than one list of ids");
    expect_refusal(daemon, "/v2/models/ids/attention.png?text=a", 400, "has no tokenizer");
    static const char *const paths[] = {"/v2/models/ids/attention.png?ids=5,6",
                                        "/v2/models/module/attention.png?ids=5,6,7"};
    for (size_t i = 0; i < LENGTH(paths); i++) {
        struct answer answer = daemon_get(daemon, paths[i]);
        assert_int_equal(answer.status, 200);
        assert_memory_equal(answer.body, "\x89PNG", 4);
        answer_free(&answer);
    }
    daemon_stop(daemon);
}

/* ---- With a key ---- */

static void the_page_needs_no_key_and_its_routes_do(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--api-key", "secret"));
    struct answer answer = daemon_call(daemon, &(struct call){.path = "/", .headers = {BROWSER}});
    assert_int_equal(answer.status, 200);
    assert_null(strstr(answer.body, "secret"));
    answer_free(&answer);
    expect_refusal(daemon, "/v2/models/builtin/plan", 401, "API key");
    expect_refusal(daemon, "/v2/models/builtin/attention.png?ids=5", 401, "API key");
    answer = daemon_call(daemon, &(struct call){.path = "/v2/models/builtin/attention.png?ids=5",
                                                .headers = {"Authorization: Bearer secret"}});
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    daemon_stop(daemon);
}

/* /info lists the routes that serve a model. */
static void info_lists_the_routes_of_a_model(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "[\"/embed\", \"/embed_all\", \"/logits\", \"/fill-mask\", \"/v2/models/{}/attention.png\"]",
        "[\"/embed\", \"/embed_all\", \"/logits\", \"/generate\"]"};
    struct answer answer = daemon_get(the_daemon, "/info");
    for (size_t i = 0; i < LENGTH(expected); i++) {
        json_t *routes = json_loads(expected[i], 0, NULL);
        const json_t *model = json_array_get(json_object_get(answer.json, "models"), i);
        assert_true(json_equal(routes, json_object_get(model, "routes")));
        json_decref(routes);
    }
    answer_free(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(browsers_get_the_console),
        cmocka_unit_test(the_page_has_its_security_headers),
        cmocka_unit_test(the_security_policy_allows_only_the_page),
        cmocka_unit_test(a_current_page_is_not_sent_again),
        cmocka_unit_test(the_page_is_compressed_on_request),
        cmocka_unit_test(the_plan_has_the_numbers_of_explain),
        cmocka_unit_test(shapes_of_the_plan_follow_the_number_of_tokens),
        cmocka_unit_test(plans_of_all_kinds_are_json),
        cmocka_unit_test(cells_of_larger_weights_are_darker),
        cmocka_unit_test(pictures_have_the_size_asked_for),
        cmocka_unit_test(a_text_and_its_ids_have_the_same_picture),
        cmocka_unit_test(wrong_queries_are_refused),
        cmocka_unit_test(models_say_which_inputs_a_picture_needs),
        cmocka_unit_test(the_page_needs_no_key_and_its_routes_do),
        cmocka_unit_test(info_lists_the_routes_of_a_model),
    };
    return cmocka_run_group_tests(tests, the_daemon_start, the_daemon_stop);
}
