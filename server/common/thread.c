/* thread: writes the message about a thread that cannot be started. */
#include "server/common/thread.h"

#include <string.h>

int thread_refused(const char *task, int reason, struct error *error)
{
    return error_set(error,
                     "cannot start a thread for %s: %s; is the number of threads limited (ulimit -u, a container's "
                     "pids.max), or memory (ulimit -v)?",
                     task, strerror(reason));
}
