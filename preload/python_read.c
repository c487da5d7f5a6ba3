/*
 * python_read.c - see python_read.h. Any thread; on the way of things that are seen first.
 */
#include "python_read.h"

#include "readable.h"
#include "utf8.h"

#define LARGEST_TABLE (16u << 20) /* bytes of a line table that are looked at */

bool ls_python_try_word(uintptr_t object, unsigned offset, uint64_t *word) {
    uintptr_t at = object + offset;
    if (object == 0 || object % sizeof(void *) != 0 || !ls_is_readable(at & ~(uintptr_t)7) ||
        !ls_is_readable((at + 7) & ~(uintptr_t)7))
        return false;
    *word = ls_python_word(object, offset);
    return true;
}

/* Bits of a str's state, counted from `kind`. Some builds of 3.14 give 16 bits, not 2, to what lies
 * below. A str has a kind, so in the older form these bits are never all 0; in the newer one they
 * are the upper bits of a number that is at most 3. */
static unsigned state_of(uintptr_t text) {
    uint32_t state = (uint32_t)ls_python_int(text, LS_PYTHON_TEXT_STATE);
    return state & 0xfc ? state >> 2 & 63 : state >> 16 & 63;
}
#define COMPACT 8u /* the characters follow the head */
#define ASCII 16u

struct ls_python_text ls_python_text(uintptr_t text) {
    const struct ls_python_layout *layout = &ls_python.layout;
    unsigned state = state_of(text);
    struct ls_python_text found = {
        .length = ls_python_word(text, LS_PYTHON_LENGTH),
        .kind = state & 7,
    };
    if (!(state & COMPACT)) /* of a subclass */
        found.data = (const void *)ls_python_word(text, layout->wide);
    else
        found.data = (const void *)(text + (state & ASCII ? layout->ascii : layout->wide));
    if (!found.data || (found.kind != 1 && found.kind != 2 && found.kind != 4))
        found = (struct ls_python_text){.data = ""};
    return found;
}

static uint32_t character(const struct ls_python_text *text, size_t i) {
    uint32_t c = text->kind == 1   ? ((const uint8_t *)text->data)[i]
                 : text->kind == 2 ? ((const uint16_t *)text->data)[i]
                                   : ((const uint32_t *)text->data)[i];
    return c ? c : 0xfffd; /* a text in a record ends with a NUL */
}

size_t ls_python_utf8(uintptr_t object, char *out, size_t room) {
    struct ls_python_text text = ls_python_text(object);
    size_t used = 0;
    for (size_t i = 0; i < text.length; i++) {
        char bytes[4];
        size_t size = ls_utf8(character(&text, i), bytes);
        if (used + size >= room)
            break;
        memcpy(out + used, bytes, size);
        used += size;
    }
    out[used] = 0;
    return used;
}

uint32_t ls_python_line_at(uintptr_t code, int64_t at) {
    const struct ls_python_layout *layout = &ls_python.layout;
    uintptr_t lines = ls_python_word(code, layout->lines);
    uint64_t size = ls_python_word(lines, LS_PYTHON_LENGTH);
    return ls_python_line(layout->line_format, (const uint8_t *)(lines + LS_PYTHON_BYTES),
                          size < LARGEST_TABLE ? size : LARGEST_TABLE,
                          ls_python_int(code, layout->first_line), at);
}
