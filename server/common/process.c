/* process: reads files in /proc/self, which proc(5) documents. */
#include "server/common/process.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The numbers of /proc/self/stat that process_state_now and process_started_s need. */
struct stat_line {
    long long threads;
    unsigned long long start_ticks; /* time at which the process started, in clock ticks since the machine started */
    unsigned long long virtual_bytes;
    long long resident_pages;
};

static bool stat_read(struct stat_line *stat)
{
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    if (!file)
        return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    /* The last bracket, because the name of the process may contain spaces and brackets. */
    const char *name_end = strrchr(text, ')');
    return name_end &&
           sscanf(name_end + 1,
                  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %lld %*d %llu %llu %lld",
                  &stat->threads, &stat->start_ticks, &stat->virtual_bytes, &stat->resident_pages) == 4;
}

static int64_t descriptors_listed(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int64_t count = -1; /* does not count the descriptor with which the folder itself is open */
    if (!folder)
        return 0;
    for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* Returns the number of open descriptors. Since Linux 6.2, the size of the folder is the number of its entries. On
 * older kernels the size is 0. */
static int64_t descriptors_open(void)
{
    struct stat folder;
    if (stat("/proc/self/fd", &folder) == 0 && folder.st_size > 0)
        return folder.st_size;
    return descriptors_listed();
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

struct process_state process_state_now(void)
{
    struct process_state state = {.open_fds = descriptors_open()};
    struct rusage usage;
    struct rlimit limit;
    struct stat_line stat;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        state.cpu_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        state.max_fds = limit.rlim_cur > INT64_MAX ? INT64_MAX : (int64_t)limit.rlim_cur;
    if (stat_read(&stat)) {
        state.threads = stat.threads;
        state.virtual_bytes = (int64_t)stat.virtual_bytes;
        state.resident_bytes = stat.resident_pages * sysconf(_SC_PAGESIZE);
    }
    return state;
}

/* Returns the time at which the machine started, in seconds since 1970. 0 if unknown. */
static long long boot_s(void)
{
    char line[256];
    long long seconds = 0;
    FILE *file = fopen("/proc/stat", "re");
    while (file && seconds == 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "btime %lld", &seconds) != 1)
            seconds = 0;
    if (file)
        fclose(file);
    return seconds;
}

double process_started_s(void)
{
    struct stat_line stat;
    long long boot = boot_s();
    if (boot == 0 || !stat_read(&stat))
        return 0;
    return (double)boot + (double)stat.start_ticks / (double)sysconf(_SC_CLK_TCK);
}
