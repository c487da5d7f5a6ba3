/*
 * format.h - contract 1: the spool, written by liblayoutspy.so and read by `layoutspy collect`.
 *
 * One spool file per recorded process image. It is mapped by both sides (MAP_SHARED), so what the
 * target committed outlives it however it dies. Little endian, x86-64 layout, 8-byte alignment.
 *
 *   [ ls_spool_header | chunk directory: LS_CHUNK_MAX slots ] LS_SPOOL_HEADER_SIZE bytes
 *   [ chunk ][ chunk ] ...                                    each LS_CHUNK_MIN << k bytes
 *
 * A chunk belongs to one thread at a time; only that thread appends to it. A record counts once
 * `committed` covers it (release store). Full chunks are sealed (checksum over the records), and
 * handed back by the collector after the COMMIT that holds their rows:
 *
 *     FREE --(target: claim, generation + 1)--> ACTIVE --(target)--> SEALED --(collector)--> FREE
 *
 * Claiming order in the target: committed = 0, the other fields, generation, committed =
 * sizeof(struct ls_chunk). A reader reads generation, committed, then generation again.
 *
 * Order. Within a thread, records are in order of completion, chunks in order of `sequence`.
 * Across threads: every record that another one depends on (the allocation behind a pointer, the
 * stack or kernel behind a number) was committed before that number or pointer could be known, so
 * a reader that takes the clock first, then every `committed`, and then merges by completion time
 * only what completed before that clock value, never meets a use before its definition.
 *
 * Times are ticks: rdtsc where LS_SPOOL_TSC is set, else CLOCK_MONOTONIC ns. `clock` holds pairs
 * that map ticks to CLOCK_MONOTONIC and CLOCK_REALTIME.
 */
#ifndef LAYOUTSPY_FORMAT_H
#define LAYOUTSPY_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#define LS_SPOOL_MAGIC "layoutspy spool" /* 16 bytes with its NUL */
#define LS_SPOOL_VERSION 5
#define LS_CHUNK_MAX 4096           /* slots in the directory */
#define LS_CHUNK_MIN (64u << 10)    /* bytes, the first chunk of a thread */
#define LS_CHUNK_LARGEST (2u << 20) /* bytes; sizes double up to this */
#define LS_SPOOL_HEADER_SIZE (4096u + LS_CHUNK_MAX * 32u)
#define LS_CHUNK_MAGIC 0x6b6e6863u /* "chnk" */
#define LS_CLOCK_PAIRS 8
#define LS_PATH_MAX 2048
#define LS_TRACE_PATH_MAX 500 /* of a trace: SQLite takes no path much longer */

/* A pointer file TRACE.spool, where the spool had to lie on another disk: this, a path, newline. */
#define LS_SPOOL_POINTER "layoutspy spool is at "

enum ls_spool_flag { LS_SPOOL_TSC = 1 };

enum ls_run_state { LS_RUN_ACTIVE = 1, LS_RUN_CLOSING, LS_RUN_OFF };

/* Why events are missing. Counted in ls_spool_header.lost, told with times by LS_REC_LOST. */
enum ls_lost {
#define LOST(ID, name, what) LS_LOST_##ID,
#include "layoutspy/lost.def"
    LS_LOST_COUNT
};

/* What recording costs the target. Counted in ls_spool_header.cost. */
#define LS_COST_EVERY 256 /* of so many calls one is timed, a power of two */
enum ls_cost {
#define COST(ID, what) LS_COST_##ID,
#include "layoutspy/cost.def"
    LS_COST_COUNT
};

struct ls_clock_pair {
    uint64_t ticks;
    uint64_t mono_ns; /* CLOCK_MONOTONIC */
    uint64_t real_ns; /* CLOCK_REALTIME, since 1970 */
};

