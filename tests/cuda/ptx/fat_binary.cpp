/* Reads fat binaries. Compressed PTX is a zstd frame, which is the default of nvcc 13.0, or an LZ4 block, which nvcc
 * writes with --compress-mode=speed. */
#include "tests/cuda/ptx/fat_binary.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <zstd.h>

namespace ptx
{
namespace
{
/* The header of a fat binary. Sections follow, each with its own header. */
struct fat_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* size of all sections */
};

struct fat_section {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;            /* size of the data with padding */
    uint32_t compressed_bytes; /* size of the compressed data without padding. 0 if not compressed */
    uint32_t options_at;
    uint16_t minor, major; /* version of PTX */
    uint32_t capability;   /* compute capability, such as 120 */
    uint32_t name_at, name_bytes;
    uint64_t flags, unused;
    uint64_t text_bytes; /* size of the text after decompression */
};

constexpr uint32_t FAT_MAGIC = 0xba55ed50u;
constexpr uint16_t KIND_PTX = 1;
constexpr uint64_t FLAG_LZ4 = 0x2000, FLAG_ZSTD = 0x8000;
constexpr uint64_t MAX_TEXT_BYTES = (uint64_t)1 << 30;

[[noreturn]] void die(const char *what)
{
    fprintf(stderr, "PTX emulator: fat binary: %s\n", what);
    abort();
}

/* Returns a length in an LZ4 block. `length` is the field of four bits that begins it. If the field is 15, bytes to add
 * follow at `from`. */
size_t lz4_length(size_t length, const uint8_t *&from, const uint8_t *end)
{
    if (length < 15)
        return length;
    for (uint8_t more = 255; more == 255; length += more) {
        if (from == end)
            die("its LZ4 block ends within a length");
        more = *from++;
    }
    return length;
}

/* An LZ4 block consists of sequences. A sequence contains literals, which are copied, and a match, which repeats
 * earlier bytes of the text. The last sequence has no match. */
std::string read_lz4(const uint8_t *from, size_t bytes, size_t text_bytes)
{
    const uint8_t *end = from + bytes;
    std::string text;
    while (from < end) {
        uint8_t token = *from++;
        size_t literals = lz4_length(token >> 4, from, end);
        if (literals > (size_t)(end - from) || text.size() + literals > text_bytes)
            die("literals of its LZ4 block are too long");
        text.append((const char *)from, literals);
        from += literals;
        if (from == end)
            break;
        if (end - from < 2)
            die("its LZ4 block ends within a match");
        size_t distance = from[0] | from[1] << 8;
        from += 2;
        size_t length = lz4_length(token & 15, from, end) + 4;
        if (distance == 0 || distance > text.size() || text.size() + length > text_bytes)
            die("a match of its LZ4 block is outside of the text");
        for (; length > 0; length--) /* one byte at a time, because the match may overlap its copy */
            text += text[text.size() - distance];
    }
    if (text.size() != text_bytes)
        die("its LZ4 block is shorter than the text");
    return text;
}

std::string read_zstd(const uint8_t *from, size_t bytes, size_t text_bytes)
{
    std::string text(text_bytes, '\0');
    if (ZSTD_decompress(text.data(), text_bytes, from, bytes) != text_bytes)
        die("its zstd frame does not decompress to the expected length");
    return text;
}

std::string read_text(const fat_section &section)
{
    const uint8_t *data = (const uint8_t *)&section + section.header_bytes;
    std::string text;
    if (!(section.flags & (FLAG_LZ4 | FLAG_ZSTD)) && section.compressed_bytes == 0)
        text.assign((const char *)data, section.bytes);
    else if (section.compressed_bytes > section.bytes || section.text_bytes > MAX_TEXT_BYTES)
        die("sizes of its compressed PTX are too large");
    else if (section.flags & FLAG_ZSTD)
        text = read_zstd(data, section.compressed_bytes, section.text_bytes);
    else if (section.flags & FLAG_LZ4)
        text = read_lz4(data, section.compressed_bytes, section.text_bytes);
    else
        die("its PTX is compressed neither with zstd nor with LZ4");
    text.resize(strnlen(text.data(), text.size()));
    return text;
}
} // namespace

std::string newest_ptx(const void *fat_binary)
{
    const fat_header *header = (const fat_header *)fat_binary;
    if (header->magic != FAT_MAGIC)
        die("its magic number is wrong");
    const fat_section *newest = nullptr;
    const char *at = (const char *)fat_binary + header->header_bytes, *end = at + header->bytes;
    while (at < end) {
        const fat_section *section = (const fat_section *)at;
        if (section->kind == KIND_PTX && (!newest || section->capability > newest->capability))
            newest = section;
        at += section->header_bytes + section->bytes;
    }
    if (!newest)
        die("it has no PTX");
    return read_text(*newest);
}
} // namespace ptx
