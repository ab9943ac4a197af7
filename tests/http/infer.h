/* infer: calls of /v2/models/{m}/infer whose tensors, in and out, are bytes behind JSON; and the reference cases as
 * such calls. Everything here fails the running test when something does not go as it must. */
#ifndef TESTS_HTTP_INFER_H
#define TESTS_HTTP_INFER_H

#include "tests/http/daemon.h"
#include "weights/weights.h"

#include <jansson.h>

#define CASES_FOLDER "tests/reference"
#define FEWEST_CASES 82

/* A tensor as the protocol has it. What it points to is somebody else's. */
struct infer_tensor {
    const char *name, *datatype;
    int rank;
    int64_t shape[WEIGHTS_MAX_RANK];
    const void *data; /* not aligned */
    size_t bytes;
};

int64_t infer_elements(const struct infer_tensor *tensor);

/* A request's body: JSON, then the tensors' bytes. */
struct infer_body {
    char *bytes;
    size_t json, length;
};

/* Outputs by name; none: the class's own. The test frees it. */
struct infer_body infer_body_of(const struct infer_tensor *inputs, size_t n_inputs, const char *const *outputs,
                                size_t n_outputs);
void infer_body_free(struct infer_body *body);

/* An answer of status 200. The test frees it. */
struct infer_answer {
    struct answer answer;
    json_t *json;
    const char *bytes; /* behind the JSON, */
    size_t length;     /* so many */
};

struct infer_answer infer_send(const struct daemon *daemon, const char *model, const struct infer_body *body);

/* The two halves of it, of which threads may call the first. `curl`: an easy handle that keeps its connection; NULL:
 * one of its own. infer_read takes the answer over. */
struct answer infer_call(const struct daemon *daemon, const char *model, const struct infer_body *body, void *curl);
struct infer_answer infer_read(struct answer answer);
size_t infer_count(const struct infer_answer *answer); /* of its outputs */
struct infer_tensor infer_output(const struct infer_answer *answer, size_t index);
void infer_answer_free(struct infer_answer *answer);

/* Of two tensors of FP32. */
double infer_relative_l2(const struct infer_tensor *found, const struct infer_tensor *expected);

/* ---- The reference cases: tests/reference/README.md ---- */

/* Names of the folders, in order; fails below FEWEST_CASES. */
struct cases {
    char **names;
    size_t count;
};
struct cases cases_find(void);
void cases_free(struct cases *cases);

/* The calls of a case. The test closes them. */
struct weights *case_calls(const char *name);

/* The tensors that call `index` gives ("in") or gets ("out"), in the file's order; at most `room`. 0: no such call. */
size_t case_tensors(const struct weights *calls, int index, const char *way, struct infer_tensor *tensors, size_t room);

/* Call `index`, asking for each output that the case stores; bytes NULL: there is no such call. */
struct infer_body case_body(const struct weights *calls, int index);

/* Expects each output of the call, in its shape, within `tolerance`; returns the largest relative L2 error. */
double case_compare(const struct weights *calls, int index, const struct infer_answer *answer, double tolerance);

#endif
