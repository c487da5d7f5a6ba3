/*
 * nccl_collective.c - NCCL's collectives: each puts a kernel on its stream that moves what one rank
 * alone can move (nccl.c). Any thread; not safe in a signal handler.
 */
#include <stdint.h>
#include <string.h>

#include "nccl_standin.h"

static size_t bytes_of(ncclDataType_t type) {
    static const unsigned char bytes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return (unsigned)type < (unsigned)ncclNumTypes ? bytes[(unsigned)type] : 0;
}

/* What a rank moves by itself. */
struct move {
    void *to;
    const void *from;
    size_t bytes;
};

static void do_move(void *data) {
    const struct move *m = data;
    memmove(m->to, m->from, m->bytes);
}

struct collective {
    const char *kernel;
    const void *send;
    void *recv;
    size_t count; /* elements, as passed */
    ncclDataType_t type;
    ncclComm_t comm;
    cudaStream_t stream;
    /* In units of `count` elements: how many each buffer has, where the own part begins in each,
     * and how many it has; 0: nothing is moved. */
    size_t send_parts, recv_parts, from, to, own;
};

static int run(const struct collective *c) {
    size_t part = c->count * bytes_of(c->type);
    if (!nccl_live(c->comm) || !bytes_of(c->type))
        return ncclInvalidArgument;
    if (!standin_stream_valid((standin_stream)c->stream))
        return ncclUnhandledCudaError;
    if (!part)
        return ncclSuccess;
    if ((c->send_parts && !standin_reachable(c->send, part * c->send_parts)) ||
        (c->recv_parts && !standin_reachable(c->recv, part * c->recv_parts)))
        return ncclInvalidArgument;
    struct move m = {0};
    if (c->own)
        m = (struct move){(char *)standin_host_view(c->recv) + part * c->to,
                          (const char *)standin_host_view(c->send) + part * c->from, part * c->own};
    return standin_launch((standin_stream)c->stream, c->kernel, c->own ? do_move : NULL, &m,
                          c->own ? sizeof m : 0)
               ? ncclUnhandledCudaError
               : ncclSuccess;
}

static int collective(struct standin_call *call, const struct collective *c) {
    int status = call->fault ? call->fault : run(c);
    lib_put_pointer(call, "comm", c->comm);
    lib_put_pointer(call, "stream", c->stream);
    lib_put_pointer(call, "send", c->send);
    lib_put_pointer(call, "recv", c->recv);
    standin_put(call, "count", c->count);
    standin_put_signed(call, "type", (int)c->type);
    standin_put_signed(call, "device", standin_current_device());
    return standin_leave(call, status);
}

/* Rank and size of a communicator that may be none; `run` refuses that one later. */
static size_t rank_of(ncclComm_t comm) {
    return nccl_live(comm) ? (size_t)comm->rank : 0;
}
static size_t ranks_of(ncclComm_t comm) {
    return nccl_live(comm) ? (size_t)comm->ranks : 1;
}

NCCL(ncclAllReduce, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    LIB_ENTER(call);
    standin_put_signed(&call, "op", (int)op);
    return (ncclResult_t)collective(&call, &(struct collective){"ncclDevKernel_AllReduce", sendbuff,
                                                                recvbuff, count, datatype, comm,
                                                                stream, 1, 1, 0, 0, 1});
}

NCCL(ncclReduce, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
     ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
    LIB_ENTER(call);
    bool own = rank_of(comm) == (size_t)root;
    standin_put_signed(&call, "op", (int)op);
    standin_put_signed(&call, "root", root);
    return (ncclResult_t)collective(&call, &(struct collective){"ncclDevKernel_Reduce", sendbuff,
                                                                recvbuff, count, datatype, comm,
                                                                stream, 1, own, 0, 0, own});
}

NCCL(ncclBroadcast, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
     int root, ncclComm_t comm, cudaStream_t stream) {
    LIB_ENTER(call);
    bool own = rank_of(comm) == (size_t)root;
    standin_put_signed(&call, "root", root);
    return (ncclResult_t)collective(&call, &(struct collective){"ncclDevKernel_Broadcast", sendbuff,
                                                                recvbuff, count, datatype, comm,
                                                                stream, own, 1, 0, 0, own});
}

NCCL(ncclBcast, void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
     cudaStream_t stream) {
    LIB_ENTER(call);
    standin_put_signed(&call, "root", root);
    return (ncclResult_t)collective(&call, &(struct collective){"ncclDevKernel_Broadcast", buff,
                                                                buff, count, datatype, comm, stream,
                                                                1, 1, 0, 0, 0});
}

NCCL(ncclReduceScatter, const void *sendbuff, void *recvbuff, size_t recvcount,
     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    LIB_ENTER(call);
    standin_put_signed(&call, "op", (int)op);
    return (ncclResult_t)collective(
        &call,
        &(struct collective){"ncclDevKernel_ReduceScatter", sendbuff, recvbuff, recvcount, datatype,
                             comm, stream, ranks_of(comm), 1, rank_of(comm), 0, 1});
}

NCCL(ncclAllGather, const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
     ncclComm_t comm, cudaStream_t stream) {
    LIB_ENTER(call);
    return (ncclResult_t)collective(&call, &(struct collective){"ncclDevKernel_AllGather", sendbuff,
                                                                recvbuff, sendcount, datatype, comm,
                                                                stream, 1, ranks_of(comm), 0,
                                                                rank_of(comm), 1});
}

NCCL(ncclAlltoAll, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
     ncclComm_t comm, cudaStream_t stream) {
    LIB_ENTER(call);
    return (ncclResult_t)collective(
        &call, &(struct collective){"ncclDevKernel_AlltoAll", sendbuff, recvbuff, count, datatype,
                                    comm, stream, ranks_of(comm), ranks_of(comm), rank_of(comm),
                                    rank_of(comm), 1});
}

NCCL(ncclGather, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
     int root, ncclComm_t comm, cudaStream_t stream) {
    LIB_ENTER(call);
    bool own = rank_of(comm) == (size_t)root;
    standin_put_signed(&call, "root", root);
    return (ncclResult_t)collective(&call, &(struct collective){"ncclDevKernel_Gather", sendbuff,
                                                                recvbuff, count, datatype, comm,
                                                                stream, 1, own ? ranks_of(comm) : 0,
                                                                0, rank_of(comm), own});
}

NCCL(ncclScatter, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
     int root, ncclComm_t comm, cudaStream_t stream) {
    LIB_ENTER(call);
    bool own = rank_of(comm) == (size_t)root;
    standin_put_signed(&call, "root", root);
    return (ncclResult_t)collective(&call, &(struct collective){"ncclDevKernel_Scatter", sendbuff,
                                                                recvbuff, count, datatype, comm,
                                                                stream, own ? ranks_of(comm) : 0, 1,
                                                                rank_of(comm), 0, own});
}

NCCL(ncclSend, const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
     ncclComm_t comm, cudaStream_t stream) {
    LIB_ENTER(call);
    standin_put_signed(&call, "peer", peer);
    return (ncclResult_t)collective(&call, &(struct collective){"ncclDevKernel_SendRecv", sendbuff,
                                                                NULL, count, datatype, comm, stream,
                                                                1, 0, 0, 0, 0});
}

NCCL(ncclRecv, void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
     cudaStream_t stream) {
    LIB_ENTER(call);
    standin_put_signed(&call, "peer", peer);
    return (ncclResult_t)collective(&call, &(struct collective){"ncclDevKernel_SendRecv", NULL,
                                                                recvbuff, count, datatype, comm,
                                                                stream, 0, 1, 0, 0, 0});
}
