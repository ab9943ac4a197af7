/* text: the speed of reading numbers from JSON bodies, and of writing numbers into answers.
 *
 *     text [COUNT]    COUNT: amount of numbers in each large body (2000000) */
#include "server/text/writer.h"
#include "tests/fake_engine.c" /* defines the functions of the engine for this program */
#include "tests/http/native_call.h"
#include "tests/unit/tensors.h"

#include <jansson.h>
#include <stdio.h>
#include <time.h>

enum { RUNS = 7, ROW = 64, MIN_COUNT = ROW * FAKE_COLUMNS };

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void report(const char *name, int64_t count, size_t bytes, double seconds)
{
    printf("%-44s %10.2f us %8.1f M numbers/s %7.0f MB/s\n", name, seconds * 1e6, (double)count / seconds / 1e6,
           (double)bytes / seconds / 1e6);
}

/* Measures the route's decoder several times, and prints the shortest time. The job does not run. */
static void time_read(const char *name, const char *path, const char *body, size_t length, int64_t count, int runs)
{
    struct route_match match;
    double best = 1e9;
    routes_find(all_dialects, "POST", path, &match);
    for (int run = 0; run < runs; run++) {
        struct request request;
        request_open(&request, &native_service, body, length);
        request_begin(&request);
        memcpy(request.parameters, match.parameters, sizeof request.parameters);
        request.header = native_no_header;
        double begin = now_s();
        if (match.route->read(&request) != OUTCOME_RUN) {
            fprintf(stderr, "%s: %s\n", name, request.failure.error.message);
            exit(1);
        }
        request_read_done(&request);
        double took = now_s() - begin;
        best = took < best ? took : best;
        request_close(&request);
    }
    report(name, count, length, best);
}

/* Writes `count` ids, in lists of ROW ids. The texts `before` and `after` enclose them. */
static void write_ids(struct writer *body, const char *before, int64_t count, const char *after)
{
    body->length = 0;
    writer_text(body, before);
    for (int64_t i = 0; i < count; i++) {
        writer_text(body, i % ROW > 0 ? ", " : i > 0 ? "], [" : "[[");
        writer_integer(body, random_size(0, FAKE_VOCABULARY - 20));
    }
    writer_text(body, "]]");
    writer_text(body, after);
}

/* Writes items of ROW rows. `digits` is the precision of the numbers. Python writes a float that was converted to a
 * double with 17 digits. */
static void write_rows(struct writer *body, int64_t count, int digits)
{
    body->length = 0;
    writer_text(body, "{\"model\": \"rows\", \"embeddings\": [");
    for (int64_t i = 0; i < count; i++) {
        int64_t column = i % FAKE_COLUMNS, row = i / FAKE_COLUMNS % ROW;
        writer_text(body, column > 0 ? ", " : row > 0 ? "], [" : i > 0 ? "]], [[" : "[[");
        writer_format(body, "%.*g", digits, (double)random_float());
    }
    writer_text(body, "]]]}");
}

static void time_write(const char *name, const float *values, int64_t count,
                       void (*write)(struct writer *writer, const float *values, int64_t count))
{
    struct writer writer = {0};
    double best = 1e9;
    writer_reserve(&writer, (size_t)count * 17);
    for (int run = 0; run < RUNS; run++) { /* the first run touches the memory for the first time */
        double begin = now_s();
        writer.length = 0;
        write(&writer, values, count);
        double took = now_s() - begin;
        best = took < best ? took : best;
    }
    report(name, count, writer.length, best);
    writer_free(&writer);
}

int main(int argc, char **argv)
{
    int64_t count = argc > 1 ? strtoll(argv[1], NULL, 10) : 2000000;
    struct writer body = {0};
    count = (count < MIN_COUNT ? MIN_COUNT : count) / MIN_COUNT * MIN_COUNT;
    float *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = random_float() / 4;
    native_open();
    json_body_init();
    native_settings.max_client_batch_size = count;
    native_service.results.limit = INT64_MAX / 2;

    write_ids(&body, "{\"model\": \"ids\", \"inputs\": ", 32, "}");
    time_read("read 32 ids", "/embed", body.data, body.length, 32, 10000);
    write_ids(&body, "{\"model\": \"ids\", \"inputs\": ", count, "}");
    time_read("read ids", "/embed", body.data, body.length, count, RUNS);
    write_ids(&body, "{\"model\": \"ids\", \"inp\\u0075ts\": ", count, "}");
    time_read("read ids, by jansson (a key with an escape)", "/embed", body.data, body.length, count, RUNS);
    write_rows(&body, count, 8);
    time_read("read floats of 8 digits", "/embed", body.data, body.length, count, RUNS);
    write_rows(&body, count, 17);
    time_read("read floats of 17 digits", "/embed", body.data, body.length, count, RUNS);
    time_write("write floats", values, count, writer_floats);
    time_write("write base64", values, count, writer_base64);

    writer_free(&body);
    free(values);
    native_close();
    return 0;
}
