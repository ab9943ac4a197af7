/* metrics: relaxed atomics in memory that metrics_open allocates. Each model has a small table of routes, and one more
 * table is for requests without a model. When a route is first seen, one compare-and-swap of its name reserves an entry
 * for the route in the table. An entry for a status within a route is reserved in the same way. If the table is full, a
 * route is counted as "other", and a status as 599. Errors are the requests with a status of 400 or more. */
#include "server/common/metrics.h"

#include "config/config.h"
#include "server/common/failure.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BUCKETS 18
#define MAX_ROUTES 128
#define FIRST_STATUS 100
#define LAST_STATUS 599
#define MAX_STATUSES 24 /* maximum number of statuses of a route. failure.c uses fewer */
#define MAX_REASONS 8   /* maximum number of reasons for the end of a sequence */

/* The upper bound of a bucket, in recorded units and as the text of its label. Tables of bounds are in ascending order,
 * and omit +Inf. */
struct bound {
    int64_t value;
    const char *label;
};

static const struct bound nanosecond_bounds[] = {
    {500000, "0.0005"},  {1000000, "0.001"},  {2500000, "0.0025"}, {5000000, "0.005"},
    {10000000, "0.01"},  {25000000, "0.025"}, {50000000, "0.05"},  {100000000, "0.1"},
    {250000000, "0.25"}, {500000000, "0.5"},  {1000000000, "1"},   {2500000000, "2.5"},
    {5000000000, "5"},   {10000000000, "10"}, {30000000000, "30"}, {60000000000, "60"},
};
static const struct bound item_bounds[] = {
    {1, "1"},   {2, "2"},     {4, "4"},     {8, "8"},     {16, "16"},     {32, "32"},
    {64, "64"}, {128, "128"}, {256, "256"}, {512, "512"}, {1024, "1024"}, {2048, "2048"},
};
static const struct bound token_bounds[] = {
    {16, "16"},       {32, "32"},       {64, "64"},       {128, "128"},   {256, "256"},
    {512, "512"},     {1024, "1024"},   {2048, "2048"},   {4096, "4096"}, {8192, "8192"},
    {16384, "16384"}, {32768, "32768"}, {65536, "65536"},
};

struct scale {
    const struct bound *bounds;
    int n_bounds;
    bool seconds; /* true if values are recorded in nanoseconds and shown in seconds */
};
#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))
_Static_assert(COUNT(nanosecond_bounds) < MAX_BUCKETS, "a bucket for each bound, and one for +Inf");
_Static_assert(COUNT(item_bounds) < MAX_BUCKETS && COUNT(token_bounds) < MAX_BUCKETS,
               "a bucket for each bound, and one for +Inf");

static const struct scale time_scale = {nanosecond_bounds, COUNT(nanosecond_bounds), true};
static const struct scale item_scale = {item_bounds, COUNT(item_bounds), false};
static const struct scale token_scale = {token_bounds, COUNT(token_bounds), false};

/* A histogram. The number of values is computed as the sum of the buckets, so that this number and the buckets always
 * agree. */
struct histogram {
    atomic_uint_fast64_t buckets[MAX_BUCKETS];
    atomic_int_fast64_t sum;
};

struct status_count {
    _Atomic int status; /* 0 if this entry is free */
    atomic_uint_fast64_t requests;
};

struct route_metrics {
    const char *_Atomic name;                   /* NULL if the entry is free */
    struct status_count statuses[MAX_STATUSES]; /* the last entry is for LAST_STATUS */
    struct histogram total;
};

struct reason_count {
    const char *_Atomic name; /* NULL if the entry is free */
    atomic_uint_fast64_t sequences;
};

/* The metrics of generated sequences. */
struct generation_metrics {
    struct histogram queue, first_token, between_tokens;
    atomic_uint_fast64_t prompt_tokens, tokens;
    struct reason_count reasons[MAX_REASONS];
};

