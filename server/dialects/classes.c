#include "server/dialects/classes.h"

#include "server/http/service.h"

#include <stdlib.h>
#include <string.h>

static int compare_classes(const void *a, const void *b)
{
    const struct class_score *first = a, *second = b;
    if (first->score != second->score)
        return first->score > second->score ? -1 : 1;
    return first->class < second->class ? -1 : 1;
}

void classes_sort(const float *scores, int64_t count, struct class_score *sorted)
{
    for (int64_t i = 0; i < count; i++)
        sorted[i] = (struct class_score){i, scores[i]};
    qsort(sorted, (size_t)count, sizeof *sorted, compare_classes);
}

int64_t classes_label_bytes(const struct request *request)
{
    const struct served_label *labels = request->set->models[request->model_index].labels;
    size_t most = 0;
    for (int64_t i = 0; labels && i < request->info->output_columns; i++) {
        size_t length = strlen(labels[i].text);
        most = length > most ? length : most;
    }
    return (int64_t)most;
}
