/*
 * nccl.c - NCCL: communicators. Any thread: one lock guards the list of communicators; not safe in
 * a signal handler. Collectives: nccl_collective.c.
 *
 * No process talks to another. A communicator is ready at once, however many ranks it has, and a
 * collective moves what one rank alone can move: from its send buffer to its own place in the
 * receive buffer. That is all of it where there is one rank. Calls of a group are done one by one.
 *
 * Fields: comm, ranks, rank, device; on collectives stream, send, recv, count, type, op, root,
 * peer.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "nccl_standin.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define WORKSPACE (8u << 20) /* device memory that a communicator takes */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list and of what is in it */
static ncclComm_t communicators;

bool nccl_live(ncclComm_t comm) {
    pthread_mutex_lock(&lock);
    ncclComm_t c = communicators;
    while (c && c != comm)
        c = c->next;
    pthread_mutex_unlock(&lock);
    return c != NULL;
}

/* ---- communicators -------------------------------------------------------------------------- */

static int make(ncclComm_t *out, int ranks, int rank, int device) {
    if (!out || ranks < 1 || rank < 0 || rank >= ranks)
        return ncclInvalidArgument;
    if (standin_need_context())
        return ncclUnhandledCudaError;
    ncclComm_t comm = calloc(1, sizeof *comm);
    if (!comm)
        return ncclSystemError;
    if (standin_internal_alloc(&comm->workspace, WORKSPACE)) {
        free(comm);
        return ncclUnhandledCudaError;
    }
    comm->ranks = ranks;
    comm->rank = rank;
    comm->device = device;
    pthread_mutex_lock(&lock);
    comm->next = communicators;
    communicators = comm;
    pthread_mutex_unlock(&lock);
    *out = comm;
    return ncclSuccess;
}

static int leave_made(struct standin_call *call, int status, const ncclComm_t *comm, int ranks,
                      int rank) {
    lib_put_pointer(call, "comm", status ? NULL : *comm);
    standin_put_signed(call, "ranks", ranks);
    standin_put_signed(call, "rank", rank);
    standin_put_signed(call, "device", standin_current_device());
    return standin_leave(call, status);
}

static int init_rank(struct standin_call *call, ncclComm_t *comm, int ranks, int rank) {
    int status = call->fault ? call->fault : make(comm, ranks, rank, standin_current_device());
    return leave_made(call, status, comm, ranks, rank);
}

NCCL(ncclCommInitRank, ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank) {
    LIB_ENTER(call);
    return (ncclResult_t)init_rank(&call, comm, nranks, rank);
}

NCCL(ncclCommInitRankConfig, ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
     ncclConfig_t *config) {
    LIB_ENTER(call);
    return (ncclResult_t)init_rank(&call, comm, nranks, rank);
}

NCCL(ncclCommInitRankScalable, ncclComm_t *newcomm, int nranks, int myrank, int nId,
     ncclUniqueId *commIds, ncclConfig_t *config) {
    LIB_ENTER(call);
    return (ncclResult_t)init_rank(&call, newcomm, nranks, myrank);
}

NCCL(ncclCommInitAll, ncclComm_t *comm, int ndev, const int *devlist) {
    LIB_ENTER(call);
    int status = call.fault ? call.fault : comm && ndev > 0 ? ncclSuccess : ncclInvalidArgument;
    for (int i = 0; i < ndev && !status; i++)
        status = make(&comm[i], ndev, i, devlist ? devlist[i] : i);
    return (ncclResult_t)leave_made(&call, status, comm, ndev, 0);
}

/* How many ranks share a color only the others know: the parent's number, else one. */
NCCL(ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
     ncclConfig_t *config) {
    LIB_ENTER(call);
    int status = lib_status(&call, nccl_live(comm) && newcomm ? 0 : ncclInvalidArgument);
    if (!status && color == NCCL_SPLIT_NOCOLOR)
        *newcomm = NULL;
    else if (!status)
        status = make(newcomm, comm->ranks, comm->rank, comm->device);
    standin_put_signed(&call, "color", color);
    lib_put_pointer(&call, "parent", comm);
    lib_put_pointer(&call, "comm", status ? NULL : *newcomm);
    return (ncclResult_t)standin_leave(&call, status);
}