/* The counts of one model, or of requests without a model. */
struct model_metrics {
    char *name; /* NULL for requests without a model */
    struct histogram queue, inference;
    struct histogram batch_items, batch_tokens, batch_time;
    struct generation_metrics generation;
    struct model_statistics statistics;
    atomic_uint_fast64_t loads, failed_loads;
    struct route_metrics routes[MAX_ROUTES]; /* the last entry is for "other" */
};

struct metrics {
    struct model_metrics none; /* counts of requests without a model */
    _Atomic int64_t loading;   /* number of models that are being loaded */
    bool reload_fault;         /* a part of the current reload stayed as it was. Only the thread that reloads uses it */
    _Atomic bool reload_failed;                       /* a part of the last complete reload stayed as it was */
    _Atomic int64_t n_models;                         /* number of models so far. It never decreases */
    struct model_metrics *models[METRICS_MAX_MODELS]; /* pointers to the counts of the `n_models` models */
};

static void model_metrics_init(struct model_metrics *model)
{
    atomic_store(&model->routes[MAX_ROUTES - 1].name, "other");
    for (int j = 0; j < MAX_ROUTES; j++)
        atomic_store(&model->routes[j].statuses[MAX_STATUSES - 1].status, LAST_STATUS);
}

struct metrics *metrics_open(const char *const *names, int64_t n_models)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return NULL;
    model_metrics_init(&metrics->none);
    for (int64_t i = 0; i < n_models; i++)
        if (metrics_add_model(metrics, names[i]) < 0) {
            metrics_close(metrics);
            return NULL;
        }
    return metrics;
}

void metrics_close(struct metrics *metrics)
{
    for (int64_t i = 0; metrics && i < metrics->n_models; i++) {
        free(metrics->models[i]->name);
        free(metrics->models[i]);
    }
    free(metrics);
}

int64_t metrics_models(const struct metrics *metrics)
{
    return atomic_load(&metrics->n_models);
}

int64_t metrics_add_model(struct metrics *metrics, const char *name)
{
    int64_t index = metrics->n_models;
    for (int64_t i = 0; i < index; i++)
        if (strcmp(metrics->models[i]->name, name) == 0)
            return i;
    struct model_metrics *model = index < METRICS_MAX_MODELS ? calloc(1, sizeof *model) : NULL;
    if (model)
        model->name = strdup(name);
    if (!model || !model->name) {
        free(model);
        return -1;
    }
    model_metrics_init(model);
    metrics->models[index] = model;
    /* Last, because other threads use the model as soon as they see the new n_models. */
    atomic_store(&metrics->n_models, index + 1);
    return index;
}

const char *metrics_model_name(const struct metrics *metrics, int64_t model_index)
{
    return metrics->models[model_index]->name;
}

static const struct model_metrics *metrics_at(const struct metrics *metrics, int64_t model_index)
{
    return model_index == METRICS_NO_MODEL ? &metrics->none : metrics->models[model_index];
}

static struct model_metrics *metrics_of(struct metrics *metrics, int64_t model_index)
{
    assert(model_index >= METRICS_NO_MODEL && model_index < metrics->n_models);
    return model_index == METRICS_NO_MODEL ? &metrics->none : metrics->models[model_index];
}

