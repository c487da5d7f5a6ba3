/*
 * cupti_standin.h - the parts of the simulated CUPTI among themselves.
 *
 * cupti_options.c   what the environment asks for: version, faults
 * cupti_names.c     numbers and names of functions, names of results
 * cupti_subscribe.c subscribers and which callbacks they want
 * cupti_callback.c  calls as they begin and end: callbacks, records of calls
 * cupti_activity.c  the activity API
 * cupti_buffer.c    sessions: the buffers of a client, how they fill and are handed back
 * cupti_work.c      what the device tells: queued, and made into records later
 * cupti_encode.c    each thing told as a record
 * cupti_context.c   contexts and devices
 * cupti_clock.c     CUPTI's time, or a client's
 * cupti_record.c    the layout of records in each version
 * cupti_next.c      what only CUPTI 13.3 exports
 *
 * Locks, in the order of taking: drain (cupti_work.c), deliver, a session's own, queue
 * (cupti_work.c). Clients' functions run with none of them held but drain and deliver. Any thread;
 * not in signal handlers.
 */
#ifndef CUPTI_STANDIN_H
#define CUPTI_STANDIN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../tap.h"
#include "cupti_types.h"
#include "lib.h"

/* ---- options ---- */

enum cp_version { CP_11_8, CP_12_4, CP_13_0, CP_13_3, CP_VERSIONS };
enum cp_fault {
#define FAULT(id, name) CP_##id,
#include "cupti_faults.def"
};

struct cp_options {
    enum cp_version version;
    uint32_t number;   /* what cuptiGetVersion tells */
    int kinds;         /* kinds of activity are 1 to kinds - 1 */
    uint32_t faults;   /* bits by enum cp_fault */
    bool multi;        /* the driver allows several subscribers (13.3) */
    const char *taken; /* who has subscribed before everybody; NULL: nobody */
    int64_t offset;    /* of the clock, to CLOCK_REALTIME */
    int64_t drift;     /* and how many ns it gains in a million */
};
const struct cp_options *cp_options(void);
bool cp_fault(enum cp_fault fault);

/* A line of the truth log: "#cupti PID WHAT". */
void cp_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The base name of the module that an address lies in. */
const char *cp_module(const void *address);

/* ---- where a thread is: in which of a client's functions ---- */

enum cp_where { CP_OUTSIDE, CP_CALLBACK = 1, CP_REQUEST = 2, CP_COMPLETE = 4 };
extern __thread enum cp_where cp_where;
/* Notes a call that is not allowed there; `allowed` is a set. 0 or the status that refuses it. */
int cp_misuse(const char *name, int allowed);

/* An exported function that may be called in `allowed` of a client's functions as well. */
#define CP_ENTER(call, allowed)                                                                    \
    LIB_ENTER(call);                                                                               \
    if (standin_capturing())                                                                       \
        standin_put(&call, "capturing", 1);                                                        \
    if (!call.fault)                                                                               \
    call.fault = cp_misuse(__func__, allowed)
#define CP_EVERYWHERE (CP_CALLBACK | CP_REQUEST | CP_COMPLETE)

#define CP_EXPORT STANDIN_EXPORT CUptiResult

/* Closes it. As the real ones do, a call that fails leaves an errno behind. */
CUptiResult cp_leave(struct standin_call *call, int status);

/* ---- one subscriber or several (13.3) ---- */

enum cp_mode {
    CP_UNDECIDED,
    CP_SINGLE, /* somebody subscribed, or used the activity API, in the old way */
    CP_SEVERAL,
};
/* Whether a call that belongs to `mode` may be made now: 0 or the status that refuses it. Decides
 * where nothing was decided. */
int cp_mode_status(enum cp_mode mode);
enum cp_mode cp_mode(void);

/* ---- names ---- */

/* The number of a function; 0: CUPTI does not know it. */
uint32_t cp_number(int domain, const char *symbol);
/* NULL: no function has that number. */
const char *cp_name(int domain, uint32_t number);
uint32_t cp_numbers(int domain); /* one more than the largest */

/* ---- subscribers ---- */

#define CP_SUBSCRIBERS 8
#define CP_CALLBACKS 1024

struct CUpti_Subscriber_st {
    atomic_bool live;
    bool foreign; /* STANDIN_CUPTI_TAKEN: no client of ours */
    char name[64];
    const char *module;
    CUpti_CallbackFunc callback;
    void *userdata;
    atomic_uchar enabled[CUPTI_CB_DOMAIN_SIZE][CP_CALLBACKS];
    struct cp_session *session; /* its own; else the common one */
};
extern struct CUpti_Subscriber_st cp_subscribers[CP_SUBSCRIBERS];

/* A live subscriber, or NULL. */
struct CUpti_Subscriber_st *cp_subscriber(CUpti_SubscriberHandle handle);
int cp_subscribe(CUpti_SubscriberHandle *out, CUpti_CallbackFunc callback, void *userdata,
                 const CUpti_SubscriberParams *params, bool share, const void *caller);
/* Calls one callback, as CUPTI does. */
void cp_call_back(struct CUpti_Subscriber_st *subscriber, int domain, uint32_t number,
                  const void *data);
