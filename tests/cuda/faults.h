/* faults: makes calls of the shim's runtime fail. shim/faults.h describes the rules. */
#ifndef TESTS_CUDA_FAULTS_H
#define TESTS_CUDA_FAULTS_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CUDA_OUT_OF_MEMORY 2
#define CUDA_ILLEGAL_ADDRESS 700

static char faults_path[64];

/* Replaces the rules for this process, and for processes that this process starts later. */
static void faults_set(const char *rules)
{
    /* The shim recognises a new file by its inode. While the old file exists, the new file has another inode. */
    static int written;
    char beside[80];
    snprintf(beside, sizeof beside, "%s.%d", faults_path, written++ % 2);
    FILE *file = fopen(beside, "w");
    if (!file || fputs(rules, file) < 0 || fclose(file) != 0 || rename(beside, faults_path) != 0) {
        perror(beside);
        abort();
    }
}

static void faults_begin(void)
{
    snprintf(faults_path, sizeof faults_path, "/tmp/shim_faults.%d", (int)getpid());
    setenv("SHIM_FAULTS", faults_path, 1);
    faults_set("");
}

static void faults_end(void)
{
    unlink(faults_path);
}

#endif
