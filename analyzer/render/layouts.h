/*
 * layouts.h - what `layoutspy layouts` writes. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_RENDER_LAYOUTS_H
#define LAYOUTSPY_RENDER_LAYOUTS_H

#include <stdbool.h>
#include <stdio.h>

#include "../layouts.h"
#include "../trace.h"

/* `all`: every row, however many lines. */
void ls_render_layouts(const struct ls_trace *trace, const struct ls_layouts *layouts, bool all,
                       FILE *out);

/* {"kernel_ns", "conversion_ns", "conversions": [...], "sites": [...], "operators": [...]} */
void ls_render_layouts_json(const struct ls_layouts *layouts, FILE *out);

#endif
