/*
 * mark.c - see mark.h. Any thread. From a signal handler that interrupts layoutspy itself nothing
 * is written, and the mark is counted as lost.
 */
#include "mark.h"

#include <string.h>

#include "wrap.h"

/* Whole characters only: what follows a cut must not begin inside of one. */
uint32_t ls_mark_length(const char *text) {
    uint32_t length = (uint32_t)strnlen(text, LS_MARK_TEXT + 1);
    if (length <= LS_MARK_TEXT)
        return length;
    length = LS_MARK_TEXT;
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--;
    return length;
}

void ls_mark_at(enum ls_mark kind, uint64_t ticks, uint64_t value, uint64_t domain,
                const char *text) {
    struct ls_thread *self = ls_enter_recording();
    if (!self)
        return;
    ls_busy(self);
    uint32_t length = ls_mark_length(text);
    uint32_t size = (uint32_t)(sizeof(struct ls_rec_mark) + length + 1 + 7) & ~7u;
    struct ls_rec_mark *record = ls_spool_reserve(self, size);
    if (record) {
        memset(record, 0, size);
        record->head.size = (uint16_t)size;
        record->head.type = LS_REC_MARK;
        record->ticks = ticks;
        record->value = value;
        record->domain = domain;
        record->kind = (uint32_t)kind;
        memcpy(record->text, text, length);
        ls_spool_commit(self, size);
    } else {
        ls_spool_lost(self, self->chunk_error, 1);
    }
    ls_not_busy(self);
}

void ls_mark(enum ls_mark kind, uint64_t value, uint64_t domain, const char *text) {
    ls_mark_at(kind, ls_ticks(), value, domain, text);
}