struct ls_spool_header {
    char magic[16];
    uint32_t version;
    uint32_t header_size; /* LS_SPOOL_HEADER_SIZE: where the first chunk lies */
    uint64_t table_hash;  /* ls_table_hash() of the writer: another table, other numbers */
    uint32_t pid;
    uint32_t flags;     /* enum ls_spool_flag */
    uint64_t pid_start; /* /proc/PID/stat field 22, tells a reused pid apart */
    uint64_t image;     /* field 28 (stack address): another one after an exec, 0 unknown */
    uint64_t pid_space; /* inode of /proc/self/ns/pid: where `pid` means anything; 0 unknown */
    uint64_t run_start; /* the run it belongs to: its first process's field 22 and pid, */
    uint32_t run_pid;   /* see preload/trace_name.h; 0 where LAYOUTSPY_OUT was not set */
    uint32_t pad0;
    char boot_id[40];       /* ticks of another boot cannot be mapped by taking a new pair */
    uint64_t cap;           /* bytes the file may grow to */
    _Atomic uint64_t end;   /* bytes handed out so far, header included */
    _Atomic uint32_t slots; /* directory slots in use */
    _Atomic uint32_t state; /* enum ls_run_state, set by the target */
    _Atomic uint32_t collector_pid; /* 0: none was ever started */
    /*
     * Draining on request: the target increments `wake` and wakes it (shared futex); the
     * collector waits on it, drains, stores the value it saw into `drained` and wakes that.
     */
    _Atomic uint32_t wake;
    _Atomic uint32_t drained;
    /*
     * Requests from outside: a command changes one of the wishes, then increments `requests`; the
     * target looks at the end of each recorded call whether it has changed, and stores the number
     * that it has dealt with into `requests_done`. A census takes longer: it shows in the trace.
     */
    _Atomic uint32_t census_wanted; /* a wish more at each increment */
    _Atomic uint32_t flush_wanted;  /* the same, for what CUPTI holds to be handed over */
    _Atomic uint32_t stop_wanted;   /* 1: record nothing until it is 0 again */
    _Atomic uint32_t requests;
    _Atomic uint32_t requests_done;
    uint32_t pad1;
    _Atomic uint64_t cost[16]; /* by enum ls_cost */
    _Atomic uint64_t lost[16]; /* by enum ls_lost: events, whether or not a LOST record tells */
    /* Pair 0 is the start of the recording. The target appends at seals, the collector at drains:
     * claim an index from clock_next, and mark it valid by storing ticks last. */
    _Atomic uint32_t clock_next;
    uint32_t pad2;
    struct ls_clock_pair clock[LS_CLOCK_PAIRS]; /* 1.. is a ring: index 1 + n % (PAIRS - 1) */
    char trace_path[LS_PATH_MAX];               /* absolute path of the SQLite file */
};

enum ls_chunk_state { LS_CHUNK_FREE, LS_CHUNK_ACTIVE, LS_CHUNK_SEALED };

/* A directory slot. Written once when the slot is made, but for state. 32 bytes. */
struct ls_chunk_slot {
    uint64_t offset; /* of the chunk in the file; 0: slot not made yet */
    uint64_t size;   /* bytes, chunk header included */
    _Atomic uint32_t state;
    uint32_t pad[3];
};

/* At the start of each chunk; records follow. 64 bytes. */
struct ls_chunk {
    uint32_t magic;
    uint32_t slot;
    _Atomic uint32_t generation; /* grows by one at each claim */
    uint32_t tid;                /* kernel thread id of the owner */
    uint32_t thread;             /* number of the owner within the recording, from 1 */
    uint32_t sequence;           /* which chunk of that thread, from 0 */
    _Atomic uint64_t committed;  /* bytes from its start, this header included; times 8 */
    uint64_t checksum;           /* XXH3_64bits over [64, committed), once SEALED */
    uint64_t pad[3];
};

enum ls_record_type {
    LS_REC_PAD = 0, /* skip `size` bytes */
    LS_REC_CALL,
    LS_REC_STACK,
    LS_REC_MODULE,
    LS_REC_THREAD,
    LS_REC_KERNEL,
    LS_REC_META,
    LS_REC_COVERAGE,
    LS_REC_LOST,
    LS_REC_CODE,
    LS_REC_PYTHON,
    LS_REC_MARK,
    LS_REC_CENSUS,
    LS_REC_STORAGE,
    LS_REC_TENSOR,
    LS_REC_GPU,
    LS_REC_GPU_CLOCK,
    LS_REC_GPU_STATE,
    LS_REC_SHAPE,
    LS_REC_TYPE_COUNT
};

/* The head of every record. `size` is in bytes, head included, a multiple of 8. */
struct ls_record {
    uint16_t size;
    uint8_t type;
    uint8_t flags;  /* CALL: enum ls_call_flag */
    uint16_t api;   /* CALL: enum ls_api; LOST: enum ls_lost */
    uint8_t device; /* CALL: the calling thread's current device */
    uint8_t kinds;  /* CALL: asked memory kinds, LS_KINDS(src, dst) */
};

