/*
 * ids.h - CUPTI's numbers of functions against those of the one table.
 *
 * CUPTI itself tells the names behind its numbers, so there is no second list: a number is known
 * where the name is a row's (without the version that the runtime's names end in). Filled once, at
 * the start of a recording; read-only after that, then any thread, async-signal-safe.
 */
#ifndef LS_CUPTI_IDS_H
#define LS_CUPTI_IDS_H

#include <stdint.h>

#include "abi.h"
#include "layoutspy/api.h"

#define LS_CUPTI_IDS 2048 /* of a domain, at most */

struct ls_cupti_id {
    uint16_t api;     /* enum ls_api; 0: none of the table's */
    uint16_t version; /* of the runtime's functions: since when they have this form, 12080 */
};

void ls_cupti_ids_fill(void);

/* What CUPTI gave when it was asked for the first name: why there are none. */
int ls_cupti_ids_result(void);

/* LS_API_NONE for a function that is not the table's. `id` may be anything. */
struct ls_cupti_id ls_cupti_id(int domain, uint32_t id);

#endif
