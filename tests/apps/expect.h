/*
 * expect.h - checks that end a small CUDA program with the line at fault; needs no CUDA header.
 */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noclone))

/* Any failure ends the program: a test sees the status and the line. */
#define CHECK(call)                                                                                \
    do {                                                                                           \
        int check_status = (int)(call);                                                            \
        if (check_status != 0) {                                                                   \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, check_status);           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif
