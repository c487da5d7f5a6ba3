/*
 * oom_advice.h - what an oom's finding says: title, reason, advice, by its verdict. The usual
 * advice is left out where it would be wrong. All texts are to be freed. Main thread only; not for
 * signal handlers.
 */
#ifndef LAYOUTSPY_OOM_ADVICE_H
#define LAYOUTSPY_OOM_ADVICE_H

#include "oom_facts.h"

char *ls_oom_title(const struct ls_oom *oom);
char *ls_oom_why(const struct ls_oom *oom);
char *ls_oom_advice(const struct ls_detect *d, const struct ls_ooms *all, const struct ls_oom *oom);

/* " (20.0 MiB of the driver)" where that is another amount than the program's request, else "".
 * Returns of->text. */
struct ls_oom_of_driver {
    char text[64];
};
const char *ls_oom_of_driver(struct ls_oom_of_driver *of, const struct ls_oom *oom);

/* What helps against memory in pieces, in one or two sentences. `largest`: of the requests that
 * need their segment whole. */
char *ls_fragmentation_advice(const struct ls_ooms *all, int64_t largest);

#endif
