/*
 * symbolizer.c - the worker process and the wire to it. See symbolizer.h.
 *
 * Question: struct question, the path, the offsets; or a name in place of the path. Answer: its
 * size, then for each offset a count and as many struct wire_symbol with their two strings (length,
 * bytes; no length: not known). The worker's answer is checked like any other input: its memory may
 * be spoilt.
 */
#include "symbolizer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "demangle.h"
#include "layoutspy/format.h"

#define ANSWER_MAX (16u << 20)
#define TEXT_MAX 8192 /* bytes of a name that are kept */
#define FILES_OPEN 256
#define MEMORY_MAX (4ull << 30) /* bytes that a worker may fill */
#define DEATHS_MAX 3            /* then names stay as they are: the spool is out to do harm */

struct question {
    uint32_t path_size; /* with its NUL */
    uint32_t build_id_size;
    uint8_t build_id[32];
    uint32_t count;
    uint32_t demangle; /* the path is a name, to be answered as the function of one symbol */
};

struct wire_symbol {
    uint64_t function_offset;
    uint32_t line;
    uint32_t function_size; /* with its NUL; 0: NULL */
    uint32_t file_size;
    uint32_t pad;
};

/* ---- both sides ---- */

static bool send_all(int fd, const void *data, size_t size) {
    const char *p = data;
    while (size > 0) {
        ssize_t n = send(fd, p, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

static bool receive_all(int fd, void *data, size_t size) {
    char *p = data;
    while (size > 0) {
        ssize_t n = recv(fd, p, size, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

/* ---- the worker ---- */

struct open_file {
    char *path;
    uint8_t build_id[32];
    uint32_t build_id_size;
    struct ls_symbols *symbols;
};

struct worker {
    int fd;
    struct open_file file[FILES_OPEN];
    int files;
    uint8_t *out;
    size_t size, room;
};

static struct ls_symbols *file_symbols(struct worker *worker, const struct question *question,
                                       const char *path) {
    for (int i = 0; i < worker->files; i++) {
        struct open_file *file = &worker->file[i];
        if (strcmp(file->path, path) == 0 && file->build_id_size == question->build_id_size &&
            memcmp(file->build_id, question->build_id, file->build_id_size) == 0)
            return file->symbols;
    }
    if (worker->files == FILES_OPEN) {
        struct open_file *oldest = &worker->file[0];
        ls_symbols_close(oldest->symbols);
        free(oldest->path);
        memmove(oldest, oldest + 1, (FILES_OPEN - 1) * sizeof *oldest);
        worker->files--;
    }
    struct open_file *file = &worker->file[worker->files++];
    file->path = strdup(path);
    memcpy(file->build_id, question->build_id, sizeof file->build_id);
    file->build_id_size = question->build_id_size;
    file->symbols = ls_symbols_open(path, question->build_id, question->build_id_size);
    if (!file->path || !file->symbols)
        _exit(1);
    return file->symbols;
}

static void put(struct worker *worker, const void *data, size_t size) {
    if (worker->size + size > worker->room) {
        worker->room = 2 * (worker->size + size) + 4096;
        worker->out = realloc(worker->out, worker->room);
        if (!worker->out || worker->room > ANSWER_MAX)
            _exit(1);
    }
    if (size)
        memcpy(worker->out + worker->size, data, size);
    worker->size += size;
}

static uint32_t text_size(char *text) {
    if (!text)
        return 0;
    if (strlen(text) >= TEXT_MAX)
        text[TEXT_MAX - 1] = 0;
    return (uint32_t)strlen(text) + 1;
}

static void answer_one(struct worker *worker, struct ls_symbols *symbols, uint64_t offset) {
    struct ls_symbol symbol[LS_INLINE_MAX];
    uint32_t count = (uint32_t)ls_symbols_lookup(symbols, offset, symbol);
    put(worker, &count, sizeof count);
    for (uint32_t i = 0; i < count; i++) {
        struct wire_symbol wire = {.function_offset = symbol[i].function_offset,
                                   .line = symbol[i].line,
                                   .function_size = text_size(symbol[i].function),
                                   .file_size = text_size(symbol[i].file)};
        put(worker, &wire, sizeof wire);
        put(worker, symbol[i].function, wire.function_size);
        put(worker, symbol[i].file, wire.file_size);
        ls_symbol_clear(&symbol[i]);
    }
}

static void answer_name(struct worker *worker, const char *name) {
    uint32_t count = 1;
    char *text = ls_demangle(name);
    struct wire_symbol wire = {.function_size = text_size(text)};
    put(worker, &count, sizeof count);
    put(worker, &wire, sizeof wire);
    put(worker, text, wire.function_size);
    free(text);
}

static bool serve_one(struct worker *worker) {
    struct question question;
    char path[LS_RECORD_LARGEST];
    uint64_t offset[LS_SYMBOLIZER_BATCH];
    if (!receive_all(worker->fd, &question, sizeof question) || question.path_size > sizeof path ||
        question.count > LS_SYMBOLIZER_BATCH ||
        !receive_all(worker->fd, path, question.path_size) ||
        !receive_all(worker->fd, offset, question.count * sizeof offset[0]))
        return false;
    uint32_t size = 0;
    worker->size = 0;
    put(worker, &size, sizeof size);
    if (question.demangle) {
        answer_name(worker, path);
    } else {
        struct ls_symbols *symbols = file_symbols(worker, &question, path);
        for (uint32_t i = 0; i < question.count; i++)
            answer_one(worker, symbols, offset[i]);
    }
    size = (uint32_t)(worker->size - sizeof size);
    memcpy(worker->out, &size, sizeof size);
    return send_all(worker->fd, worker->out, worker->size);
}

static void __attribute__((noreturn)) run_worker(int fd, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
#ifndef __SANITIZE_ADDRESS__ /* whose shadow counts as memory */
    setrlimit(RLIMIT_DATA, &(struct rlimit){MEMORY_MAX, MEMORY_MAX});
#endif
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    signal(SIGINT, SIG_IGN); /* the terminal's; the parent decides */
    /* Also the spool's: its lock would outlive the parent here. */
    fd = dup2(fd, 3);
    close_range(4, ~0U, 0);
    struct worker worker = {.fd = fd};
    while (serve_one(&worker))
        ;
    _exit(0);
}

/* ---- the parent ---- */

static bool start(struct ls_symbolizer *symbolizer) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return false;
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        run_worker(pair[1], parent);
    }
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return false;
    }
    symbolizer->pid = pid;
    symbolizer->fd = pair[0];
    return true;
}

void ls_symbolizer_stop(struct ls_symbolizer *symbolizer) {
    if (symbolizer->pid) {
        kill(symbolizer->pid, SIGKILL);
        while (waitpid(symbolizer->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        close(symbolizer->fd);
    }
    free(symbolizer->answer);
    memset(symbolizer, 0, sizeof *symbolizer);
}

static bool send_question(struct ls_symbolizer *symbolizer, struct question *question,
                          const char *path, const uint64_t *offset) {
    if (!symbolizer->pid && !start(symbolizer))
        return false;
    question->path_size = (uint32_t)strlen(path) + 1;
    symbolizer->size = 0;
    symbolizer->asked = question->count;
    if (send_all(symbolizer->fd, question, sizeof *question) &&
        send_all(symbolizer->fd, path, question->path_size) &&
        send_all(symbolizer->fd, offset, question->count * sizeof offset[0]))
        return true;
    ls_symbolizer_stop(symbolizer);
    return false;
}

bool ls_symbolizer_ask(struct ls_symbolizer *symbolizer, const char *path, const uint8_t *build_id,
                       uint32_t build_id_size, const uint64_t *offset, uint32_t count) {
    struct question question = {.build_id_size = build_id_size, .count = count};
    memcpy(question.build_id, build_id, sizeof question.build_id);
    return send_question(symbolizer, &question, path, offset);
}

/* Read what is there. False: the worker is gone. */
static bool read_more(struct ls_symbolizer *symbolizer) {
    if (symbolizer->size == symbolizer->room) {
        size_t room = 2 * symbolizer->room + 65536;
        uint8_t *more = room <= 2 * ANSWER_MAX ? realloc(symbolizer->answer, room) : NULL;
        if (!more)
            return false;
        symbolizer->answer = more;
        symbolizer->room = room;
    }
    ssize_t n = recv(symbolizer->fd, symbolizer->answer + symbolizer->size,
                     symbolizer->room - symbolizer->size, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    symbolizer->size += (size_t)n;
    return n > 0;
}

static bool answer_complete(const struct ls_symbolizer *symbolizer) {
    uint32_t size;
    if (symbolizer->size < sizeof size)
        return false;
    memcpy(&size, symbolizer->answer, sizeof size);
    return symbolizer->size - sizeof size >= size;
}

static bool get(const uint8_t **at, const uint8_t *end, void *out, size_t size) {
    if ((size_t)(end - *at) < size)
        return false;
    memcpy(out, *at, size);
    *at += size;
    return true;
}

static bool get_text(const uint8_t **at, const uint8_t *end, size_t size, char **text) {
    *text = NULL;
    if (size == 0)
        return true;
    if ((size_t)(end - *at) < size || (*at)[size - 1] != 0)
        return false;
    *text = (char *)*at; /* lent: the callback only reads it */
    *at += size;
    return true;
}

static bool hand_out(const struct ls_symbolizer *symbolizer, ls_symbolizer_fn each, void *context) {
    const uint8_t *at = symbolizer->answer + sizeof(uint32_t);
    const uint8_t *end = symbolizer->answer + symbolizer->size;
    for (uint32_t i = 0; i < symbolizer->asked; i++) {
        struct ls_symbol symbol[LS_INLINE_MAX];
        uint32_t count;
        if (!get(&at, end, &count, sizeof count) || count > LS_INLINE_MAX)
            return false;
        for (uint32_t n = 0; n < count; n++) {
            struct wire_symbol wire;
            if (!get(&at, end, &wire, sizeof wire) ||
                !get_text(&at, end, wire.function_size, &symbol[n].function) ||
                !get_text(&at, end, wire.file_size, &symbol[n].file))
                return false;
            symbol[n].line = wire.line;
            symbol[n].function_offset = wire.function_offset;
        }
        each(context, i, symbol, (int)count);
    }
    return true;
}

enum ls_symbolizer_state ls_symbolizer_poll(struct ls_symbolizer *symbolizer, int timeout_ms,
                                            ls_symbolizer_fn each, void *context) {
    struct pollfd pfd = {.fd = symbolizer->fd, .events = POLLIN};
    if (!symbolizer->pid || symbolizer->asked == 0)
        return LS_SYMBOLIZER_FAILED;
    while (!answer_complete(symbolizer)) {
        if (poll(&pfd, 1, timeout_ms) <= 0)
            return LS_SYMBOLIZER_WAITING;
        if (!read_more(symbolizer)) {
            ls_symbolizer_stop(symbolizer);
            return LS_SYMBOLIZER_FAILED;
        }
    }
    bool good = hand_out(symbolizer, each, context);
    symbolizer->asked = 0;
    symbolizer->size = 0;
    if (good)
        return LS_SYMBOLIZER_DONE;
    ls_symbolizer_stop(symbolizer);
    return LS_SYMBOLIZER_FAILED;
}

static void keep_text(void *context, uint32_t index, const struct ls_symbol *symbol, int count) {
    (void)index;
    if (count > 0 && symbol->function)
        *(char **)context = strdup(symbol->function);
}

char *ls_symbolizer_demangle(struct ls_symbolizer *symbolizer, const char *name, int timeout_ms) {
    struct question question = {.count = 1, .demangle = 1};
    uint64_t unused = 0;
    char *text = NULL;
    uint32_t deaths = symbolizer->deaths;
    if (strncmp(name, "_Z", 2) == 0 && deaths < DEATHS_MAX &&
        send_question(symbolizer, &question, name, &unused) &&
        ls_symbolizer_poll(symbolizer, timeout_ms, keep_text, &text) != LS_SYMBOLIZER_DONE) {
        ls_symbolizer_stop(symbolizer);
        symbolizer->deaths = deaths + 1;
    }
    return text ? text : strdup(name);
}
