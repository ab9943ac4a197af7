#include "faults.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <sys/stat.h>
#include <vector>

struct rule {
    shim::call kind;
    uint64_t first, count; /* if `count` is 0, all calls from the first call on */
    cudaError_t code;
    bool sticky;
    int device; /* number of the device, or -1 for all devices */
    uint64_t seen;
};

static std::mutex mutex;
static std::vector<rule> rules;
static std::map<int, cudaError_t> broken; /* the sticky error of each broken device */
static ino_t file;                        /* inode of the file of rules, or 0 if no file was read */

static const std::map<std::string, shim::call> calls = {
    {"malloc", shim::call::malloc},
    {"host", shim::call::host},
    {"copy", shim::call::copy},
    {"launch", shim::call::launch},
    {"product", shim::call::product},
    {"algorithm", shim::call::algorithm},
    {"synchronize", shim::call::synchronize},
    {"open", shim::call::open},
    {"epilogue", shim::call::epilogue},
    {"choose", shim::call::choose},
    {"kernel", shim::call::kernel},
    {"grouped", shim::call::grouped},
    {"start", shim::call::start},
};

static void read_rules(const char *path)
{
    char line[256], kind[32], rest[64];
    FILE *in = fopen(path, "r");
    rules.clear();
    while (in && fgets(line, sizeof line, in)) {
        rule rule = {};
        int code = 0;
        rest[0] = '\0';
        if (sscanf(line, "%31s %lu %lu %d %63[^\n]", kind, &rule.first, &rule.count, &code, rest) < 4 ||
            !calls.count(kind))
            shim::die("SHIM_FAULTS: a line is not a rule");
        const char *device = strstr(rest, "device ");
        rule.kind = calls.at(kind);
        rule.code = (cudaError_t)code;
        rule.sticky = strstr(rest, "sticky") != nullptr;
        rule.device = device ? atoi(device + 7) : -1;
        rules.push_back(rule);
    }
    if (in)
        fclose(in);
}

/* Reads the rules if the file is new. A file that replaces another file has another inode. The caller holds the
 * lock. */
static void look_for_rules()
{
    const char *path = getenv("SHIM_FAULTS");
    struct stat found = {};
    if (!path || stat(path, &found) != 0 || found.st_ino == file)
        return;
    file = found.st_ino;
    read_rules(path);
}

cudaError_t shim::fault(call kind)
{
    std::lock_guard<std::mutex> lock(mutex);
    int device = current_device();
    look_for_rules();
    if (kind != call::choose && broken.count(device))
        return broken[device];
    for (auto &rule : rules) {
        if (rule.kind != kind || (rule.device >= 0 && rule.device != device))
            continue;
        rule.seen++;
        if (rule.seen < rule.first || (rule.count > 0 && rule.seen >= rule.first + rule.count))
            continue;
        if (rule.sticky)
            broken[device] = rule.code;
        return rule.code;
    }
    return cudaSuccess;
}

bool shim::is_broken()
{
    std::lock_guard<std::mutex> lock(mutex);
    return broken.count(current_device()) > 0;
}

void shim::mend(int device)
{
    std::lock_guard<std::mutex> lock(mutex);
    broken.erase(device);
}
