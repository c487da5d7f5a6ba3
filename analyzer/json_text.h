/*
 * json_text.h - JSON strings of any bytes. Any thread; not for signal handlers.
 */
#ifndef LAYOUTSPY_JSON_TEXT_H
#define LAYOUTSPY_JSON_TEXT_H

#include <jansson.h>

/* A new string; where `text` is not UTF-8, '?' stands for each byte that is not ASCII. Exits with
 * one line where there is no memory. */
json_t *ls_json_text(const char *text);

#endif
