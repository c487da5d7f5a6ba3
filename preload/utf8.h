/*
 * utf8.h - a character in UTF-8. No state; any thread; async-signal-safe.
 */
#ifndef LS_UTF8_H
#define LS_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Returns the bytes used, 1 to 4. What is no character becomes U+FFFD, the one for such. */
static inline size_t ls_utf8(uint32_t c, char out[4]) {
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        c = 0xfffd;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(first[size] | c);
    return size;
}

#endif
