/*
 * host_told.h - copies between host and device that a detector has told of, so that `pageable-copy`
 * does not tell the same bytes again with other advice. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_DETECT_HOST_TOLD_H
#define LAYOUTSPY_DETECT_HOST_TOLD_H

#include "detect.h"

/* temp.host_told(id): copy.id of what was told. `anew`: emptied, by the first detector that tells.
 * An SQLite code. */
int ls_host_told(struct ls_detect *d, bool anew);
int ls_host_tell(struct ls_detect *d, const int64_t *copy, size_t count);

/* All of it is early in the recording, and never again. */
bool ls_is_loading(const struct ls_detect *d, int64_t last_ns);

/* Of what host copies cost: by the share of the run, one less for what is only there while the
 * program loads, and a warning for what a loop does again and again. */
enum ls_severity ls_host_severity(const struct ls_detect *d, int64_t count, int64_t time_ns,
                                  int64_t gain_ns, int64_t last_ns);

#endif
