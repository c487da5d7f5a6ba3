/*
 * device_use.h - how full a device was, and of what, in a line. Main thread only; not for signal
 * handlers.
 */
#ifndef LAYOUTSPY_RENDER_DEVICE_USE_H
#define LAYOUTSPY_RENDER_DEVICE_USE_H

#include <jansson.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../memory/samples.h"

/* "1.20 GiB of it recorded, 300 MiB the context, nothing unknown (by NVML)" */
const char *ls_render_use_parts(const struct ls_samples *samples, const struct ls_use *use,
                                char *text, size_t size);

/* One line at the moment at which most was in use; nothing where no sample tells. */
void ls_render_use(sqlite3 *db, int device, const char *first, const char *indent, FILE *out);

/* The same as an object, or null. */
json_t *ls_render_use_json(sqlite3 *db, int device);

#endif
