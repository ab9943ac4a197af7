/* memory: the machine's, and the limits of control groups. A container sees the whole machine's memory, and the kernel
 * ends it where its group's limit is. A limit counts for all groups below it, so each group on the way up is asked. */
#include "server/common/memory.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* INT64_MAX: no such file, or "max". */
static int64_t read_limit(const char *root, const char *hierarchy, const char *group, const char *name)
{
    char path[PATH_MAX];
    long long limit;
    FILE *file;

    if (snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s/%s", root, hierarchy, group, name) >= (int)sizeof path)
        return INT64_MAX;
    file = fopen(path, "re");
    if (!file)
        return INT64_MAX;
    if (fscanf(file, "%lld", &limit) != 1 || limit <= 0)
        limit = INT64_MAX;
    fclose(file);
    return limit;
}

/* The least limit of a group and those around it; changes `group`. */
static int64_t least_limit(const char *root, const char *hierarchy, char *group, const char *name)
{
    int64_t least = INT64_MAX;
    for (;;) {
        char *slash = strrchr(group, '/');
        int64_t limit = read_limit(root, hierarchy, group, name);
        least = limit < least ? limit : least;
        if (!slash)
            return least;
        *slash = '\0'; /* in a container the group itself may not be there, but its root is */
    }
}

/* A line of /proc/self/cgroup is ID:CONTROLLERS:GROUP; version 2 has no controllers there. */
static int64_t line_limit(const char *root, char *line)
{
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return INT64_MAX;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (!controllers[1])
        return least_limit(root, "", group, "memory.max");
    if (strcmp(controllers + 1, "memory") == 0)
        return least_limit(root, "/memory", group, "memory.limit_in_bytes");
    return INT64_MAX;
}

int64_t memory_bytes(const char *root)
{
    int64_t least = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    char line[PATH_MAX];
    FILE *file;
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    file = fopen(line, "re");
    while (file && fgets(line, sizeof line, file)) {
        int64_t limit = line_limit(root, line);
        least = limit < least ? limit : least;
    }
    if (file)
        fclose(file);
    return least;
}
