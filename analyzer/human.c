/*
 * human.c - sizes, times and counts as a person reads them. See human.h.
 *
 * Any thread; not for signal handlers.
 */
#include "human.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Three significant digits: 1.50, 15.0, 150. */
static int decimals(double value) {
    return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

const char *ls_human_bytes(struct ls_human *h, int64_t bytes) {
    static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 0 || bytes < 1024) {
        snprintf(h->text, sizeof h->text, "%" PRId64 " %s", bytes,
                 ls_plural(bytes, "byte", "bytes"));
        return h->text;
    }
    double value = (double)bytes / 1024;
    size_t u = 0;
    while (value >= 999.5 && u + 1 < sizeof unit / sizeof unit[0]) {
        value /= 1024;
        u++;
    }
    snprintf(h->text, sizeof h->text, "%.*f %s", decimals(value), value, unit[u]);
    return h->text;
}

const char *ls_human_ns(struct ls_human *h, int64_t ns) {
    static const struct {
        double ns;
        const char *name;
    } unit[] = {{1e3, "us"}, {1e6, "ms"}, {1e9, "s"}};
    if (ns < 1000)
        snprintf(h->text, sizeof h->text, "%" PRId64 " ns", ns);
    else if (ns >= 120 * INT64_C(1000000000)) {
        int64_t s = ns / 1000000000;
        if (s >= 7200)
            snprintf(h->text, sizeof h->text, "%" PRId64 " h %" PRId64 " min", s / 3600,
                     s % 3600 / 60);
        else
            snprintf(h->text, sizeof h->text, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
    } else {
        size_t u = 0;
        while (u < 2 && (double)ns / unit[u].ns >= 999.5)
            u++;
        double value = (double)ns / unit[u].ns;
        snprintf(h->text, sizeof h->text, "%.*f %s", decimals(value), value, unit[u].name);
    }
    return h->text;
}

const char *ls_human_count(struct ls_human *h, int64_t count) {
    char plain[24];
    snprintf(plain, sizeof plain, "%" PRId64, count);
    const char *p = plain;
    char *out = h->text;
    if (*p == '-')
        *out++ = *p++;
    for (size_t left = strlen(p); left; left--) {
        *out++ = *p++;
        if (left > 1 && left % 3 == 1)
            *out++ = ',';
    }
    *out = '\0';
    return h->text;
}

const char *ls_human_share(struct ls_human *h, double share) {
    double percent = share * 100;
    if (percent > 0 && percent < 0.1)
        snprintf(h->text, sizeof h->text, "less than 0.1 %%");
    else
        snprintf(h->text, sizeof h->text, "%.*f %%", percent < 9.95 ? 1 : 0, percent);
    return h->text;
}

const char *ls_human_date(struct ls_human *h, int64_t real_ns) {
    time_t when = (time_t)(real_ns / 1000000000);
    struct tm tm;
    if (!localtime_r(&when, &tm) || !strftime(h->text, sizeof h->text, "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(h->text, sizeof h->text, "at %" PRId64 " ns", real_ns);
    return h->text;
}

const char *ls_plural(int64_t count, const char *one, const char *many) {
    return count == 1 ? one : many;
}
