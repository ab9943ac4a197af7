/* Fat binaries, which nvcc of CUDA 13.0 made of `extern "C" __global__ void empty() {}` with the options -fatbin,
 * -gencode for compute_120 and then compute_80, and --compress-mode. The expected text is the PTX in the binary of mode
 * none. Damaged fat binaries must end the process with SIGABRT, or give a text that is not too long. */
#include "tests/cuda/ptx/fat_binary.h"

#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include <cmocka.h>
}

#define FIRST_SECTION 16
#define SECTION_BYTES (80 + 96) /* size of a section's header and data */
#define DATA (FIRST_SECTION + 80)

namespace
{
const char text[] = "\n\n\n\n\n\n\n\n.version 9.0\n.target sm_120\n.address_size 64\n\n\n\n"
                    ".visible .entry empty()\n{\n\n\nret;\n\n}\n";
const char none[] =
    "50ed55ba01001000600100000000000001000101500000006000000000000000000000004000000000000900780000000000"
    "000000000000110000000000000000000000000000000000000000000000480000000000000000000000000000000a0a0a0a"
    "0a0a0a0a2e76657273696f6e20392e300a2e74617267657420736d5f3132300a2e616464726573735f73697a652036340a0a"
    "0a0a2e76697369626c65202e656e74727920656d70747928290a7b0a0a0a7265743b0a0a7d0a000000000100010150000000"
    "6000000000000000000000004000000000000900500000000000000000000000110000000000000000000000000000000000"
    "000000000000480000000000000000000000000000000a0a0a0a0a0a0a0a2e76657273696f6e20392e300a2e746172676574"
    "20736d5f38300a2e616464726573735f73697a652036340a0a0a0a2e76697369626c65202e656e74727920656d7074792829"
    "0a7b0a0a0a0a7265743b0a0a7d0a0a000000";
const char balance[] =
    "50ed55ba010010006001000000000000010001015000000060000000000000005d0000004000000000000900780000000000"
    "000000000000118000000000000000000000000000005d000000000000004800000000000000000000000000000028b52ffd"
    "205da5020002451219704bdbc0f85adb63d37c2177aaaa52f8fd1b4d33aa2660c706881fb6619fb61d06246b17e9b672d5cf"
    "9e38a0e280606fa01ad52742e75c040193d4f6883c7b2e5730a540cd33ce0102009c6a143227040000000100010150000000"
    "60000000000000005d0000004000000000000900500000000000000000000000118000000000000000000000000000005e00"
    "0000000000004800000000000000000000000000000028b52ffd205ea50200d2c4111980a96dc019b25618ec0b0173bb0922"
    "143e36eec1e05cd4003687ddb009fb643841d626d26de5aa9ffd50404540c0be4035aa4f84ceb9084c52db1bf2ecb9dcc014"
    "0235af38070300810a6d528d42e684000000";
const char speed[] =
    "50ed55ba010010006001000000000000010001015000000060000000000000005b0000004000000000000900780000000000"
    "000000000000112000000000000000000000000000005d0000000000000048000000000000000000000000000000130a0100"
    "f01d2e76657273696f6e20392e300a2e74617267657420736d5f3132300a2e616464726573735f73697a652036343200f016"
    "2e76697369626c65202e656e74727920656d70747928290a7b0a0a0a7265743b0a0a7d0a0000000000000100010150000000"
    "60000000000000005b0000004000000000000900500000000000000000000000112000000000000000000000000000005e00"
    "00000000000048000000000000000000000000000000130a0100f01c2e76657273696f6e20392e300a2e7461726765742073"
    "6d5f38300a2e616464726573735f73697a652036343100f00a2e76697369626c65202e656e74727920656d70747928290a7b"
    "1d00a07265743b0a0a7d0a0a000000000000";

std::vector<uint8_t> bytes_of(const char *hex)
{
    std::vector<uint8_t> bytes(strlen(hex) / 2);
    for (size_t i = 0; i < bytes.size(); i++)
        bytes[i] = (uint8_t)std::stoi(std::string(hex + 2 * i, 2), nullptr, 16);
    return bytes;
}

void ptx_is_read_in_all_modes_of_compression(void **)
{
    for (const char *mode : {none, balance, speed})
        assert_string_equal(ptx::newest_ptx(bytes_of(mode).data()).c_str(), text);
}

/* The newest PTX need not come first. A section with machine code is ignored. */
void the_newest_ptx_of_a_binary_is_used(void **)
{
    for (const char *mode : {none, balance, speed}) {
        std::vector<uint8_t> bytes = bytes_of(mode), swapped(bytes.begin(), bytes.begin() + FIRST_SECTION);
        swapped.insert(swapped.end(), bytes.begin() + FIRST_SECTION + SECTION_BYTES, bytes.end());
        swapped.insert(swapped.end(), bytes.begin() + FIRST_SECTION, bytes.begin() + FIRST_SECTION + SECTION_BYTES);
        assert_string_equal(ptx::newest_ptx(swapped.data()).c_str(), text);
        swapped[FIRST_SECTION + SECTION_BYTES] = 2; /* the section's kind becomes machine code */
        assert_non_null(strstr(ptx::newest_ptx(swapped.data()).c_str(), "sm_80"));
    }
}

/* Returns whether reading ends the process with SIGABRT. If it does not, the text must not be longer than `text`. */
bool is_refused(const std::vector<uint8_t> &bytes)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* removes cmocka's handler */
        fclose(stderr);
        _exit(ptx::newest_ptx(bytes.data()).size() <= sizeof text ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

void damaged_binaries_are_refused(void **)
{
    const struct {
        const char *mode;
        size_t at;
        uint8_t value;
    } faults[] = {
        {none, 0, 0},                     /* the magic number */
        {balance, DATA, 0},               /* the magic number of the zstd frame */
        {balance, FIRST_SECTION + 56, 1}, /* the size of the text */
        {speed, FIRST_SECTION + 56, 1},
        {speed, FIRST_SECTION + 56, 255},
        {speed, DATA + 2, 2},            /* a match that begins before the text */
        {speed, FIRST_SECTION + 16, 20}, /* the compressed size */
        {speed, FIRST_SECTION + 17, 1},
        {speed, FIRST_SECTION + 41, 0x40}, /* an unknown compression */
    };
    for (auto &fault : faults) {
        std::vector<uint8_t> bytes = bytes_of(fault.mode);
        bytes[fault.at] = fault.value;
        if (!is_refused(bytes))
            fail_msg("byte %zu is %u, and is not refused", fault.at, fault.value);
    }
}

/* Inverts the bits of each byte of the compressed text, one byte at a time. The address sanitizer reports reads beyond
 * the end. */
void bytes_beyond_the_end_are_never_read(void **)
{
    for (const char *mode : {balance, speed})
        for (size_t at = DATA; at < FIRST_SECTION + SECTION_BYTES; at++) {
            std::vector<uint8_t> bytes = bytes_of(mode);
            bytes[at] ^= 0xff;
            is_refused(bytes);
        }
}
} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ptx_is_read_in_all_modes_of_compression),
        cmocka_unit_test(the_newest_ptx_of_a_binary_is_used),
        cmocka_unit_test(damaged_binaries_are_refused),
        cmocka_unit_test(bytes_beyond_the_end_are_never_read),
    };
    return cmocka_run_group_tests_name("fat binaries", tests, NULL, NULL);
}
