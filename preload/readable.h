/*
 * readable.h - whether memory can be read, asked of the kernel and without a fault.
 *
 * A system call. Any thread; async-signal-safe, but for errno.
 */
#ifndef LS_READABLE_H
#define LS_READABLE_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Can eight bytes be read there? rt_sigprocmask reads the mask before it looks at what to do with
 * it: with a wish that does not exist it changes nothing, and says EFAULT or EINVAL. Unlike
 * process_vm_readv() no sandbox forbids it.
 */
static inline bool ls_is_readable(uintptr_t address) {
    return syscall(SYS_rt_sigprocmask, ~0L, address, NULL, 8L) == -1 && errno == EINVAL;
}

#endif