NCCL(ncclCommShrink, ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
     ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags) {
    LIB_ENTER(call);
    int status = lib_status(&call, nccl_live(comm) && newcomm && excludeRanksCount >= 0 &&
                                           excludeRanksCount < comm->ranks
                                       ? 0
                                       : ncclInvalidArgument);
    int before = 0;
    for (int i = 0; i < excludeRanksCount && !status; i++)
        before += excludeRanksList[i] < comm->rank;
    if (!status)
        status = make(newcomm, comm->ranks - excludeRanksCount, comm->rank - before, comm->device);
    lib_put_pointer(&call, "parent", comm);
    lib_put_pointer(&call, "comm", status ? NULL : *newcomm);
    return (ncclResult_t)standin_leave(&call, status);
}

static int end(ncclComm_t comm) {
    pthread_mutex_lock(&lock);
    ncclComm_t *link = &communicators;
    while (*link && *link != comm)
        link = &(*link)->next;
    bool found = *link != NULL;
    if (found)
        *link = comm->next;
    pthread_mutex_unlock(&lock);
    if (!found)
        return ncclInvalidArgument;
    standin_internal_free(comm->workspace);
    free(comm);
    return ncclSuccess;
}

static int ended(struct standin_call *call, ncclComm_t comm) {
    lib_put_pointer(call, "comm", comm);
    return standin_leave(call, call->fault ? call->fault : end(comm));
}

NCCL(ncclCommDestroy, ncclComm_t comm) {
    LIB_ENTER(call);
    return (ncclResult_t)ended(&call, comm);
}

NCCL(ncclCommAbort, ncclComm_t comm) {
    LIB_ENTER(call);
    return (ncclResult_t)ended(&call, comm);
}

/* ---- calls that only need a communicator ---------------------------------------------------- */

static int checked(struct standin_call *call, ncclComm_t comm, bool good) {
    lib_put_pointer(call, "comm", comm);
    return lib_status(call, nccl_live(comm) && good ? ncclSuccess : ncclInvalidArgument);
}

NCCL(ncclCommFinalize, ncclComm_t comm) {
    LIB_ENTER(call);
    return (ncclResult_t)standin_leave(&call, checked(&call, comm, true));
}

NCCL(ncclCommRevoke, ncclComm_t comm, int revokeFlags) {
    LIB_ENTER(call);
    return (ncclResult_t)standin_leave(&call, checked(&call, comm, revokeFlags == 0));
}

NCCL(ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t *asyncError) {
    LIB_ENTER(call);
    int status = checked(&call, comm, asyncError);
    if (!status)
        *asyncError = (ncclResult_t)ncclSuccess;
    return (ncclResult_t)standin_leave(&call, status);
}

#define ANSWER(name, field)                                                                        \
    NCCL(name, const ncclComm_t comm, int *field) {                                                \
        LIB_ENTER(call);                                                                           \
        int status = checked(&call, comm, field);                                                  \
        if (!status)                                                                               \
            *field = comm->field;                                                                  \
        return (ncclResult_t)standin_leave(&call, status);                                         \
    }
ANSWER(ncclCommCount, ranks)
ANSWER(ncclCommCuDevice, device)
ANSWER(ncclCommUserRank, rank)

NCCL(ncclCommRegister, const ncclComm_t comm, void *buff, size_t size, void **handle) {
    LIB_ENTER(call);
    int status = checked(&call, comm, handle && standin_reachable(buff, size));
    lib_put_pointer(&call, "ptr", buff);
    standin_put(&call, "size", size);
    if (!status)
        *handle = buff;
    return (ncclResult_t)standin_leave(&call, status);
}

NCCL(ncclCommDeregister, const ncclComm_t comm, void *handle) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "ptr", handle);
    return (ncclResult_t)standin_leave(&call, checked(&call, comm, handle));
}

