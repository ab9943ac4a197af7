/* classes: sorts the classes of an item by their scores, and measures their labels. /predict, /classify and the dialect
 * v2 use it. */
#ifndef SERVER_DIALECTS_CLASSES_H
#define SERVER_DIALECTS_CLASSES_H

#include "server/http/request.h"

/* A class, and its score for one item. */
struct class_score {
    int64_t class;
    float score;
};

/* Sorts `count` finite scores. The larger score comes first. Of equal scores, the earlier class comes first.
 * `sorted` (count) receives the result. */
void classes_sort(const float *scores, int64_t count, struct class_score *sorted);

/* The number of bytes of the longest label of the request's model, without the NUL. 0 if the model has no labels. */
int64_t classes_label_bytes(const struct request *request);

#endif
