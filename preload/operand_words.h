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

#include "operand.h"

#endif
