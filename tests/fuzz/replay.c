/* Gives each file of a folder to a fuzz target, without a fuzzer. If a fault that a fuzzer found earlier returns, the
 * tests find it. Prints one TAP test, and the name of each file before the target reads the file. If the target finds a
 * fault, it aborts. The last name is that of the file with the fault. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns the bytes of the file. The block has exactly the size of the file, so that the address sanitizer finds reads
 * beyond its end. Returns NULL if the file cannot be read. The caller frees the bytes. */
static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    uint8_t *data = NULL;
    if (fseek(file, 0, SEEK_END) != 0)
        goto done;
    long length = ftell(file);
    if (length < 0 || fseek(file, 0, SEEK_SET) != 0)
        goto done;
    data = malloc((size_t)length);
    if (length > 0 && (!data || fread(data, 1, (size_t)length, file) != (size_t)length)) {
        free(data);
        data = NULL;
        goto done;
    }
    *size = (size_t)length;
done:
    fclose(file);
    return data;
}

static int is_input(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    printf("1..1\n");
    struct dirent **entries = NULL;
    int count = scandir(argv[1], &entries, is_input, alphasort);
    if (count <= 0) {
        printf("not ok 1 - %s: %s\n", argv[1], count < 0 ? strerror(errno) : "no inputs in it");
        free(entries);
        return 1;
    }
    int unread = 0;
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name);
        free(entries[i]);
        printf("# %s\n", path);
        fflush(stdout);
        size_t size = 0;
        uint8_t *data = read_file(path, &size);
        if (!data) {
            printf("# cannot be read\n");
            unread++;
            continue;
        }
        LLVMFuzzerTestOneInput(data, size);
        free(data);
    }
    free(entries);
    printf("%sok 1 - %d inputs of %s\n", unread ? "not " : "", count, argv[1]);
    return unread ? 1 : 0;
}
