/*
 * cupti_names.c - functions of the runtime and the driver by the numbers that CUPTI gives them, and
 * results by name. Any thread; not safe in a signal handler.
 */
#include <string.h>

#include "cupti_standin.h"

#ifdef STANDIN_NVIDIA_HEADERS
/* They are the toolkit's own numbers; later toolkits gave up some names. */
#if CUPTI_API_VERSION >= 130000 && CUPTI_API_VERSION < 130400
#define CBID(domain, number, name)                                                                 \
    _Static_assert((int)CUPTI_##domain##_TRACE_CBID_##name == (number), #name);
#define CBID12(domain, number, name)
#define CBID13 CBID
#include "cupti_calls.def"
#endif
#endif

/* The largest tables that the numbers of the four versions need. */
#define TABLE 1024

struct row {
    int domain;
    uint32_t number;
    const char *name;
};

enum { DRIVER = SD_DOMAIN_DRIVER, RUNTIME = SD_DOMAIN_RUNTIME };

static const struct row rows[] = {
#define CBID(domain, number, name) {domain, number, #name},
#if CUDA_MAJOR >= 13
#define CBID12(domain, number, name)
#define CBID13 CBID
#else
#define CBID12 CBID
#define CBID13(domain, number, name)
#endif
#include "cupti_calls.def"
};

/* By number; and a hash of symbols, open addressing. */
static const char *names[3][TABLE];
#define SLOTS 4096
static struct slot {
    const char *name; /* with its version */
    size_t length;    /* of the symbol */
    int domain;
    uint32_t number;
} slots[SLOTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* cudaMemcpyAsync_ptsz_v7000 is cudaMemcpyAsync_ptsz; the driver's names are the symbols. */
static size_t symbol_length(int domain, const char *name) {
    size_t length = strlen(name), digits = length;
    if (domain == DRIVER)
        return length;
    while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9')
        digits--;
    bool version = length - digits >= 4 && digits > 2 && strncmp(name + digits - 2, "_v", 2) == 0;
    return version ? digits - 2 : length;
}

static uint32_t hash(int domain, const char *text, size_t length) {
    uint32_t h = 2166136261u + (uint32_t)domain;
    for (size_t i = 0; i < length; i++)
        h = (h ^ (uint8_t)text[i]) * 16777619u;
    return h;
}

static struct slot *find(int domain, const char *symbol, size_t length) {
    for (uint32_t i = hash(domain, symbol, length);; i++) {
        struct slot *slot = &slots[i % SLOTS];
        if (!slot->name || (slot->domain == domain && slot->length == length &&
                            memcmp(slot->name, symbol, length) == 0))
            return slot;
    }
}

/* A symbol that came in several versions is the latest of them: numbers only grow. */
static void read_rows(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].number < TABLE)
            names[rows[i].domain][rows[i].number] = rows[i].name;
    for (int domain = DRIVER; domain <= RUNTIME; domain++)
        for (uint32_t number = 1; number < TABLE; number++) {
            const char *name = names[domain][number];
            if (!name)
                continue;
            size_t length = symbol_length(domain, name);
            *find(domain, name, length) = (struct slot){name, length, domain, number};
        }
}

uint32_t cp_number(int domain, const char *symbol) {
    pthread_once(&once, read_rows);
    return find(domain, symbol, strlen(symbol))->number;
}

const char *cp_name(int domain, uint32_t number) {
    pthread_once(&once, read_rows);
    return domain >= DRIVER && domain <= RUNTIME && number < TABLE ? names[domain][number] : NULL;
}

uint32_t cp_numbers(int domain) {
    pthread_once(&once, read_rows);
    if (domain != DRIVER && domain != RUNTIME)
        return domain == CUPTI_CB_DOMAIN_RESOURCE ? 24 : 16;
    uint32_t number = TABLE;
    while (number > 1 && !names[domain][number - 1])
        number--;
    return number;
}

CP_EXPORT cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char **name) {
    CP_ENTER(call, CP_EVERYWHERE);
    bool invalid = id == 0 && ((int)domain == DRIVER || (int)domain == RUNTIME);
    const char *found = invalid ? "INVALID" : cp_name((int)domain, id);
    int status = lib_status(&call, name && found ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (status == 0)
        *name = found;
    return cp_leave(&call, status);
}

/* ---- results ---- */

static int result_text(CUptiResult result, const char **text) {
    if (!text)
        return CUPTI_ERROR_INVALID_PARAMETER;
    switch ((int)result) {
#define ERROR(number, name)                                                                        \
    case number:                                                                                   \
        *text = #name;                                                                             \
        return 0;
#include "cupti_errors.def"
    default:
        *text = "<unknown>";
        return CUPTI_ERROR_INVALID_PARAMETER;
    }
}

CP_EXPORT cuptiGetResultString(CUptiResult result, const char **text) {
    return (CUptiResult)result_text(result, text);
}

CP_EXPORT cuptiGetErrorMessage(CUptiResult result, const char **text) {
    return (CUptiResult)result_text(result, text);
}
