/*
 * term.c - colour, width and the progress line. See term.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "term.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static bool is_terminal(FILE *stream) {
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) && term && strcmp(term, "dumb") != 0;
}

bool ls_term_colour(FILE *stream) {
    const char *no = getenv("NO_COLOR"); /* https://no-color.org: set and not empty */
    return is_terminal(stream) && !(no && *no);
}

void ls_term_style(FILE *stream, enum ls_style style) {
    static const char *const code[] = {"\033[0m",    "\033[1m",    "\033[2m",
                                       "\033[1;31m", "\033[1;33m", "\033[36m"};
    if (ls_term_colour(stream))
        fputs(code[style], stream);
}

int ls_term_width(FILE *stream) {
    struct winsize size;
    if (!isatty(fileno(stream)) || ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 ||
        size.ws_col < 20)
        return 88;
    return size.ws_col < 100 ? size.ws_col : 100;
}

static struct {
    const char *what; /* NULL: none under way */
    int64_t start_ns;
    int64_t shown_ns; /* when the line was last written; 0: never */
} progress;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void ls_progress_start(const char *what) {
    progress.what = is_terminal(stderr) ? what : NULL;
    progress.start_ns = now_ns();
    progress.shown_ns = 0;
}

void ls_progress_tick(void) {
    if (!progress.what)
        return;
    int64_t now = now_ns();
    int64_t since = progress.shown_ns ? progress.shown_ns : progress.start_ns;
    if (now - since < INT64_C(1000000000))
        return;
    fprintf(stderr, "\r\033[Klayoutspy: %s, %d s", progress.what,
            (int)((now - progress.start_ns) / 1000000000));
    fflush(stderr);
    progress.shown_ns = now;
}

void ls_progress_stop(void) {
    if (progress.what && progress.shown_ns)
        fputs("\r\033[K", stderr);
    progress.what = NULL;
}

static int on_progress(void *unused) {
    (void)unused;
    ls_progress_tick();
    return 0;
}

void ls_progress_attach(sqlite3 *db) {
    /* Instructions between ticks: about a millisecond's worth. */
    if (is_terminal(stderr))
        sqlite3_progress_handler(db, 100000, on_progress, NULL);
}