enum ls_call_flag {
    LS_CALL_NESTED = 1,     /* made by another recorded call of the same thread */
    LS_CALL_CAPTURING = 2,  /* some stream of the process was capturing: nothing was asked */
    LS_CALL_CORRELATED = 4, /* one more word follows the fields: LS_CORRELATION() */
    LS_CALL_CUPTI = 8,      /* passed beside the hooks: CUPTI alone saw it */
    LS_CALL_OPERANDS = 16,  /* its operands come last: their number in a word, then each */
};

/* The word that follows the fields of a correlated call: CUPTI's number of the call, by which
 * records of the GPU name it, and of the context that was current then. */
#define LS_CORRELATION(correlation, context)                                                       \
    ((uint64_t)(uint32_t)(correlation) | (uint64_t)(uint32_t)(context) << 32)

/* What cudaPointerGetAttributes said of an address that no recorded call had made known. */
enum ls_asked {
    LS_ASKED_NOT = 0, /* not asked: known, or capturing, or no pointer */
    LS_ASKED_PAGEABLE,
    LS_ASKED_PINNED,
    LS_ASKED_DEVICE,
    LS_ASKED_MANAGED,
    LS_ASKED_FAILED,
    LS_ASKED_BEFORE, /* its 2 MiB range was asked earlier and was pageable */
};
#define LS_KINDS(src, dst) ((uint8_t)((src) | (dst) << 4))

/* LS_REC_CALL. Fields as the row in the table lists them, with LS_CALL_CORRELATED one word more,
 * and with LS_CALL_OPERANDS the operands. */
struct ls_rec_call {
    struct ls_record head;
    uint64_t start;    /* ticks before the real call */
    uint64_t duration; /* ticks in it */
    int32_t status;    /* what it returned; 0 is success; void functions: 0 */
    uint32_t stack;    /* number of an earlier LS_REC_STACK, 0: none taken */
    uint64_t field[];
};

/* LS_REC_STACK. Innermost first; all are return addresses. Where `python` is set, the native frames
 * end with the first one of the interpreter, and Python's follow outside of it. */
struct ls_rec_stack {
    struct ls_record head;
    uint32_t id;      /* from 1, unique in the spool */
    uint32_t modules; /* the module generation that the addresses belong to */
    uint32_t depth;
    uint32_t truncated; /* 1: there were more native frames */
    uint32_t python;    /* number of an earlier LS_REC_PYTHON, 0: none */
    uint32_t forward;   /* in a backward operation: the LS_REC_PYTHON of the forward call; else 0 */
    uint64_t address[];
};

/* LS_REC_CODE: a Python code object. text: "co_name\0co_filename\0", UTF-8. */
struct ls_rec_code {
    struct ls_record head;
    uint32_t id;
    uint32_t first_line;
    char text[];
};

/* LS_REC_PYTHON: the Python frames of a stack, innermost first. */
struct ls_python_frame {
    uint32_t code; /* number of an earlier LS_REC_CODE, 0: unknown */
    uint32_t line; /* that was running, 0: unknown */
};
struct ls_rec_python {
    struct ls_record head;
    uint32_t id; /* from 1, unique in the spool */
    uint32_t depth;
    uint32_t truncated; /* 1: there were more frames */
    uint32_t pad;
    struct ls_python_frame frame[];
};

/* LS_REC_MARK: what the program itself says about its course. */
enum ls_mark {
    LS_MARK_STEP = 1,    /* layoutspy_step(): a step begins */
    LS_MARK_RANGE_PUSH,  /* NVTX: a nested range of this thread begins, */
    LS_MARK_RANGE_POP,   /* and the innermost ends */
    LS_MARK_RANGE_START, /* NVTX: a range that may end in another thread; `value` is its id */
    LS_MARK_RANGE_END,
    LS_MARK_POINT,  /* NVTX: an instant */
    LS_MARK_DOMAIN, /* NVTX: `text` is the name of `domain` */
    LS_MARK_KINDS
};
struct ls_rec_mark {
    struct ls_record head;
    uint64_t ticks;  /* 0: before the recording */
    uint64_t value;  /* ranges: the id; else 0 */
    uint64_t domain; /* NVTX: 0 the default one, else the domain's handle */
    uint32_t kind;   /* enum ls_mark */
    uint32_t pad;
    char text[]; /* UTF-8, may be cut; "" where there is none */
};

