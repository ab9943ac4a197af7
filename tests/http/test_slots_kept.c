/* Slots are never lost, whatever clients do. A slot is the permission to generate one sequence. Clients with random
 * behaviour generate tokens. Some read their answers, some send invalid requests, and some break off at random moments,
 * even while they wait for a slot. Meanwhile, other clients send requests to /embed, which must never be refused. Every
 * complete answer is compared with the answer of an idle daemon. At the end, all slots must be free and usable. The
 * counters of the daemon must agree with those of the clients.
 *
 * The environment variable VISITS is the number of requests of each client. SEED repeats a run. `make reliability`
 * starts long runs. */
#include "tests/http/daemon.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MODEL "tests/reference/linear_attention_lm_causal_local_shift"

#define SLOTS 4
#define GENERATING 12 /* number of clients that generate */
#define EMBEDDING 3
#define PROMPTS 6
#define MAX_LOOKS 60000 /* maximum number of reads of the metrics, one each millisecond */
#define ANSWER_BYTES (1 << 16)

/* What a client does with a request. */
enum visit {
    VISIT_READS,       /* sends a valid request and reads the answer */
    VISIT_INVALID,     /* sends an invalid request and reads the refusal */
    VISIT_NO_JSON,     /* sends a body that is not JSON and reads the refusal */
    VISIT_HALF_CLOSES, /* closes its sending half, and reads until the end */
    VISIT_LEAVES,      /* sends a long request and closes the connection after a random time */
    VISIT_RESETS,      /* sends a long request and resets the connection after a random time */
    VISIT_CUTS_BODY,   /* closes the connection within the body */
    VISIT_CUTS_HEADERS,
    VISITS,
};
static const char *const visit_names[] = {
    "answers read", "invalid requests", "no JSON",           "half closed", "left",
    "reset",        "cut in the body",  "cut in the headers"};

struct client {
    pthread_t thread;
    const struct daemon *daemon;
    uint64_t random;
    bool embeds;
    int64_t visits[VISITS], embedded;
    int64_t answered, overloaded, refused, malformed; /* numbers of answers with status 200, 429, 422 and 400 */
    int64_t tokens;                                   /* number of tokens in answers of VISIT_READS */
    char wrong[512];                                  /* description of the first wrong answer, or "" */
};

static uint64_t seed = 20261123;
static int64_t n_visits = 40;
static char *expected_texts[PROMPTS], *expected_rows[PROMPTS]; /* bodies of the answers of an idle daemon */

static uint64_t draw(struct client *client, uint64_t below)
{
    client->random = client->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (client->random >> 33) % below;
}

/* ---- Requests ---- */

static int64_t new_tokens(int prompt)
{
    static const int64_t counts[PROMPTS] = {1, 2, 5, 20, 60, 120};
    return counts[prompt];
}

/* Writes the ids of a prompt. Prompts have different lengths. */
static void write_ids(char *text, size_t size, int prompt)
{
    size_t length = 0;
    for (int i = 0; i <= 9 * prompt; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%d", i > 0 ? "," : "", (7 * i + prompt) % 60);
}

static void write_generation(char *body, size_t size, int prompt, int64_t count)
{
    char ids[512];
    write_ids(ids, sizeof ids, prompt);
    snprintf(body, size,
             "{\"inputs\":[%s],\"parameters\":{\"max_new_tokens\":%lld,\"temperature\":0.8,\"seed\":%d,"
             "\"details\":true}}",
             ids, (long long)count, prompt);
}

static void write_embedding(char *body, size_t size, int prompt)
{
    char ids[512];
    write_ids(ids, sizeof ids, prompt);
    snprintf(body, size, "{\"inputs\":[[%s],[1,2,3]]}", ids);
}

static size_t write_request(char *text, size_t size, const char *path, const char *body)
{
    return (size_t)snprintf(text, size,
                            "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
                            "Content-Length: %zu\r\n\r\n%s",
                            path, strlen(body), body);
}

/* Returns -1 if the connection fails. */
static int open_connection(const struct daemon *daemon)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)daemon_port(daemon)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor >= 0 && connect(descriptor, (struct sockaddr *)&address, sizeof address) != 0) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

