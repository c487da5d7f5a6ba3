/*
 * operand.h - gathering the operands of a call, between its end and its record.
 *
 * The rows with operands (API_OPERANDS in layoutspy/api.h) tell them one by one, in the thread that
 * made the call, while it is busy; ls_leave() puts them behind the record's fields. What does not
 * fit is left out, and the last one says so.
 */
#ifndef LS_OPERAND_H
#define LS_OPERAND_H

#include <stdint.h>

#include "layoutspy/format.h"
#include "shape.h"
#include "state.h"
#include "thread.h"

/* `flags`: enum ls_operand_flag. Neither a shape nor an address: there is no such operand. None is
 * wanted: LAYOUTSPY_LAYOUTS=off. */
static inline void ls_operand_add(struct ls_thread *self, enum ls_role_id role, unsigned flags,
                                  uint32_t shape, uint64_t address) {
    if ((!shape && !address) || !ls_session.env.layouts)
        return;
    uint32_t count = self->operand_count;
    if (count == LS_OPERANDS_MOST) {
        self->operand[count - 1].what |= LS_OPERAND(0, LS_OPERAND_MORE, 0);
        return;
    }
    shape = shape ? ls_shape_tell(self, shape) : 0;
    if (!shape && !address) /* a setting or product, lost with its shape */
        return;
    self->operand[count] = (struct ls_operand){
        .what = LS_OPERAND(role, flags, shape),
        .address = address,
    };
    self->operand_count = count + 1;
}

#endif