/*
 * The census: which Python objects hold device memory, looked at between two instructions of the
 * interpreter. Records of one thread, in this order: a CENSUS that begins it; for each storage a
 * STORAGE and its TENSORs; a CENSUS of the same number that ends it. Where it could not run, an end
 * alone says why.
 */
enum ls_census_state {
    LS_CENSUS_BEGINS = 1,
    LS_CENSUS_COMPLETE, /* everything that was reachable was seen */
    LS_CENSUS_CUT,      /* time or memory ran out: what was found is here */
    LS_CENSUS_FAILED,   /* `text` says why; nothing is here */
    LS_CENSUS_STATES
};
enum ls_census_reason {
    LS_CENSUS_OOM = 1, /* an allocator gave up */
    LS_CENSUS_ASKED,   /* `layoutspy census` */
    LS_CENSUS_EXIT,    /* LAYOUTSPY_CENSUS=exit */
    LS_CENSUS_REASONS
};
struct ls_rec_census {
    struct ls_record head;
    uint64_t ticks;     /* when it began, or ended */
    uint64_t oom_ticks; /* of reason OOM: `start` of the call that told of it */
    uint32_t census;    /* from 1 */
    uint32_t state;     /* enum ls_census_state */
    uint32_t reason;    /* enum ls_census_reason */
    uint32_t pad;
    uint64_t objects; /* an end: Python objects looked at, */
    uint64_t tensors; /* device tensors among them, told or not, */
    uint64_t nodes;   /* nodes of autograd graphs, */
    char text[];      /* and why it is cut or failed; else "" */
};

/* Memory that tensors share. */
struct ls_rec_storage {
    struct ls_record head; /* device: its own */
    uint32_t census;
    uint32_t id;      /* from 1 within the census */
    uint64_t address; /* of its first byte */
    uint64_t bytes;
    uint64_t held_by_graph; /* bytes of other storages that are reachable by no path but through the
                               grad_fn of this one's tensors; each counted for one storage only */
};

/* A tensor, and where it hangs. */
enum ls_tensor_flag {
    LS_TENSOR_CONTIGUOUS = 1,
    LS_TENSOR_REQUIRES_GRAD = 2,
    LS_TENSOR_VIEW = 4,     /* of another tensor (_is_view), or of a part of its storage only */
    LS_TENSOR_GRAPH = 8,    /* saved by a node of an autograd graph */
    LS_TENSOR_LOCAL = 16,   /* a path leads through the locals of a frame that is running */
    LS_TENSOR_RAISED = 32,  /* a path leads through an exception and its traceback */
    LS_TENSOR_LOST = 64,    /* no path: only a reference cycle that awaits the garbage collector */
    LS_TENSOR_GLOBAL = 128, /* a path leads through a module's variables */
};
struct ls_rec_tensor {
    struct ls_record head;
    uint32_t census;
    uint32_t storage; /* of an earlier LS_REC_STORAGE of the census */
    uint64_t object;  /* address of the Python object; 0: it has none */
    uint64_t offset;  /* of its first element, in elements */
    uint64_t bytes;   /* of its elements: their number times their size */
    uint32_t flags;   /* enum ls_tensor_flag */
    uint32_t dims;    /* at most LS_TENSOR_DIMS; more are cut */
    uint32_t paths;   /* that lead to it, as far as counted; `paths_told` of them follow */
    uint32_t paths_told;
    int64_t shape[]; /* dims sizes, then dims strides in elements; then the texts, each with its
                        NUL: dtype ("float16"), class ("torch.nn.parameter.Parameter"), the paths */
};
#define LS_TENSOR_DIMS 16

/*
 * LS_REC_GPU: what the GPU did, or CUPTI says of memory and waits. Written when CUPTI hands over a
 * full buffer, in any thread, long after the fact and in no order of time.
 */
