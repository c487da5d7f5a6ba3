/*
 * proc_stat.c - see proc_stat.h.
 */
#include "common/proc_stat.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool ls_proc_stat(pid_t pid, struct ls_proc_stat *stat) {
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    const char *p = strrchr(text, ')'); /* the name may hold anything */
    return p &&
           sscanf(p + 1,
                  " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld"
                  " %*s %llu %*s %*s %*s %*s %*s %llu",
                  &stat->state, &stat->parent, &stat->threads, &stat->start, &stat->image) == 5;
}
