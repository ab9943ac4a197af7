/* load REFERENCE URL PROGRESS SEED [large]: sends a constant mix of requests to URL, and compares each answer with the
 * answer of a single daemon at REFERENCE. Ends at SIGTERM, and prints its counts. The exit status is 1 if an answer
 * failed or was wrong. The program writes the number of answers since its start into the file PROGRESS. "large": all
 * bodies are larger than the buffers of the proxies. PAUSE_US in the environment is the pause of each client after an
 * answer, in microseconds.
 *
 * The client itself never sends a request again. */
#include <curl/curl.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 6, REQUESTS = 48, REPORTED = 10 };

/* On processors without AVX-512, rounding may change results (docs/operations.md). Wrong answers differ much more,
 * because the texts are random. */
#define TOLERANCE 1e-4

struct request {
    const char *path;
    char *body;
    long status;    /* status of the reference's answer */
    json_t *answer; /* JSON of the reference's answer, NULL if the answer is not JSON */
};

static struct request requests[REQUESTS];
static const char *base;
static unsigned long long seed;
static useconds_t pause_us; /* pause of each client after an answer */
static volatile sig_atomic_t ended;
static _Atomic long answered, failed, wrong;

static void on_signal(int number)
{
    (void)number;
    ended = 1;
}

/* ---- Requests ---- */

/* xorshift64*. The state must not be 0. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

static char *random_text(uint64_t *state, size_t least, size_t most)
{
    size_t length = least + next_random(state) % (most - least + 1);
    char *text = calloc(1, length + 1);
    for (size_t i = 0; i < length; i++)
        text[i] = "abcdefghijklmnopqrstuvwxyz     "[next_random(state) % 31];
    return text;
}

/* Requests that a model computes, with the same answer each time. Also a text that is only tokenized, and requests that
 * the daemon refuses. Some bodies are larger than 64 KiB, so worker threads of the daemon read them. */
static const struct kind {
    const char *path, *format;
    size_t least, most;
} ordinary[] = {
    {"/embed", "{\"inputs\": \"%s\"}", 1, 400},
    {"/embed", "{\"inputs\": [\"%s\", \"second\"]}", 1, 40},
    {"/embed", "{\"truncate\": true, \"inputs\": \"%s\"}", 70000, 90000},
    {"/logits", "{\"inputs\": \"%s\", \"positions\": \"last\", \"top_k\": 5}", 8, 300},
    {"/v1/embeddings", "{\"model\": \"builtin\", \"input\": \"%s\"}", 1, 200},
    {"/fill-mask", "{\"inputs\": \"%s [MASK]\"}", 1, 200},
    {"/generate", "{\"inputs\": \"%s\", \"parameters\": {\"max_new_tokens\": 8, \"do_sample\": false}}", 1, 60},
    {"/v1/completions", "{\"model\": \"builtin-writer\", \"prompt\": \"%s\", \"max_tokens\": 6, \"temperature\": 0}", 1,
     60},
    {"/tokenize", "{\"inputs\": \"%s\"}", 1, 200},
    {"/embed", "{\"inputs\": 7, \"text\": \"%s\"}", 1, 20},
    {"/nowhere", "{\"inputs\": \"%s\"}", 1, 20},
};

/* These bodies are larger than the buffers of HAProxy and nginx, which have 256 KiB. */
static const struct kind large[] = {
    {"/embed", "{\"truncate\": true, \"inputs\": \"%s\"}", 300000, 500000},
    {"/logits", "{\"truncate\": true, \"inputs\": \"%s\", \"positions\": \"last\", \"top_k\": 5}", 300000, 500000},
};

static const struct kind *kinds = ordinary;
static size_t n_kinds = sizeof ordinary / sizeof *ordinary;

static void make_request(struct request *request, const struct kind *kind, uint64_t *state)
{
    char *text = random_text(state, kind->least, kind->most);
    size_t size = strlen(kind->format) + strlen(text) + 1;
    request->path = kind->path;
    request->body = malloc(size);
    snprintf(request->body, size, kind->format, text);
    free(text);
}