/* Reads until the other side closes. Returns the status, or 0 if there is no answer. *body points into `text`. */
static long read_answer(int descriptor, char *text, const char **body)
{
    size_t length = 0;
    ssize_t count;
    while ((count = recv(descriptor, text + length, ANSWER_BYTES - 1 - length, 0)) > 0 || (count < 0 && errno == EINTR))
        length += count > 0 ? (size_t)count : 0;
    text[length] = '\0';
    const char *end = strstr(text, "\r\n\r\n");
    *body = end ? end + 4 : "";
    return end && strncmp(text, "HTTP/1.1 ", 9) == 0 ? strtol(text + 9, NULL, 10) : 0;
}

/* Sends a whole request and reads its answer. */
static long call(const struct daemon *daemon, const char *path, const char *request_body, bool half_close, char *text,
                 const char **body)
{
    char request[2048];
    size_t length = write_request(request, sizeof request, path, request_body);
    int descriptor = open_connection(daemon);
    *body = "";
    if (descriptor < 0)
        return -1;
    long status = -1;
    if (raw_try_send(descriptor, request, length) && (!half_close || shutdown(descriptor, SHUT_WR) == 0))
        status = read_answer(descriptor, text, body);
    close(descriptor);
    return status;
}

static void note_wrong(struct client *client, const char *what, long status, const char *body)
{
    if (!client->wrong[0])
        snprintf(client->wrong, sizeof client->wrong, "%s: status %ld, %.300s", what, status, body);
}

/* ---- Visits ---- */

static void read_generation(struct client *client, bool half_close, char *text)
{
    int prompt = (int)draw(client, PROMPTS);
    char request[1024];
    const char *body;
    write_generation(request, sizeof request, prompt, new_tokens(prompt));
    long status = call(client->daemon, "/generate", request, half_close, text, &body);
    bool right = status == 200 && strcmp(body, expected_texts[prompt]) == 0;
    /* A client that closes its sending half may wait too long for a slot. The daemon then counts it as a client that
     * has left. */
    if (half_close) {
        if (!right && status != 429 && status != 499 && status != 0)
            note_wrong(client, visit_names[VISIT_HALF_CLOSES], status, body);
        return;
    }
    client->answered += status == 200;
    client->overloaded += status == 429;
    client->tokens += right ? new_tokens(prompt) : 0;
    if (!right && status != 429)
        note_wrong(client, visit_names[VISIT_READS], status, body);
}

static void send_invalid(struct client *client, enum visit visit, char *text)
{
    static const char *const invalid[] = {
        "{\"inputs\":[]}",
        "{\"inputs\":[1,2,-1]}",
        "{\"inputs\":[1],\"parameters\":{\"max_new_tokens\":0}}",
        "{\"inputs\":[1],\"parameters\":{\"temperature\":\"hot\",\"max_new_tokens\":1000000}}",
        "{\"parameters\":{}}",
    };
    const char *body;
    bool no_json = visit == VISIT_NO_JSON;
    const char *request = no_json ? "{\"inputs\":[1,2" : invalid[draw(client, LENGTH(invalid))];
    long status = call(client->daemon, "/generate", request, false, text, &body);
    client->malformed += status == 400;
    client->refused += status == 422;
    if (status != (no_json ? 400 : 422))
        note_wrong(client, visit_names[visit], status, body);
}

/* Waits for a random time of up to 30 ms, or until bytes arrive. */
static void linger(struct client *client, int descriptor)
{
    struct pollfd reads = {.fd = descriptor, .events = POLLIN};
    poll(&reads, 1, (int)draw(client, 30));
}

/* Sends a long request and breaks off. Completing the request would take minutes. */
static void break_off(struct client *client, enum visit visit)
{
    char body[1024], request[2048];
    static const char *const paths[] = {"/generate", "/generate_stream"};
    write_generation(body, sizeof body, (int)draw(client, PROMPTS), 1000000);
    size_t length = write_request(request, sizeof request, paths[draw(client, LENGTH(paths))], body);
    size_t head = length - strlen(body);
    if (visit == VISIT_CUTS_HEADERS)
        length = 1 + draw(client, head - 4);
    else if (visit == VISIT_CUTS_BODY)
        length = head + draw(client, strlen(body));
    int descriptor = open_connection(client->daemon);
    if (descriptor < 0 || !raw_try_send(descriptor, request, length))
        note_wrong(client, visit_names[visit], 0, "cannot send");
    linger(client, descriptor);
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    if (visit == VISIT_RESETS)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(descriptor);
}

