/* classes: sorts the classes of an item by their scores, and names them. /predict, /classify and /v2 use it. */
#ifndef SERVER_DIALECTS_CLASSES_H
#define SERVER_DIALECTS_CLASSES_H

#include "server/http/request.h"

/* One class of an item. */
struct class_score {
    int64_t class;
    float score;
};

/* Sorts `count` finite scores. The larger score comes first. Of equal scores, the earlier class comes first.
 * `sorted` (count) receives the result. */
void classes_sort(const float *scores, int64_t count, struct class_score *sorted);

/* The most bytes of a label of the requested model, without a NUL. 0 if its classes have no labels. */
int64_t classes_label_bytes(const struct request *request);

#endif