/* ---- Calls ---- */

struct answer {
    long status; /* 0: no answer */
    char reason[CURL_ERROR_SIZE];
    char id[64]; /* the value of the header x-request-id */
    char *body;
    size_t length;
};

static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
    struct answer *answer = context;
    answer->body = realloc(answer->body, answer->length + size * count);
    memcpy(answer->body + answer->length, bytes, size * count);
    answer->length += size * count;
    return size * count;
}

static size_t take_header(char *bytes, size_t size, size_t count, void *context)
{
    struct answer *answer = context;
    char line[256];
    snprintf(line, sizeof line, "%.*s", (int)(size * count), bytes);
    if (strncasecmp(line, "x-request-id: ", 14) == 0)
        snprintf(answer->id, sizeof answer->id, "%.*s", (int)strcspn(line + 14, "\r\n"), line + 14);
    return size * count;
}

struct upload {
    const char *bytes;
    size_t left;
};

/* Gives libcurl the next bytes of the body. libcurl cannot send the body again, because it has no function for
 * seeking. */
static size_t give_body(char *to, size_t size, size_t count, void *context)
{
    struct upload *upload = context;
    size_t length = size * count < upload->left ? size * count : upload->left;
    memcpy(to, upload->bytes, length);
    upload->bytes += length;
    upload->left -= length;
    return length;
}

/* The caller must free answer->body. */
static void call(CURL *curl, const char *to, const struct request *request, const char *id, struct answer *answer)
{
    char url[512], line[96];
    memset(answer, 0, sizeof *answer);
    snprintf(url, sizeof url, "%s%s", to, request->path);
    snprintf(line, sizeof line, "x-request-id: %s", id);
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    headers = curl_slist_append(headers, line);
    headers = curl_slist_append(headers, "Expect:");
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    struct upload upload = {.bytes = request->body, .left = strlen(request->body)};
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)upload.left);
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, give_body);
    curl_easy_setopt(curl, CURLOPT_READDATA, &upload);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, answer->reason);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, answer);
    CURLcode code = curl_easy_perform(curl);
    if (code == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer->status);
    else if (!answer->reason[0])
        snprintf(answer->reason, sizeof answer->reason, "%s", curl_easy_strerror(code));
    curl_slist_free_all(headers);
}

/* ---- Comparing ---- */

static bool same(const json_t *a, const json_t *b);

static bool same_objects(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *value;
    if (json_object_size(a) != json_object_size(b))
        return false;
    json_object_foreach ((json_t *)a, key, value) {
        bool varies = strcmp(key, "id") == 0 || strcmp(key, "created") == 0; /* these fields vary in OpenAI's answers */
        if (!json_object_get(b, key) || (!varies && !same(value, json_object_get(b, key))))
            return false;
    }
    return true;
}

static bool same_arrays(const json_t *a, const json_t *b)
{
    if (json_array_size(a) != json_array_size(b))
        return false;
    for (size_t i = 0; i < json_array_size(a); i++)
        if (!same(json_array_get(a, i), json_array_get(b, i)))
            return false;
    return true;
}

static bool same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) {
        double x = json_number_value(a), y = json_number_value(b);
        return fabs(x - y) <= TOLERANCE * fmax(1, fabs(x));
    }
    if (json_is_object(a) && json_is_object(b))
        return same_objects(a, b);
    if (json_is_array(a) && json_is_array(b))
        return same_arrays(a, b);
    return json_equal(a, b);
}

/* Returns the fault of an answer, or NULL if the answer is right. */
static const char *fault_of(const struct answer *answer, const struct request *request, const char *id)
{
    if (answer->status == 0)
        return answer->reason;
    if (answer->status != request->status)
        return "another status";
    if (strcmp(answer->id, id) != 0)
        return "another request's id";
    json_t *json = json_loadb(answer->body ? answer->body : "", answer->length, JSON_DECODE_ANY, NULL);
    bool equal = same(request->answer, json);
    json_decref(json);
    return equal ? NULL : "another body";
}