NCCL(ncclCommWindowRegister, ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
     int winFlags) {
    LIB_ENTER(call);
    int status = checked(&call, comm, win && standin_reachable(buff, size));
    lib_put_pointer(&call, "ptr", buff);
    standin_put(&call, "size", size);
    if (!status)
        *win = (ncclWindow_t)buff;
    return (ncclResult_t)standin_leave(&call, status);
}

NCCL(ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t win) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "ptr", win);
    return (ncclResult_t)standin_leave(&call, checked(&call, comm, win));
}

NCCL(ncclRedOpCreatePreMulSum, ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
     ncclScalarResidence_t residence, ncclComm_t comm) {
    LIB_ENTER(call);
    int status = checked(&call, comm, op && scalar);
    if (!status) {
        pthread_mutex_lock(&lock);
        *op = (ncclRedOp_t)(ncclNumOps + comm->operators++);
        pthread_mutex_unlock(&lock);
    }
    return (ncclResult_t)standin_leave(&call, status);
}

NCCL(ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm) {
    LIB_ENTER(call);
    return (ncclResult_t)standin_leave(&call, checked(&call, comm, (int)op >= ncclNumOps));
}

/* ---- calls that need none ------------------------------------------------------------------- */

NCCL(ncclGetVersion, int *version) {
    LIB_ENTER(call);
    int status = lib_status(&call, version ? ncclSuccess : ncclInvalidArgument);
    if (!status)
        *version = STANDIN_NCCL_VERSION;
    return (ncclResult_t)standin_leave(&call, status);
}

NCCL(ncclGetUniqueId, ncclUniqueId *uniqueId) {
    LIB_ENTER(call);
    int status = lib_status(&call, uniqueId ? ncclSuccess : ncclInvalidArgument);
    if (!status && getrandom(uniqueId, sizeof *uniqueId, 0) != sizeof *uniqueId)
        status = ncclSystemError;
    return (ncclResult_t)standin_leave(&call, status);
}

NCCL(ncclGroupStart, void) {
    LIB_ENTER(call);
    return (ncclResult_t)standin_leave(&call, call.fault);
}

NCCL(ncclGroupEnd, void) {
    LIB_ENTER(call);
    return (ncclResult_t)standin_leave(&call, call.fault);
}

NCCL(ncclGroupSimulateEnd, ncclSimInfo_t *simInfo) {
    LIB_ENTER(call);
    if (simInfo && !call.fault)
        simInfo->estimatedTime = 0;
    return (ncclResult_t)standin_leave(&call, call.fault);
}

NCCL(ncclMemAlloc, void **ptr, size_t size) {
    LIB_ENTER(call);
    int status = call.fault;
    if (!status)
        status = !ptr                                ? ncclInvalidArgument
                 : standin_internal_alloc(ptr, size) ? ncclUnhandledCudaError
                                                     : ncclSuccess;
    lib_put_pointer(&call, "ptr", status ? NULL : *ptr);
    standin_put(&call, "size", size);
    return (ncclResult_t)standin_leave(&call, status);
}

NCCL(ncclMemFree, void *ptr) {
    LIB_ENTER(call);
    int status = call.fault;
    if (!status && ptr && standin_internal_free(ptr))
        status = ncclInvalidArgument;
    lib_put_pointer(&call, "ptr", ptr);
    return (ncclResult_t)standin_leave(&call, status);
}

static const char *text_of(ncclResult_t result) {
    static const char *const texts[] = {
        "no error",         "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
    return (size_t)result < sizeof texts / sizeof *texts ? texts[(size_t)result]
                                                         : "unknown result code";
}

STANDIN_EXPORT const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetErrorString(ncclResult_t result) {
    return text_of(result);
}

STANDIN_EXPORT const char *pncclGetErrorString(ncclResult_t result);
const char *pncclGetErrorString(ncclResult_t result) {
    return text_of(result);
}

STANDIN_EXPORT const char *ncclGetLastError(ncclComm_t comm);
const char *ncclGetLastError(ncclComm_t comm) {
    return "";
}

STANDIN_EXPORT const char *pncclGetLastError(ncclComm_t comm);
const char *pncclGetLastError(ncclComm_t comm) {
    return "";
}
