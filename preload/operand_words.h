/*
 * operand_words.h - the words by which the rows of the table tell of operands: O(ROLE, shape,
 * address), where the shape is one of these. See layoutspy/api.h and operand.h.
 *
 * Any thread, after the real call, while the thread is busy; not async-signal-safe. What a program
 * passed may be wrong in any way (NULL, destroyed): nothing of it is followed where the call
 * failed.
 */
#ifndef LS_OPERAND_WORDS_H
#define LS_OPERAND_WORDS_H

#include "cudnn_graph.h"
#include "on_cudnn.h"
#include "operand.h"

/* cuDNN's: a tensor or filter by its descriptor; memory without one; a setting, which has no
 * memory; what is written, and read as well where beta is not 0; the steps of a sequence, one
 * after the other, each with a descriptor of its own. */
#define T(ROLE, desc, address) ls_dnn_operand(ls_call.self, LS_ROLE_##ROLE, desc, address);
#define P(ROLE, address) ls_dnn_operand(ls_call.self, LS_ROLE_##ROLE, NULL, address);
#define S(ROLE, desc) ls_dnn_operand(ls_call.self, LS_ROLE_##ROLE, desc, NULL);
#define BLENDED(OUT, INOUT, desc, address, beta)                                                   \
    ls_dnn_blended(ls_call.self, LS_ROLE_##OUT, LS_ROLE_##INOUT, desc, address, ls_status, beta);
/* Gradients that are added to what is there, or (mode 1) put in its place. */
#define ADDED(ROLE, mode, address)                                                                 \
    ls_dnn_operand(ls_call.self, (int)(mode) == 1 ? LS_ROLE_##ROLE : LS_ROLE_##ROLE##_INOUT, NULL, \
                   address);
#define STEPS(ROLE, count, descs, address)                                                         \
    ls_dnn_steps(ls_call.self, LS_ROLE_##ROLE, ls_status, count, (const void *const *)(descs),     \
                 address);

#endif
