/* memory: the machine's memory and the limits of control groups. A container sees the memory of the whole machine, but
 * the kernel kills its processes at the limit of its group. The limit of a group also applies to the groups inside it.
 * So the limits of the process's group and of all groups that contain it are read. */
#include "server/common/memory.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Reads the limit in the file `name` of a group. Returns INT64_MAX if there is no such file, or if it contains
 * "max". */
static int64_t read_limit(const char *root, const char *hierarchy, const char *group, const char *name)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s/%s", root, hierarchy, group, name) >= (int)sizeof path)
        return INT64_MAX;
    FILE *file = fopen(path, "re");
    if (!file)
        return INT64_MAX;
    long long limit = 0;
    if (fscanf(file, "%lld", &limit) != 1 || limit <= 0)
        limit = INT64_MAX;
    fclose(file);
    return limit;
}

/* Returns the smallest limit of a group and of the groups that contain it. Shortens the string `group`. */
static int64_t least_limit(const char *root, const char *hierarchy, char *group, const char *name)
{
    int64_t least = INT64_MAX;
    for (;;) {
        char *slash = strrchr(group, '/');
        int64_t limit = read_limit(root, hierarchy, group, name);
        least = limit < least ? limit : least;
        if (!slash)
            return least;
        /* Continue with the containing group. In a container, only the folder of the root group may exist. */
        *slash = '\0';
    }
}

/* Returns the smallest limit for a line of /proc/self/cgroup. The line has the form ID:CONTROLLERS:GROUP. In version 2
 * of control groups, CONTROLLERS is empty. */
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
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    while (file && fgets(line, sizeof line, file)) {
        int64_t limit = line_limit(root, line);
        least = limit < least ? limit : least;
    }
    if (file)
        fclose(file);
    return least;
}

int64_t memory_resident_bytes(void)
{
    long long total = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%lld %lld", &total, &pages) != 2)
        pages = 0;
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}
