/*
 * thresholds.h - every number that a detector judges by, and why it has that value.
 *
 * The only place for them. docs/findings.md repeats none: it says what they do.
 */
#ifndef LAYOUTSPY_THRESHOLDS_H
#define LAYOUTSPY_THRESHOLDS_H

/* --- severity and rank ------------------------------------------------------------------- */

/* A twentieth of the run or of the device is worth a person's afternoon. */
#define LS_SHARE_PROBLEM 0.05
/* Below one per cent a change drowns in the noise between two runs. */
#define LS_SHARE_WARNING 0.01
/* Below this, what happens again and again is only noted: one second in three hours. */
#define LS_SHARE_NEGLIGIBLE 1e-4
/* Nor does anybody notice less than this in all, unless it is a good part of a short run: one read
 * from disk, or one turn that the scheduler gives to another program, takes longer. */
#define LS_NOISE_NS 500000
/* Stands in for the device's size where the program never asked for it: a common small card. */
#define LS_CAPACITY_UNKNOWN (INT64_C(16) << 30)

/* --- time -------------------------------------------------------------------------------- */

/* Loading: all in the first quarter of the recording and never again. */
#define LS_LOAD_FRACTION 0.25
/* As often as this it is a loop, not set-up: few programs have eight one-off copies on a line. */
#define LS_REPEATED 8

/* --- leak -------------------------------------------------------------------------------- */

/* Growth: this many never freed, begun in this many quarters of the run. Three points could be
 * two warm-up steps and one more; four in three quarters cannot. */
#define LS_GROWTH_COUNT 4
#define LS_GROWTH_QUARTERS 3

/* --- pageable-copy ----------------------------------------------------------------------- */

/* A read of one number: what .item(), a loss or an error flag needs. */
#define LS_SCALAR_BYTES 8
/* Up to a page the cost is the call, not the bytes: 4 KiB cross PCIe in under a microsecond. */
#define LS_TINY_BYTES 4096
/* So many tiny copies on one line are a loop over elements. */
#define LS_TINY_COUNT 64
/* Up to here a memcpy into a staging buffer is cheaper than pinning memory for the call: 64 KiB at
 * 10 GB/s take 7 us, a cudaHostAlloc takes 13 us at best and milliseconds under contention. */
#define LS_STAGE_BYTES (64 << 10)
/* How many tiny copies a batch holds: with 64 to one the call's cost is no longer the matter. */
#define LS_BATCH 64
/* Reading back every tenth step shows the same curve. */
#define LS_READ_BACK_EVERY 10
/* A copy that took this many times what its bytes need has waited for something else. */
#define LS_WAITED_FACTOR 4

/* What copies cost, for the estimates; every finding that uses one says so in its evidence.
 * Launch: a pinned cudaMemcpyAsync returns in 3 to 6 us. Call: a synchronous copy of few bytes
 * takes about 10 us. Bandwidths: PCIe 4 x16, pinned 22 to 25 GB/s, pageable 6 to 10 GB/s. */
#define LS_ASYNC_LAUNCH_NS 5000
#define LS_SYNC_CALL_NS 10000
#define LS_PINNED_BYTES_PER_NS 22.0
#define LS_PAGEABLE_BYTES_PER_NS 8.0

#endif