static void histogram_record(struct histogram *histogram, const struct scale *scale, int64_t value)
{
    int bucket = 0;
    value = value < 0 ? 0 : value;
    while (bucket < scale->n_bounds && value > scale->bounds[bucket].value)
        bucket++;
    atomic_fetch_add_explicit(&histogram->buckets[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum, value, memory_order_relaxed);
}

static struct route_metrics *route_of(struct model_metrics *model, const char *name)
{
    for (int i = 0; i < MAX_ROUTES - 1; i++) {
        struct route_metrics *route = &model->routes[i];
        const char *known = atomic_load_explicit(&route->name, memory_order_acquire);
        if (!known && atomic_compare_exchange_strong(&route->name, &known, name))
            return route;
        if (known == name || strcmp(known, name) == 0)
            return route;
    }
    return &model->routes[MAX_ROUTES - 1];
}

static void count_status(struct route_metrics *route, int status)
{
    struct status_count *entry = &route->statuses[MAX_STATUSES - 1];
    status = status < FIRST_STATUS || status > LAST_STATUS ? LAST_STATUS : status;
    for (int i = 0; i < MAX_STATUSES - 1 && status != LAST_STATUS; i++) {
        int known = 0;
        if (atomic_compare_exchange_strong(&route->statuses[i].status, &known, status) || known == status) {
            entry = &route->statuses[i];
            break;
        }
    }
    atomic_fetch_add_explicit(&entry->requests, 1, memory_order_relaxed);
}

void metrics_request(struct metrics *metrics, const char *route, int64_t model_index, int status, int64_t total_ns,
                     int64_t queue_ns, int64_t inference_ns)
{
    struct model_metrics *model = metrics_of(metrics, model_index);
    struct route_metrics *entry = route_of(model, route);
    count_status(entry, status);
    histogram_record(&entry->total, &time_scale, total_ns);
    if (queue_ns > 0 || inference_ns > 0)
        histogram_record(&model->queue, &time_scale, queue_ns);
    if (inference_ns > 0)
        histogram_record(&model->inference, &time_scale, inference_ns);
}

void metrics_inference(struct metrics *metrics, int64_t model_index, const struct statistics_request *request)
{
    statistics_add_request(&metrics_of(metrics, model_index)->statistics, request);
}

const struct model_statistics *metrics_statistics(const struct metrics *metrics, int64_t model_index)
{
    assert(model_index >= 0 && model_index < metrics->n_models);
    return &metrics->models[model_index]->statistics;
}

void metrics_batch(struct metrics *metrics, int64_t model_index, int64_t items, int64_t tokens, int64_t inference_ns)
{
    struct model_metrics *model = metrics_of(metrics, model_index);
    histogram_record(&model->batch_items, &item_scale, items);
    histogram_record(&model->batch_tokens, &token_scale, tokens);
    histogram_record(&model->batch_time, &time_scale, inference_ns);
    statistics_add_batch(&model->statistics, items, inference_ns);
}

static void add_to(atomic_uint_fast64_t *counter, int64_t value)
{
    atomic_fetch_add_explicit(counter, (uint_fast64_t)value, memory_order_relaxed);
}

void metrics_reload_begin(struct metrics *metrics)
{
    metrics->reload_fault = false;
}

void metrics_reload_fault(struct metrics *metrics)
{
    metrics->reload_fault = true;
}

void metrics_reload_end(struct metrics *metrics)
{
    atomic_store(&metrics->reload_failed, metrics->reload_fault);
}

void metrics_load_begin(struct metrics *metrics)
{
    atomic_fetch_add(&metrics->loading, 1);
}

void metrics_load_end(struct metrics *metrics, int64_t model_index, bool loaded)
{
    struct model_metrics *model = metrics_of(metrics, model_index);
    add_to(loaded ? &model->loads : &model->failed_loads, 1);
    atomic_fetch_sub(&metrics->loading, 1);
}

void metrics_first_token(struct metrics *metrics, int64_t model_index, int64_t prompt_tokens, int64_t queue_ns,
                         int64_t since_arrival_ns)
{
    if (!metrics)
        return;
    struct generation_metrics *generation = &metrics_of(metrics, model_index)->generation;
    histogram_record(&generation->queue, &time_scale, queue_ns);
    histogram_record(&generation->first_token, &time_scale, since_arrival_ns);
    add_to(&generation->prompt_tokens, prompt_tokens);
    add_to(&generation->tokens, 1);
}

void metrics_next_token(struct metrics *metrics, int64_t model_index, int64_t since_token_ns)
{
    if (!metrics)
        return;
    struct generation_metrics *generation = &metrics_of(metrics, model_index)->generation;
    histogram_record(&generation->between_tokens, &time_scale, since_token_ns);
    add_to(&generation->tokens, 1);
}

void metrics_generation_end(struct metrics *metrics, int64_t model_index, const char *reason)
{
    if (!metrics)
        return;
    struct generation_metrics *generation = &metrics_of(metrics, model_index)->generation;
    for (int i = 0; i < MAX_REASONS; i++) {
        struct reason_count *entry = &generation->reasons[i];
        const char *known = NULL;
        if (!atomic_compare_exchange_strong(&entry->name, &known, reason) && strcmp(known, reason) != 0)
            continue;
        add_to(&entry->sequences, 1);
        return;
    }
}

/* ---- The text ---- */

static void write_head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_label(FILE *out, const char *value)
{
    for (; *value; value++) {
        if (*value == '\n')
            fputs("\\n", out);
        else if (*value == '"' || *value == '\\')
            fprintf(out, "\\%c", *value);
        else
            fputc(*value, out);
    }
}

/* The labels of a sample. A label that is NULL is left out. `last` is written unchanged, in the form key="value". */
struct labels {
    const char *route, *model, *last;
};

/* Writes name_suffix{route="…",model="…",last}, without braces if there is no label. */
static void write_sample(FILE *out, const char *name, const char *suffix, const struct labels *labels)
{
    const char *separator = "{";
    fprintf(out, "%s%s", name, suffix);
    if (labels->route) {
        fprintf(out, "%sroute=\"", separator);
        write_label(out, labels->route);
        fputc('"', out);
        separator = ",";
    }
    if (labels->model) {
        fprintf(out, "%smodel=\"", separator);
        write_label(out, labels->model);
        fputc('"', out);
        separator = ",";
    }
    if (labels->last) {
        fprintf(out, "%s%s", separator, labels->last);
        separator = ",";
    }
    fputs(*separator == ',' ? "} " : " ", out);
}

static void write_histogram(FILE *out, const char *name, const struct histogram *histogram, const struct scale *scale,
                            const char *route, const char *model)
{
    uint64_t count = 0;
    for (int bucket = 0; bucket <= scale->n_bounds; bucket++) {
        char bound[32];
        snprintf(bound, sizeof bound, "le=\"%s\"", bucket < scale->n_bounds ? scale->bounds[bucket].label : "+Inf");
        count += atomic_load_explicit(&histogram->buckets[bucket], memory_order_relaxed);
        write_sample(out, name, "_bucket", &(struct labels){route, model, bound});
        fprintf(out, "%llu\n", (unsigned long long)count);
    }
    long long sum = atomic_load_explicit(&histogram->sum, memory_order_relaxed);
    write_sample(out, name, "_sum", &(struct labels){route, model, NULL});
    if (scale->seconds)
        fprintf(out, "%lld.%09lld\n", sum / 1000000000, sum % 1000000000);
    else
        fprintf(out, "%lld\n", sum);
    write_sample(out, name, "_count", &(struct labels){route, model, NULL});
    fprintf(out, "%llu\n", (unsigned long long)count);
}

static uint64_t requests_of(const struct status_count *entry)
{
    return atomic_load_explicit(&entry->requests, memory_order_relaxed);
}

static bool route_seen(const struct route_metrics *route)
{
    if (!atomic_load_explicit(&route->name, memory_order_acquire))
        return false;
    uint64_t count = 0;
    for (int i = 0; i < MAX_STATUSES; i++)
        count += requests_of(&route->statuses[i]);
    return count > 0;
}

static void write_route(FILE *out, const struct route_metrics *route, const char *model)
{
    for (int i = 0; i < MAX_STATUSES; i++) {
        char status[32];
        uint64_t count = requests_of(&route->statuses[i]);
        if (!count)
            continue;
        snprintf(status, sizeof status, "status=\"%d\"", atomic_load(&route->statuses[i].status));
        write_sample(out, "linformerd_requests", "_total", &(struct labels){route->name, model, status});
        fprintf(out, "%llu\n", (unsigned long long)count);
    }
}

static void write_requests(FILE *out, const struct metrics *metrics)
{
    write_head(out, "linformerd_requests_total", "counter",
               "Answered requests, by route, HTTP status, and the model where the request reached one.");
    for (int64_t i = METRICS_NO_MODEL; i < metrics->n_models; i++)
        for (int j = 0; j < MAX_ROUTES; j++)
            write_route(out, &metrics_at(metrics, i)->routes[j], metrics_at(metrics, i)->name);
    write_head(out, "linformerd_request_duration_seconds", "histogram",
               "Time from a request's start to its answer, by route and model.");
    for (int64_t i = METRICS_NO_MODEL; i < metrics->n_models; i++)
        for (int j = 0; j < MAX_ROUTES; j++) {
            const struct route_metrics *route = &metrics_at(metrics, i)->routes[j];
            if (route_seen(route))
                write_histogram(out, "linformerd_request_duration_seconds", &route->total, &time_scale, route->name,
                                metrics_at(metrics, i)->name);
        }
}

static uint64_t count_errors(const struct metrics *metrics, int status)
{
    uint64_t count = 0;
    for (int64_t i = METRICS_NO_MODEL; i < metrics->n_models; i++)
        for (int j = 0; j < MAX_ROUTES; j++)
            for (int k = 0; k < MAX_STATUSES; k++) {
                const struct status_count *entry = &metrics_at(metrics, i)->routes[j].statuses[k];
                if (atomic_load_explicit(&entry->status, memory_order_relaxed) == status)
                    count += requests_of(entry);
            }
    return count;
}

/* Writes the counts of errors. Usual statuses are written even if their count is 0, because Prometheus computes a rate
 * from two values. */
static void write_errors(FILE *out, const struct metrics *metrics)
{
    static const int usual[] = {400, 401, 404, 405, 413, 415, 422, 429, 500, 503, 504};
    write_head(out, "linformerd_errors_total", "counter", "Requests answered with an error, by error_type and status.");
    int next_usual = 0;
    for (int status = 400; status <= LAST_STATUS; status++) {
        uint64_t count = count_errors(metrics, status);
        bool is_usual = next_usual < COUNT(usual) && usual[next_usual] == status;
        next_usual += is_usual;
        if (count || is_usual)
            fprintf(out, "linformerd_errors_total{error_type=\"%s\",status=\"%d\"} %llu\n", failure_type_of(status),
                    status, (unsigned long long)count);
    }
}

static void write_gauge(FILE *out, const char *name, const char *help, int64_t value)
{
    write_head(out, name, "gauge", help);
    fprintf(out, "%s %lld\n", name, (long long)value);
}

/* Writes one value for each model that is not absent. If `generation` is true, writes only the values of models that
 * generate. `offset` is the offset of an int64_t in struct metrics_model_now. */
static void write_queue_values(FILE *out, const struct metrics *metrics, const struct metrics_now *now,
                               const char *name, size_t offset, bool generation, const char *help)
{
    write_head(out, name, "gauge", help);
    for (int64_t i = 0; i < now->n_models; i++) {
        if (now->models[i].absent || (generation && !now->models[i].generates))
            continue;
        write_sample(out, name, "", &(struct labels){.model = metrics_at(metrics, i)->name});
        fprintf(out, "%lld\n", (long long)*(const int64_t *)((const char *)&now->models[i] + offset));
    }
}

static void write_queues(FILE *out, const struct metrics *metrics, const struct metrics_now *now)
{
    write_queue_values(out, metrics, now, "linformerd_queue_requests", offsetof(struct metrics_model_now, requests),
                       false, "Sequences that wait for a batch.");
    write_queue_values(out, metrics, now, "linformerd_queue_tokens", offsetof(struct metrics_model_now, tokens), false,
                       "Tokens of the sequences that wait for a batch.");
    write_queue_values(out, metrics, now, "linformerd_generations_running",
                       offsetof(struct metrics_model_now, slots_used), true, "Sequences that have a slot.");
    write_queue_values(out, metrics, now, "linformerd_generations_waiting",
                       offsetof(struct metrics_model_now, waiting_for_slots), true, "Sequences that wait for a slot.");
    write_queue_values(out, metrics, now, "linformerd_generation_slots", offsetof(struct metrics_model_now, slots),
                       true, "Slots for sequences that are generated.");
    write_queue_values(out, metrics, now, "linformerd_generation_slots_bytes",
                       offsetof(struct metrics_model_now, slot_bytes), true, "Reserved memory of all slots.");
}

/* Writes the result of the last reload, and the time until which the certificate is valid. */
static void write_reload(FILE *out, const struct metrics *metrics, const struct metrics_now *now)
{
    write_gauge(out, "linformerd_last_reload_successful",
                "0 if a part of the last reload kept its old state, otherwise 1.",
                !atomic_load(&metrics->reload_failed));
    write_head(out, "linformerd_certificate_expiry_timestamp_seconds", "gauge",
               "When the certificate expires, in seconds since 1970.");
    if (now->certificate_end_s != 0)
        fprintf(out, "linformerd_certificate_expiry_timestamp_seconds %lld\n", (long long)now->certificate_end_s);
}

/* Writes the size of each model's weights, and the number of models that are being loaded. Also writes how often each
 * model was loaded or failed to load. The loading at the start of the daemon does not count. */
static void write_loads(FILE *out, const struct metrics *metrics, const struct metrics_now *now)
{
    write_queue_values(out, metrics, now, "linformerd_model_weights_bytes",
                       offsetof(struct metrics_model_now, weights_bytes), false, "Resident weights of a loaded model.");
    write_gauge(out, "linformerd_models_loading", "Models that are being loaded now.", atomic_load(&metrics->loading));
    write_head(out, "linformerd_model_loads_total", "counter", "Models that were loaded, or failed to load.");
    for (int64_t i = 0; i < metrics->n_models; i++)
        for (int failed = 0; failed < 2; failed++) {
            const struct model_metrics *model = metrics_at(metrics, i);
            write_sample(
                out, "linformerd_model_loads", "_total",
                &(struct labels){.model = model->name, .last = failed ? "outcome=\"failed\"" : "outcome=\"loaded\""});
            fprintf(out, "%llu\n", (unsigned long long)atomic_load(failed ? &model->failed_loads : &model->loads));
        }
}

/* Writes a counter for each model that generates. */
static void write_generation_counter(FILE *out, const struct metrics *metrics, const struct metrics_now *now,
                                     const char *name, size_t offset, const char *help)
{
    write_head(out, name, "counter", help);
    for (int64_t i = 0; i < now->n_models; i++) {
        if (!now->models[i].generates)
            continue;
        const char *counter = (const char *)&metrics_at(metrics, i)->generation + offset;
        write_sample(out, name, "", &(struct labels){.model = metrics_at(metrics, i)->name});
        fprintf(out, "%llu\n", (unsigned long long)atomic_load((const atomic_uint_fast64_t *)counter));
    }
}

static void write_generation_histogram(FILE *out, const struct metrics *metrics, const struct metrics_now *now,
                                       const char *name, size_t offset, const char *help)
{
    write_head(out, name, "histogram", help);
    for (int64_t i = 0; i < now->n_models; i++) {
        const char *histogram = (const char *)&metrics_at(metrics, i)->generation + offset;
        if (now->models[i].generates)
            write_histogram(out, name, (const struct histogram *)histogram, &time_scale, NULL,
                            metrics_at(metrics, i)->name);
    }
}

static void write_ends(FILE *out, const struct metrics *metrics)
{
    write_head(out, "linformerd_generations_total", "counter",
               "Generated sequences that have ended, by finish_reason.");
    for (int64_t i = 0; i < metrics->n_models; i++)
        for (int j = 0; j < MAX_REASONS; j++) {
            const struct reason_count *entry = &metrics_at(metrics, i)->generation.reasons[j];
            const char *name = atomic_load(&entry->name);
            char reason[64];
            if (!name)
                break;
            snprintf(reason, sizeof reason, "finish_reason=\"%s\"", name);
            write_sample(out, "linformerd_generations", "_total",
                         &(struct labels){.model = metrics_at(metrics, i)->name, .last = reason});
            fprintf(out, "%llu\n", (unsigned long long)atomic_load(&entry->sequences));
        }
}

static void write_generations(FILE *out, const struct metrics *metrics, const struct metrics_now *now)
{
    write_generation_histogram(out, metrics, now, "linformerd_generation_queue_duration_seconds",
                               offsetof(struct generation_metrics, queue),
                               "Time that a sequence waited for a slot and its first batch.");
    write_generation_histogram(out, metrics, now, "linformerd_time_to_first_token_seconds",
                               offsetof(struct generation_metrics, first_token),
                               "Time from the arrival of a request to the first new token of a sequence.");
    write_generation_histogram(out, metrics, now, "linformerd_inter_token_latency_seconds",
                               offsetof(struct generation_metrics, between_tokens),
                               "Time from one new token of a sequence to the next one.");
    write_generation_counter(out, metrics, now, "linformerd_prompt_tokens_total",
                             offsetof(struct generation_metrics, prompt_tokens),
                             "Tokens of the prompts of generated sequences.");
    write_generation_counter(out, metrics, now, "linformerd_generation_tokens_total",
                             offsetof(struct generation_metrics, tokens), "New tokens of generated sequences.");
    write_ends(out, metrics);
}

static void write_gauges(FILE *out, const struct metrics_now *now)
{
    write_gauge(out, "linformerd_connections", "Open client connections.", now->connections);
    write_gauge(out, "linformerd_resident_memory_bytes", "Resident memory.", now->process.resident_bytes);
    write_head(out, "linformerd_uptime_seconds", "gauge", "Time since the daemon started.");
    fprintf(out, "linformerd_uptime_seconds %.3f\n", now->uptime_s);
    write_head(out, "linformerd_build_info", "gauge", "Always 1; the labels describe the build.");
    fprintf(out, "linformerd_build_info{version=\"%s\"} 1\n", LINFORMERD_VERSION);
}

/* Writes the metrics that Prometheus' client libraries write for each process, under the same names. */
static void write_process(FILE *out, const struct metrics_now *now)
{
    const struct process_state *process = &now->process;
    write_head(out, "process_cpu_seconds_total", "counter", "CPU time of the process.");
    fprintf(out, "process_cpu_seconds_total %.6f\n", process->cpu_s);
    write_gauge(out, "process_open_fds", "Open file descriptors.", process->open_fds);
    write_gauge(out, "process_max_fds", "Largest number of open file descriptors.", process->max_fds);
    write_gauge(out, "process_resident_memory_bytes", "Resident memory.", process->resident_bytes);
    write_gauge(out, "process_virtual_memory_bytes", "Address space.", process->virtual_bytes);
    write_gauge(out, "process_threads", "Threads of the process.", process->threads);
    write_head(out, "process_start_time_seconds", "gauge", "Start of the process, in seconds since 1970.");
    fprintf(out, "process_start_time_seconds %.2f\n", now->started_s);
}

/* Writes one value for each device. */
static void write_device_values(FILE *out, const struct metrics_now *now, const char *name, const char *type,
                                int64_t (*value_of)(const struct engine_device *device), const char *help)
{
    write_head(out, name, type, help);
    for (int i = 0; i < now->n_devices; i++) {
        fprintf(out, "%s{device=\"", name);
        write_label(out, now->devices[i].name);
        fprintf(out, "\"} %lld\n", (long long)value_of(&now->devices[i]));
    }
}

static int64_t device_up(const struct engine_device *device)
{
    return device->works;
}

static int64_t device_faults(const struct engine_device *device)
{
    return device->faults;
}

static int64_t device_recoveries(const struct engine_device *device)
{
    return device->recoveries;
}

static void write_counter(FILE *out, const char *name, const char *help, int64_t value)
{
    write_head(out, name, "counter", help);
    fprintf(out, "%s %lld\n", name, (long long)value);
}

static void write_devices(FILE *out, const struct metrics_now *now)
{
    write_device_values(out, now, "linformerd_device_up", "gauge", device_up,
                        "1: the device works; 0: it failed and is not back yet.");
    write_device_values(out, now, "linformerd_device_faults_total", "counter", device_faults,
                        "Batches that failed on the device.");
    write_device_values(out, now, "linformerd_device_recoveries_total", "counter", device_recoveries,
                        "Times that the device worked again after it had failed.");
    write_counter(out, "linformerd_rerun_batches_total",
                  "Batches that a device could not run, or that failed there, and that the CPU ran again.",
                  now->batches.reruns);
    write_counter(out, "linformerd_standby_batches_total",
                  "Batches that the CPU ran instead of a device, including those that it ran again.",
                  now->batches.standby_batches);
}

/* Writes one histogram for each model. `offset` is the offset of the histogram in struct model_metrics. */
static void write_series(FILE *out, const struct metrics *metrics, const char *name, size_t offset,
                         const struct scale *scale, const char *help)
{
    write_head(out, name, "histogram", help);
    for (int64_t i = 0; i < metrics->n_models; i++) {
        const struct model_metrics *model = metrics_at(metrics, i);
        write_histogram(out, name, (const struct histogram *)((const char *)model + offset), scale, NULL, model->name);
    }
}

char *metrics_text(const struct metrics *metrics, const struct metrics_now *now, size_t *length)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    if (!out)
        return NULL;
    write_requests(out, metrics);
    write_series(out, metrics, "linformerd_request_queue_duration_seconds", offsetof(struct model_metrics, queue),
                 &time_scale, "Time that a request's sequences waited for their first batch.");
    write_series(out, metrics, "linformerd_request_inference_duration_seconds",
                 offsetof(struct model_metrics, inference), &time_scale,
                 "Time in the batches that held sequences of a request.");
    write_errors(out, metrics);
    write_series(out, metrics, "linformerd_batch_items", offsetof(struct model_metrics, batch_items), &item_scale,
                 "Sequences in a batch.");
    write_series(out, metrics, "linformerd_batch_tokens", offsetof(struct model_metrics, batch_tokens), &token_scale,
                 "Tokens in a batch.");
    write_series(out, metrics, "linformerd_batch_duration_seconds", offsetof(struct model_metrics, batch_time),
                 &time_scale, "Time to run a batch.");
    write_devices(out, now);
    write_queues(out, metrics, now);
    write_loads(out, metrics, now);
    write_reload(out, metrics, now);
    write_generations(out, metrics, now);
    write_gauges(out, now);
    write_process(out, now);
    write_counter(out, "linformerd_log_lines_dropped_total",
                  "Log lines that could not be written, or for which there was no room.", now->log_lines_dropped);
    write_counter(out, "linformerd_spans_sent_total", "Spans that the collector accepted.", now->spans_sent);
    write_counter(out, "linformerd_spans_dropped_total",
                  "Spans that the collector did not accept, or for which there was no room.", now->spans_dropped);
    bool failed = ferror(out) != 0;
    failed |= fclose(out) != 0;
    if (failed) {
        free(text);
        return NULL;
    }
    return text;
}
