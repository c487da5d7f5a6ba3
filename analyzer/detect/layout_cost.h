/*
 * layout_cost.h - what detectors of layouts share: how much of the GPU's time something is, how
 * severe that makes it, and names of sites and kernels. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_DETECT_LAYOUT_COST_H
#define LAYOUTSPY_DETECT_LAYOUT_COST_H

#include "detect.h"

/* ns of all kernels that CUPTI timed; 0: it timed none. */
int64_t ls_kernels_ns(const struct ls_detect *d);

/* By the share of the run that a change would save. */
enum ls_severity ls_severity_of(const struct ls_detect *d, int64_t gain_ns);

/* Calls have operands in this trace; else says in `skipped` why the detector sees nothing. */
bool ls_operands_told(struct ls_detect *d, const char *kind);

/* Says in `skipped` that what graphs replay is not looked at, where graphs were launched. */
void ls_say_replays(struct ls_detect *d, const char *kind);

/* The text of a stack's site, to be freed; its operator (the outermost one), to be freed, or NULL.
 */
char *ls_site_of(sqlite3 *db, int64_t stack);
char *ls_operator_of(sqlite3 *db, int64_t stack);

/* What the times of a finding are from: evidence.basis, and evidence.gain with whose
 * time it is (`of`: GPU or host) and what it assumes. */
void ls_finding_basis(struct ls_finding *f, bool gpu_times, const char *of, const char *assumes);

/* ns as a share of what all kernels took: evidence.gpu_share; nothing where no kernel was timed. */
void ls_finding_gpu_share(const struct ls_detect *d, struct ls_finding *f, int64_t ns);

#endif
