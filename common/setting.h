/*
 * setting.h - what the values of the LAYOUTSPY_ variables mean (docs/environment.md): one
 * definition for the target's library, which takes its default for a wrong one and tells the trace,
 * and for the command, which refuses it.
 *
 * Any thread; no state; no allocation, lock or system call.
 */
#ifndef LAYOUTSPY_SETTING_H
#define LAYOUTSPY_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ls_setting {
#define SETTING(ID, kind, words) LS_SETTING_##ID,
#include "common/setting.def"
    LS_SETTINGS
};

/* off, no or 0 */
bool ls_setting_is_off(const char *text);

/* The number, the bytes, or the place of the word in its row of setting.def (0: the default; a
 * path: one past the words). False: it is none of these, and *value stays; a text that is NULL or
 * empty is right, and *value stays, too. */
bool ls_setting_parse(enum ls_setting setting, const char *text, uint64_t *value);

/* "LAYOUTSPY_CUPTI": the variable. */
#define LS_SETTING_NAME 40
void ls_setting_name(enum ls_setting setting, char name[LS_SETTING_NAME]);

/* What is wrong with a value, without a full stop; it may be cut. */
#define LS_SETTING_WRONG 200
void ls_setting_wrong(enum ls_setting setting, const char *text, char wrong[LS_SETTING_WRONG]);

#endif