static void embed(struct client *client, char *text)
{
    int prompt = (int)draw(client, PROMPTS);
    char request[1024];
    const char *body;
    write_embedding(request, sizeof request, prompt);
    long status = call(client->daemon, "/embed", request, false, text, &body);
    client->embedded++;
    if (status != 200 || strcmp(body, expected_rows[prompt]) != 0)
        note_wrong(client, "/embed", status, body);
}

static void generate(struct client *client, char *text)
{
    enum visit visit = (enum visit)draw(client, VISITS);
    client->visits[visit]++;
    if (visit == VISIT_READS || visit == VISIT_HALF_CLOSES)
        read_generation(client, visit == VISIT_HALF_CLOSES, text);
    else if (visit == VISIT_INVALID || visit == VISIT_NO_JSON)
        send_invalid(client, visit, text);
    else
        break_off(client, visit);
}

static void *run_client(void *argument)
{
    struct client *client = argument;
    char *text = malloc(ANSWER_BYTES);
    for (int64_t i = 0; text && i < n_visits; i++)
        if (client->embeds)
            embed(client, text);
        else
            generate(client, text);
    free(text);
    return NULL;
}

/* ---- The daemon's counters ---- */

static char *metrics_text(const struct daemon *daemon)
{
    struct answer answer = daemon_get(daemon, "/metrics");
    assert_int_equal(answer.status, 200);
    char *text = strdup(answer.body);
    answer_free(&answer);
    return text;
}

/* Returns the sum of the samples whose line begins with `begin` and contains `part`. */
static int64_t sum_of(const char *text, const char *begin, const char *part)
{
    int64_t sum = 0;
    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        const char *end = strchr(line, '\n'), *found = strstr(line, part), *value = strchr(line, '}');
        if (end && value && value < end && found && found < end && strncmp(line, begin, strlen(begin)) == 0)
            sum += strtoll(value + 1, NULL, 10);
    }
    return sum;
}

/* Waits until `used` slots are in use, and no sequence waits. If `used` is 0, the queue must also be empty. */
static void wait_for_slots(const struct daemon *daemon, int64_t used)
{
    int64_t running = -1, waiting = -1;
    for (int i = 0; i < MAX_LOOKS && (running != used || waiting != 0); i++) {
        char *text = metrics_text(daemon);
        running = sum_of(text, "linformerd_generations_running", "");
        waiting = sum_of(text, "linformerd_queue_requests", "") * (used == 0) +
                  sum_of(text, "linformerd_generations_waiting", "");
        free(text);
        usleep(1000);
    }
    if (running != used || waiting != 0)
        fail_msg("%lld slots in use, expected %lld; %lld sequences wait", (long long)running, (long long)used,
                 (long long)waiting);
}

static void expect_between(const char *what, int64_t found, int64_t least, int64_t most)
{
    if (found < least || found > most)
        fail_msg("%s: the daemon counted %lld, expected %lld to %lld", what, (long long)found, (long long)least,
                 (long long)most);
}

/* The request of a client that broke off may have been answered in full or not at all. */
static void expect_counters(const char *text, const struct client *all)
{
    int64_t unsure = all->visits[VISIT_HALF_CLOSES] + all->visits[VISIT_LEAVES] + all->visits[VISIT_RESETS] +
                     all->visits[VISIT_CUTS_BODY] + all->visits[VISIT_CUTS_HEADERS];
    const char *requests = "linformerd_requests_total{route=\"/generate\"";
    expect_between("/generate, 200", sum_of(text, requests, "status=\"200\""), all->answered, all->answered + unsure);
    expect_between("/generate, 422", sum_of(text, requests, "status=\"422\""), all->refused, all->refused);
    expect_between("/generate, 400", sum_of(text, requests, "status=\"400\""), all->malformed,
                   all->malformed + all->visits[VISIT_CUTS_BODY] + all->visits[VISIT_CUTS_HEADERS]);
    expect_between("/generate, 429", sum_of(text, requests, "status=\"429\""), all->overloaded,
                   all->overloaded + unsure);
    expect_between("/generate, 500", sum_of(text, requests, "status=\"500\""), 0, 0);
    expect_between("/embed, 200", sum_of(text, "linformerd_requests_total{route=\"/embed\"", "status=\"200\""),
                   all->embedded, all->embedded);
    expect_between("tokens", sum_of(text, "linformerd_generation_tokens_total", ""), all->tokens, INT64_MAX);
    int64_t begun = sum_of(text, "linformerd_time_to_first_token_seconds_count", "");
    expect_between("ended sequences", sum_of(text, "linformerd_generations_total", ""), begun, begun);
    expect_between("sequences of max_new_tokens", sum_of(text, "linformerd_generations_total", "\"length\""),
                   all->answered, all->answered + all->visits[VISIT_HALF_CLOSES]);
}

