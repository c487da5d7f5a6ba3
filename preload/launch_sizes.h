/*
 * launch_sizes.h - asking the driver how long a kernel's parameters are (CUDA 12.4).
 *
 * Any thread, outside of CUPTI's callbacks and while no stream captures; errno may change. What is
 * called here leaves no error behind for the program to find.
 */
#ifndef LS_LAUNCH_SIZES_H
#define LS_LAUNCH_SIZES_H

#include <stdint.h>

#define LS_PARAMS_MOST 48 /* of one kernel; later ones are not looked at */

enum ls_size_source {
    LS_SIZES_OF_NONE,
    LS_SIZES_OF_STUB,
    LS_SIZES_OF_KERNEL,
    LS_SIZES_OF_FUNCTION
};

/* Of a function that has just been launched. Their number, up to LS_PARAMS_MOST; -1: nobody says.
 */
int ls_launch_sizes(enum ls_size_source source, const void *function, void *caller,
                    uint16_t size[LS_PARAMS_MOST]);

#endif