/* An answer with a fault has failed if its status is 5xx or 429, or if there is no status. Otherwise it is wrong. */
static void judge(const struct answer *answer, const struct request *request, const char *id)
{
    const char *fault = fault_of(answer, request, id);
    if (!fault)
        return;
    bool is_failure = answer->status == 0 || answer->status >= 500 || answer->status == 429;
    long before = is_failure ? atomic_fetch_add(&failed, 1) : atomic_fetch_add(&wrong, 1);
    if (before < REPORTED)
        printf("# request %s %s: status %ld, expected %ld: %s: %.*s\n", id, request->path, answer->status,
               request->status, fault, (int)(answer->length < 200 ? answer->length : 200),
               answer->body ? answer->body : "");
}

/* ---- The load ---- */

static void *send_requests(void *argument)
{
    uint64_t thread = (uint64_t)(uintptr_t)argument, state = (seed + 1) * 1000003 + thread;
    CURL *curl = curl_easy_init();
    for (long i = 0; !ended; i++) {
        const struct request *request = &requests[next_random(&state) % REQUESTS];
        struct answer answer;
        char id[64];
        snprintf(id, sizeof id, "%llu-%d-%ld", seed, (int)thread, i);
        call(curl, base, request, id, &answer);
        judge(&answer, request, id);
        free(answer.body);
        atomic_fetch_add(&answered, 1);
        usleep(pause_us);
    }
    curl_easy_cleanup(curl);
    return NULL;
}

/* Makes the requests, and sends them to the reference. Returns -1 if an answer is not JSON, or has an unexpected
 * status. */
static int prepare(const char *reference)
{
    uint64_t state = seed * 2 + 1;
    CURL *curl = curl_easy_init();
    int status = 0;
    for (size_t i = 0; i < REQUESTS && status == 0; i++) {
        struct answer answer;
        make_request(&requests[i], &kinds[i % n_kinds], &state);
        call(curl, reference, &requests[i], "reference", &answer);
        requests[i].status = answer.status;
        requests[i].answer = json_loadb(answer.body ? answer.body : "", answer.length, JSON_DECODE_ANY, NULL);
        bool refused = strcmp(requests[i].path, "/nowhere") == 0 || strstr(requests[i].body, "\"inputs\": 7");
        if (!requests[i].answer || (answer.status != 200) != refused) {
            printf("# the reference answered %s with status %ld: %s %.*s\n", requests[i].path, answer.status,
                   answer.reason, (int)(answer.length < 300 ? answer.length : 300), answer.body ? answer.body : "");
            status = -1;
        }
        free(answer.body);
    }
    curl_easy_cleanup(curl);
    return status;
}

static void report_progress(const char *path)
{
    char temporary[512];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    FILE *file = fopen(temporary, "w");
    if (!file)
        return;
    fprintf(file, "%ld\n", atomic_load(&answered));
    fclose(file);
    rename(temporary, path);
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    bool is_large = argc == 6 && strcmp(argv[5], "large") == 0;
    if (argc != 5 && !is_large) {
        fprintf(stderr, "usage: load REFERENCE URL PROGRESS SEED [large]\n");
        return 2;
    }
    if (is_large) {
        kinds = large;
        n_kinds = sizeof large / sizeof *large;
    }
    base = argv[2];
    seed = strtoull(argv[4], NULL, 10);
    pause_us = getenv("PAUSE_US") ? (useconds_t)atoi(getenv("PAUSE_US")) : 3000;
    signal(SIGTERM, on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);
    curl_global_init(CURL_GLOBAL_ALL);
    if (prepare(argv[1]) != 0)
        return 2;
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, send_requests, (void *)(uintptr_t)(i + 1));
    while (!ended) {
        report_progress(argv[3]);
        usleep(50000);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%ld answers, %ld failed, %ld wrong\n", atomic_load(&answered), atomic_load(&failed), atomic_load(&wrong));
    for (size_t i = 0; i < REQUESTS; i++) {
        free(requests[i].body);
        json_decref(requests[i].answer);
    }
    return atomic_load(&failed) + atomic_load(&wrong) > 0;
}