/* ---- The test ---- */

static void keep_expected(const struct daemon *daemon, struct client *all)
{
    char *text = malloc(ANSWER_BYTES), request[1024];
    const char *body;
    for (int prompt = 0; prompt < PROMPTS; prompt++) {
        write_generation(request, sizeof request, prompt, new_tokens(prompt));
        assert_int_equal(call(daemon, "/generate", request, false, text, &body), 200);
        expected_texts[prompt] = strdup(body);
        write_embedding(request, sizeof request, prompt);
        assert_int_equal(call(daemon, "/embed", request, false, text, &body), 200);
        expected_rows[prompt] = strdup(body);
        all->answered++;
        all->tokens += new_tokens(prompt);
        all->embedded++;
    }
    free(text);
}

static void add_client(struct client *all, const struct client *client)
{
    for (int visit = 0; visit < VISITS; visit++)
        all->visits[visit] += client->visits[visit];
    all->embedded += client->embedded;
    all->answered += client->answered;
    all->overloaded += client->overloaded;
    all->refused += client->refused;
    all->malformed += client->malformed;
    all->tokens += client->tokens;
    if (client->wrong[0])
        fail_msg("SEED=%llu: %s", (unsigned long long)seed, client->wrong);
}

/* Prints the counts for docs/reliability.md. */
static void print_counts(const char *text, const struct client *all)
{
    print_message("SEED=%llu VISITS=%lld: slots %d", (unsigned long long)seed, (long long)n_visits, SLOTS);
    for (int visit = 0; visit < VISITS; visit++)
        print_message(", %s %lld", visit_names[visit], (long long)all->visits[visit]);
    print_message(", of these answers 429 %lld, /embed compared %lld, sequences begun %lld, new tokens %lld\n",
                  (long long)all->overloaded, (long long)all->embedded,
                  (long long)sum_of(text, "linformerd_time_to_first_token_seconds_count", ""),
                  (long long)sum_of(text, "linformerd_generation_tokens_total", ""));
}

static void expect_all_slots_are_usable(const struct daemon *daemon)
{
    int descriptors[SLOTS];
    char body[1024], request[2048];
    write_generation(body, sizeof body, 1, 1000000);
    size_t length = write_request(request, sizeof request, "/generate", body);
    for (int i = 0; i < SLOTS; i++) {
        descriptors[i] = open_connection(daemon);
        assert_true(descriptors[i] >= 0 && raw_try_send(descriptors[i], request, length));
    }
    wait_for_slots(daemon, SLOTS);
    for (int i = 0; i < SLOTS; i++)
        close(descriptors[i]);
    wait_for_slots(daemon, 0);
}

static void test_slots_are_never_lost(void **state)
{
    (void)state;
    struct client clients[GENERATING + EMBEDDING] = {0}, all = {0};
    struct daemon *daemon =
        daemon_start(ARGUMENTS("--max-generations", "4", "--max-queue-requests", "7", "--model", MODEL));
    keep_expected(daemon, &all);
    for (int i = 0; i < GENERATING + EMBEDDING; i++) {
        clients[i] = (struct client){.daemon = daemon, .random = seed + (uint64_t)i * 7919, .embeds = i >= GENERATING};
        assert_int_equal(pthread_create(&clients[i].thread, NULL, run_client, &clients[i]), 0);
    }
    for (int i = 0; i < GENERATING + EMBEDDING; i++)
        pthread_join(clients[i].thread, NULL);
    for (int i = 0; i < GENERATING + EMBEDDING; i++)
        add_client(&all, &clients[i]);
    wait_for_slots(daemon, 0);
    char *text = metrics_text(daemon);
    print_counts(text, &all);
    expect_counters(text, &all);
    free(text);
    expect_all_slots_are_usable(daemon);
    daemon_stop(daemon);
    for (int prompt = 0; prompt < PROMPTS; prompt++) {
        free(expected_texts[prompt]);
        free(expected_rows[prompt]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_slots_are_never_lost)};
    const char *given = getenv("SEED"), *visits = getenv("VISITS");
    seed = given ? strtoull(given, NULL, 10) : seed;
    n_visits = visits ? strtoll(visits, NULL, 10) : n_visits;
    return cmocka_run_group_tests_name("slots_kept", tests, NULL, NULL);
}
