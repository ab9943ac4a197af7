#include "server/dialects/v2/model.h"

#include <string.h>

int v2_model(struct request *request)
{
    const char *version = request->parameters[1];
    if (request_model(request, request->parameters[0]) != 0)
        return -1;
    if (!*version || strcmp(version, V2_VERSION) == 0)
        return 0;
    return failure_set(&request->failure, FAILURE_NO_MODEL,
                       "model \"%s\" has no version \"%.100s\", only \"" V2_VERSION "\"", request->parameters[0],
                       version);
}
