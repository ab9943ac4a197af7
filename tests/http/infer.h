/* infer: calls of /v2/models/{m}/infer that send and receive tensors as bytes after the JSON. The bodies may also come
 * from the reference cases. Any failure of these functions fails the running test. */
#ifndef TESTS_HTTP_INFER_H
#define TESTS_HTTP_INFER_H

#include "tests/http/daemon.h"
#include "weights/weights.h"

#include <jansson.h>

#define CASES_FOLDER "tests/reference"
#define MIN_CASES 82

/* A tensor of the protocol. The struct does not own the memory behind its pointers. */
struct infer_tensor {
    const char *name, *datatype;
    int rank;
    int64_t shape[WEIGHTS_MAX_RANK];
    const void *data; /* may be unaligned */
    size_t bytes;
};

int64_t infer_elements(const struct infer_tensor *tensor);

/* The body of a request: JSON, followed by the bytes of the tensors. */
struct infer_request {
    char *bytes;
    size_t json, length;
};

/* Returns a body that requests `outputs` by name. Without names, the daemon answers with the first output of the model.
 * The caller frees the body. */
struct infer_request infer_body_of(const struct infer_tensor *inputs, size_t n_inputs, const char *const *outputs,
                                   size_t n_outputs);
void infer_body_free(struct infer_request *body);

/* An answer with status 200. The caller frees it. */
struct infer_answer {
    struct answer answer;
    json_t *json;
    const char *bytes; /* bytes after the JSON, of shape (length) */
    size_t length;
};

struct infer_answer infer_send(const struct daemon *daemon, const char *model, const struct infer_request *body);

/* infer_call and infer_read are the two steps of infer_send. Any thread may call infer_call. Only the test's thread may
 * call infer_read, which takes over the answer of infer_call. `curl` is an easy handle that keeps its connection. NULL
 * stands for a new handle. */
struct answer infer_call(const struct daemon *daemon, const char *model, const struct infer_request *body, void *curl);
struct infer_answer infer_read(struct answer answer);
size_t infer_count(const struct infer_answer *answer); /* number of outputs */
struct infer_tensor infer_output(const struct infer_answer *answer, size_t index);
void infer_answer_free(struct infer_answer *answer);

/* The relative L2 distance of two FP32 tensors. */
double infer_relative_l2(const struct infer_tensor *found, const struct infer_tensor *expected);

/* ---- The reference cases: tests/reference/README.md ---- */

/* cases_find returns the sorted names of the folders that contain a config.json. It fails the test if there are fewer
 * than `fewest`. */
struct cases {
    char **names;
    size_t count;
};
struct cases cases_find(const char *folder, int fewest);
void cases_free(struct cases *cases);

/* Opens the stored calls of a case. The caller closes them. */
struct weights *case_calls(const char *folder, const char *name);

/* Writes the tensors of call `index` in the file's order. `tensors` has space for `room` of them. More tensors fail the
 * test. `way` is "in" for inputs, "out" for outputs. Returns the number of tensors, or 0 if there is no such call. */
size_t case_tensors(const struct weights *calls, int index, const char *way, struct infer_tensor *tensors, size_t room);

/* Returns the body of call `index`. The body requests each output that the case stores. If there is no such call,
 * `bytes` is NULL. */
struct infer_request case_body(const struct weights *calls, int index);

/* Compares each output of the call with the case. The shapes must be equal. The relative L2 error of each output must
 * be at most `tolerance`. Returns the largest error. */
double case_compare(const struct weights *calls, int index, const struct infer_answer *answer, double tolerance);

#endif