enum ls_gpu_kind {
#define GPU(ID, name, what) LS_GPU_##ID,
#include "layoutspy/gpu.def"
    LS_GPU_KINDS
};
enum ls_gpu_flag {
    LS_GPU_ASYNC = 1, /* COPY, SET, MEMORY: of a call that does not wait */
    LS_GPU_PEER = 2,  /* COPY: between two devices, value[2] and [3] */
};
/* CUPTI's memory kinds, in `kinds` as LS_KINDS(src, dst). SET, MEMORY: as src. */
enum ls_gpu_memory {
    LS_GPU_MEMORY_UNKNOWN,
    LS_GPU_MEMORY_PAGEABLE,
    LS_GPU_MEMORY_PINNED,
    LS_GPU_MEMORY_DEVICE,
    LS_GPU_MEMORY_ARRAY,
    LS_GPU_MEMORY_MANAGED,
    LS_GPU_MEMORY_DEVICE_STATIC,
    LS_GPU_MEMORY_MANAGED_STATIC,
};
struct ls_rec_gpu {
    struct ls_record head; /* api: enum ls_gpu_kind; flags: enum ls_gpu_flag; device: its own */
    uint64_t start, end;   /* ns of CUPTI's clock; both 0, or end < start: no times are known */
    uint32_t correlation;  /* of the call that brought it about (LS_CORRELATION); 0: none */
    uint32_t context;      /* CUPTI's numbers of the context, */
    uint32_t stream;       /* the stream, */
    uint32_t graph;        /* and the graph that it was part of; 0: none */
    uint64_t node;         /* CUPTI's number of the graph's node; 0: none */
    uint64_t value[4];     /* by kind, see layoutspy/gpu.def */
};

/* LS_REC_GPU_CLOCK: CUPTI's clock read between two readings of ours. Written ahead of the GPU
 * records that it is to date, in the same thread. */
struct ls_rec_gpu_clock {
    struct ls_record head;
    uint64_t ticks;  /* the middle of the two */
    uint64_t width;  /* ticks between them */
    uint64_t gpu_ns; /* CUPTI's clock */
};

/* LS_REC_GPU_STATE: from here on CUPTI records for us, or not. */
enum ls_gpu_state { LS_GPU_STATE_ON = 1, LS_GPU_STATE_OFF, LS_GPU_STATES };
struct ls_rec_gpu_state {
    struct ls_record head;
    uint64_t ticks;
    uint32_t state; /* enum ls_gpu_state */
    uint32_t pad;
    char text[]; /* why: "another CUPTI client", ... NUL-terminated */
};

/* LS_REC_SHAPE, and the operands of calls: layoutspy/shape.h. */

/* LS_REC_MODULE: mapped in generation `modules`; told again in a later generation (after an unload
 * anywhere) when an address needs it. An address belongs to the latest one that is not later than
 * its stack's generation. */
struct ls_rec_module {
    struct ls_record head;
    uint64_t bias;  /* dlpi_addr: add to an ELF address */
    uint64_t start; /* first mapped byte */
    uint64_t end;   /* one past the last */
    uint32_t modules;
    uint32_t build_id_size; /* 0 to 32 */
    uint8_t build_id[32];
    char path[]; /* NUL-terminated, absolute; the main program's from /proc/self/exe */
};

/* LS_REC_THREAD: first record of a thread's first chunk. */
struct ls_rec_thread {
    struct ls_record head;
    uint32_t tid;
    uint32_t thread;
    char name[16];
};

/* LS_REC_KERNEL: the name behind a kernel number. */
struct ls_rec_kernel {
    struct ls_record head;
    uint32_t id;
    uint32_t pad;
    char name[]; /* mangled, NUL-terminated */
};

/* LS_REC_META: "key\0value\0". LS_REC_COVERAGE: "layer\0state\0detail\0". */
struct ls_rec_text {
    struct ls_record head;
    char text[];
};

/* LS_REC_LOST: events of this thread that could not be stored; head.api says why. */
struct ls_rec_lost {
    struct ls_record head;
    uint64_t count;
    uint64_t start; /* ticks of the first and of the last one */
    uint64_t end;
};

#define LS_RECORD_LARGEST 8192 /* bytes; paths and names are cut to fit */

_Static_assert(sizeof(struct ls_spool_header) <= 4096, "the header must fit its page");
_Static_assert(sizeof(struct ls_chunk_slot) == 32, "slot");
_Static_assert(sizeof(struct ls_chunk) == 64, "chunk header");
_Static_assert(sizeof(struct ls_record) == 8, "record head");
_Static_assert(sizeof(struct ls_rec_call) == 32, "call record");
_Static_assert(sizeof(struct ls_rec_tensor) % 8 == 0, "tensor record");
_Static_assert(sizeof(struct ls_rec_gpu) == 80, "GPU record");
_Static_assert(LS_LOST_COUNT <= 16, "lost counters");
_Static_assert(LS_COST_COUNT <= 16, "cost counters");

#include "layoutspy/shape.h"

#endif