void cp_finalize(const char *by);
/* Listens to the device, or no longer: after any change of what clients want. */
void cp_listen(void);

/* ---- sessions: what a client of the activity API has asked for ---- */

struct cp_buffer {
    uint8_t *bytes;
    size_t size, used, records, limit;
    struct cp_buffer *next;
};

struct cp_session {
    atomic_bool live;
    atomic_uint_fast64_t kinds;
    atomic_uchar ignored[3][CP_CALLBACKS]; /* by domain: calls that give no record */
    CUpti_BuffersCallbackRequestFunc request;
    CUpti_BuffersCallbackCompleteFunc complete;
    void *request_v2, *complete_v2; /* cupti_next.c's; then the two above are NULL */
    pthread_mutex_t lock;           /* of the buffers and of what follows */
    struct cp_buffer *current, *spare, *full;
    uint64_t dropped, requests;
};
#define CP_SESSIONS (1 + CP_SUBSCRIBERS)
extern struct cp_session cp_sessions[CP_SESSIONS]; /* [0] is the common one */

bool cp_wants(const struct cp_session *session, int kind);
bool cp_anyone_wants(int kind);
int cp_enable(struct cp_session *session, int kind, bool on);
void cp_session_reset(struct cp_session *session);

struct cp_record;
/* Puts a record into the session's buffer; may call the client. */
void cp_append(struct cp_session *session, const struct cp_record *record);
/* Hands back all that is full, and with `all` what is not. */
void cp_hand_over(struct cp_session *session, bool all, const char *by);
int cp_next_record(uint8_t *buffer, size_t valid, CUpti_Activity **record);
void cp_worker_start(void);
int cp_external_push(const struct cp_session *session, CUpti_ExternalCorrelationKind kind,
                     uint64_t id);
int cp_external_pop(const struct cp_session *session, CUpti_ExternalCorrelationKind kind,
                    uint64_t *last);
/* All that is complete; with `forced` all there is. Blocks; calls the client in this thread. */
void cp_flush(bool forced);
/* cupti_next.c's: the functions of a session that registered them by cuptiActivity..._v2. */
void cp_request_v2(struct cp_session *session, uint8_t **buffer, size_t *size, size_t *limit);
void cp_complete_v2(struct cp_session *session, struct cp_buffer *buffer, size_t valid);

/* ---- what the device tells ---- */

void cp_enter(struct sd_tapped *tapped);
void cp_exit(struct sd_tapped *tapped);
extern const struct sd_tap cp_tap;
/* Makes records of all that was told; with `wait` also when another thread is at it. */
void cp_drain(bool wait);
/* Records with times of 0 for kernels that were launched and are not over. */
void cp_tell_unfinished(struct cp_session *session);
bool cp_unfinished(void); /* whether there are such kernels */
void cp_launched(const struct sd_tapped *call);
void cp_launch_failed(const struct sd_tapped *call);
void cp_dispatch_resources(void);
void cp_tell_standing(struct cp_session *session, int kind); /* devices and contexts there are */
uint32_t cp_context_id(int device); /* counts contexts as they are seen, from 1 */
CUcontext cp_context(int device);
int cp_device_of(CUcontext context);         /* -1: no context */
void cp_note_context(int device, bool made); /* in the device's own time: only noted */

/* Anything that the device tells, as it waits in the queue. */
struct cp_told {
    enum { CP_WORK, CP_MEMORY, CP_POOL, CP_CONTEXT } what;
    union {
        struct sd_work_done work;
        struct sd_memory_change memory;
        struct sd_pool_change pool;
        int device;
    };
};
/* Its record for one session; false: the session does not want it. */
bool cp_encode(struct cp_record *record, const struct cp_session *session,
               const struct cp_told *told);
const char *cp_intern(const char *text);                /* stays for ever */
void cp_work_in_child(void), cp_context_in_child(void); /* after a fork: locks anew */

/* ---- time ---- */

uint64_t cp_now(void);
uint64_t cp_time(uint64_t device_ns); /* of the device's clock, in the client's; 0 stays 0 */
/* A start and an end, along one line: what it lasted is as true as the rates are. */
void cp_times(uint64_t start_ns, uint64_t end_ns, uint64_t out[2]);
void cp_set_clock(CUpti_TimestampCallbackFunc clock);

/* ---- records ---- */

enum cp_type {
#define RECORD(record, ...) CP_R_##record,
#define FIELD(...)
#include "cupti_layouts.def"
    CP_TYPES
};
enum cp_field {
#define RECORD(...)
#define FIELD(record, name, ...) CP_F_##record##_##name,
#include "cupti_layouts.def"
    CP_FIELDS
};

struct cp_record {
    enum cp_type type;
    size_t size;
    _Alignas(8) uint8_t bytes[256];
};

void cp_begin(struct cp_record *record, enum cp_type type);
void cp_begin_as(struct cp_record *record, enum cp_type type, int kind);
/* A field that the version does not have is left out. */
void cp_set(struct cp_record *record, enum cp_field field, uint64_t value);
void cp_set_bytes(struct cp_record *record, enum cp_field field, const void *value);
size_t cp_size_of_kind(int kind); /* 0: no such record */

#define SET(record, type, field, value) cp_set(record, CP_F_##type##_##field, (uint64_t)(value))

#endif
