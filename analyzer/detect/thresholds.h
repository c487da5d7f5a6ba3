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

/* --- recording itself -------------------------------------------------------------------- */

/* Beyond this, what is measured is no longer the program's own. */
#define LS_OWN_COST_SHARE 0.05
/* Nobody waits for less than this: a program of some milliseconds is hooks for the most part. */
#define LS_OWN_COST_NS 100000000
/* The mean of fewer samples says nothing. */
#define LS_COST_SAMPLES 4

/* --- time -------------------------------------------------------------------------------- */

/* Loading: all in the first quarter of the recording and never again. */
#define LS_LOAD_FRACTION 0.25
/* As often as this it is a loop, not set-up: few programs have eight one-off copies on a line. */
#define LS_REPEATED 8

/* --- layouts: what a copy on the device costs where CUPTI gave no times ---------------------- */

/* Both ways together. An A100 moves 1,555 bytes a ns at most, an H200 4,800; strided copies reach a
 * good half of it. A figure for the smaller one understates no card's cost by much. */
#define LS_DEVICE_BYTES_PER_NS 800.0
/* The shortest kernel: 2 us from start to end. */
#define LS_KERNEL_NS 2000
/* Nobody looks for less than this in a whole recording, unless it is a good part of a short one:
 * fifty of the shortest kernels that together move what one launch could. */
#define LS_COPIES_NOISE_NS 100000
#define LS_COPIES_NOISE_BYTES (1 << 20)
/* An expanded tensor that is written out: below a mebibyte it lies in the caches; a bias is there.
 */
#define LS_BROADCAST_BYTES (1 << 20)
#define LS_BROADCAST_FACTOR 2
/* A piece of a copy that was too large for one launch: two GiB halved until 32 bits suffice. */
#define LS_PIECE_BYTES (256 << 20)

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

/* --- round-trip ---------------------------------------------------------------------------- */

/* The host fills memory no faster: the memory of a socket takes 100 to 300 bytes a ns from all its
 * cores together, where a benchmark does nothing else, one thread 10 to 20, and new data has to
 * come from somewhere. A program in Python needs 20 us from one copy to the next: 2 MiB and more
 * are told for sure. */
#define LS_HOST_WRITE_BYTES_PER_NS 100.0

/* --- strided-host-source ------------------------------------------------------------------- */

/* PCIe packs up to 256 or 512 bytes at once: a shorter row is a packet, and a descriptor, of its
 * own, page-locked or not. */
#define LS_ROW_BYTES 512
/* Fewer rows cost no more than a few launches. */
#define LS_ROWS 64

/* --- cache-flush-stall ------------------------------------------------------------------- */

/* Once in so many steps is still in the loop; an epoch has more, and emptying a cache between two
 * epochs costs nothing that anybody notices. */
#define LS_FLUSH_EVERY 4
/* Fewer are start-up: the first steps of a loop ask for each size once. */
#define LS_FLUSHES 4

/* --- oom, oom-fitting-block, oom-cascade, fragmentation, pending-free ---------------------- */

/* PyTorch's allocator: requests up to 1 MiB come out of segments of 2 MiB, all others out of
 * segments of 20 MiB and more. */
#define LS_TORCH_SMALL_REQUEST (1 << 20)
#define LS_TORCH_SMALL_SEGMENT (2 << 20)
/* What PyTorch lets max_split_size_mb be set to must be above this: a segment of the large pool. */
#define LS_SPLIT_LIMIT_FLOOR (20 << 20)
/* A segment that is in use by half could hold as much again; above that it is rather full than in
 * pieces, and moving what is in it would gain little. */
#define LS_PINNED_USE 0.5
/* A context takes 0.3 to 1 GiB, of any card less than this; more is somebody's memory. */
#define LS_OTHERS_SHARE 0.1
/* What waits for a stream is the matter where it is a good part of what is missing. */
#define LS_PENDING_SHARE 0.25
/* The state of the device is worked out for the first ooms in all, and of each site: a loop that
 * fails a thousand times fails for one reason. */
#define LS_OOM_STATES 32
#define LS_OOM_STATES_SITE 4
/* A block's stream shows in what its thread launches next, if that is soon. */
#define LS_STREAM_CALLS 2000
/* Half of what a call had made was given back: that call is over. Inside of one call temporary
 * memory is given back, but never half of all. */
#define LS_STEP_FALL 0.5
/* New blocks of a quarter of what is left are work of its own, not the handling of the error. */
#define LS_RETRY_SHARE 0.25
/* An error that a program caught is no end of it where whole steps follow, as many as make a loop;
 * or, in a program without steps, launches, over a second or a good part of the run: more than a
 * handler does that saves what there is. */
#define LS_WENT_ON_STEPS 3
#define LS_WENT_ON_LAUNCHES 16
#define LS_WENT_ON_NS 1000000000
/* From nine tenths of the device on, memory that nobody uses decides what still fits. */
#define LS_NEARLY_FULL 0.9
/* A fifth of the memory at the peak is more than rounding and a warm cache take. */
#define LS_FRAGMENTED_SHARE 0.2
/* Less than a twentieth of the device free in pieces decides an oom by chance alone: the next
 * request would have failed all the same. */
#define LS_PIECES_SHARE 0.05
/* How many sites, and how many rows, a finding shows. */
#define LS_SITES_SHOWN 5
#define LS_ROWS_SHOWN 8

/* --- reserved-gap, stranded-remainder ------------------------------------------------------ */

/* The first steps try libraries' plans and fill the cache; from the third on they repeat. With
 * fewer than this many after them nothing is steady yet. */
#define LS_WARM_UP_STEPS 2
#define LS_STEADY_STEPS 4
/* A quarter of what is reserved is much, on a device of any size; but three of the allocator's
 * usual segments are not. */
#define LS_GAP_OF_RESERVED 0.25
#define LS_GAP_LEAST (64 << 20)

/* --- storage-held-by-views --------------------------------------------------------------- */

/* Of a storage that is used well its views cover most: q, k and v all of it, two of the three two
 * thirds. Half or less, and copies of what is used would take less than what is held. */
#define LS_VIEWS_COVER 0.5
/* A weight has two or three names where it is tied; four parts of one buffer are a packed one. */
#define LS_STORAGE_PARTS 4
/* losses[0] to losses[3]: the same kind of thing kept for the fourth time is not what the last and
 * the next iteration hand to each other. */
#define LS_KEPT_COUNT 4
/* Without steps: what was there for a quarter of the run is not what one function hands to the
 * next. */
#define LS_KEPT_AGE 0.25
/* Less than PyTorch's allocator takes from the driver at once is not worth a line. */
#define LS_CENSUS_BYTES (1 << 20)
/* What holds most is told, not every place in a model of hundreds. */
#define LS_CENSUS_FINDINGS 5
/* Of what is only worth knowing, even fewer. */
#define LS_CENSUS_NOTES 2

/* --- untracked-growth -------------------------------------------------------------------- */

/* How full a device was is a figure of the whole device, rounded to pages: four rises in three
 * quarters of the time (as for a leak) need at least twice as many looks. */
#define LS_UNTRACKED_SAMPLES 8
/* The driver takes memory in pages of 2 MiB; half of one is no rise. */
#define LS_UNTRACKED_JUMP (1 << 20)
/* Eight pages: lazily loaded modules, one more plan. Less in a whole run is nobody's matter. */
#define LS_UNTRACKED_BYTES (16 << 20)
/* Where other processes cannot be told apart: twelve equal runs on a shared device differed by up
 * to 101 MiB. */
#define LS_UNTRACKED_SHARED_BYTES (128 << 20)

/* --- stray-context ----------------------------------------------------------------------- */

/* A context with all modules of a large framework takes up to 1 GiB; where it is twice that,
 * something works there that was not recorded. */
#define LS_CONTEXT_MOST (INT64_C(2) << 30)

/* --- linear-growth ----------------------------------------------------------------------- */

/* Four samples are three rises in a row: a warm-up (optimizer state, first shapes) has two. A
 * program that fills a device in a handful of steps has no more. */
#define LS_LINEAR_SAMPLES 4
/* A loop that was told by a pattern of calls and that the host has no part in may be the layers of
 * one forward pass; most models have fewer of one kind. */
#define LS_LINEAR_BARE_STEPS 32
/* Held by a line when it was given back, and then so many launches: the program went on without it,
 * so it was a phase (a forward pass, an epoch's results), not growth of the run. */
#define LS_LINEAR_AFTER 16
/* Memory that ran out within so many steps after the last sample was asked for by this loop. */
#define LS_LINEAR_OOM_STEPS 3
/* Full within so many times the steps until now: no long run will see its end. */
#define LS_LINEAR_SOON 10
/* Moments without a meaning are less sure: a rise must last for so many of them. */
#define LS_LINEAR_EVEN_SAMPLES 8
/* Of time outside of steps only what allocates is looked at: less is a checkpoint, not a loop. */
#define LS_LINEAR_GAP_SPANS 16
/* It rises in a third of the samples, or so often: a few jumps are sizes that come up for the first
 * time. */
#define LS_LINEAR_RISES 12
/* What each third of the rise must have of all of it; even growth has a third. The first may be
 * small, for growth that speeds up is worse; a cache that fills slows down, and its last third,
 * already with square-root growth, has less than a fifth. */
#define LS_LINEAR_FIRST 0.05
#define LS_LINEAR_SECOND 0.15
#define LS_LINEAR_LAST 0.2
/* Nor may it ever fall by a quarter of the rise: then it is a saw-tooth (delayed-release). */
#define LS_LINEAR_DROP 0.25
/* It must go on to the end, but for a seventh: a model that was loaded piece by piece is flat. */
#define LS_LINEAR_FLAT_END 0.15
/* Less than PyTorch's allocator takes from the driver for its smallest blocks is not told, however
 * evenly it grows: a list of losses takes years. */
#define LS_LINEAR_BYTES (1 << 20)
/* Lines that grow together: so many are one finding each; more are a whole graph that is kept. */
#define LS_LINEAR_SITES 3
/* A line with less of the growth than this is named with the others. */
#define LS_LINEAR_SITE_SHARE 0.1
/* A program that runs on for so many times its length is what a forecast is for; beyond, an end of
 * the run with a list of what was never freed (leak) says more. */
#define LS_FORECAST_RUNS 20
/* Of the later growth of a line, this much by one way of calls: the others have enough. */
#define LS_LINEAR_ONE_WAY 0.9
/* Held by growth when memory ran out: with less than this it was something else. */
#define LS_LINEAR_OOM_SHARE 0.2
/* Regions that are asked about whether anything was copied there later: enough to tell. */
#define LS_LINEAR_PROBES 8

/* --- delayed-release --------------------------------------------------------------------- */

/* The last and the next step's memory at once is peak-overlap; three are a delay. */
#define LS_DELAY_GENERATIONS 3
/* Steps' parts that differ by more are not the same thing kept several times. */
#define LS_DELAY_EQUAL 1.5
/* Fewer lifetimes are a few objects of set-up. */
#define LS_DELAY_COUNT 6
/* What waits must be a good part of the most that was ever live to be worth more than a note. */
#define LS_DELAY_PEAK_SHARE 0.2

/* Where the program itself gives it back it may want it so; it is worth a warning where it makes
 * half of the peak, and is more than anybody would spend on convenience. */
#define LS_DELAY_OWN_SHARE 0.5
#define LS_DELAY_OWN_BYTES (64 << 20)

/* In an interpreter that was stripped gc.collect() shows as frames without a name: five of 3.11
 * between its line and the tensor, and more for what is nested. A list or dict of tensors that is
 * cleared, deleted or replaced has one to three. */
#define LS_DELAY_UNNAMED 5

/* --- ratchet ----------------------------------------------------------------------------- */

/* The first two steps ask for everything once: in the first the gradients and the optimizer's
 * state come, in the second they lie beside a whole step. */
#define LS_RATCHET_WARM_STEPS 2
/* Steps with new maxima after those: two can be a long batch and an evaluation. */
#define LS_RATCHET_RECORDS 3
/* Of what the allocator's memory grew by, new maxima must explain this much: the pieces behind
 * them lie elsewhere and then need some more. */
#define LS_RATCHET_SHARE 0.7
/* What is live between steps may grow by this much of it: noise of sizes, not a leak. */
#define LS_RATCHET_LIVE 0.25

/* --- pool-miss --------------------------------------------------------------------------- */

/* Fewer requests are a model's weights, whose sizes differ, too. */
#define LS_POOL_CALLS 32
/* Of PyTorch's segments for large blocks, which serve many requests each. */
#define LS_POOL_SEGMENTS 16
/* Half of the bytes would have missed in a pool of exact sizes: a steady program repeats its few
 * sizes in every step. */
#define LS_POOL_MISSES 0.5
/* All that was ever asked for is at least twice what was there at once: else it just adds up. */
#define LS_POOL_TURNOVER 2
/* And so many times what rounded sizes would have taken. Rounding to powers of two itself can take
 * twice as much; twice that is worth a change. */
#define LS_POOL_FACTOR 4
/* A pool gives back the memory of more steps than this in one go; frees at a step's end are of one
 * or two. */
#define LS_POOL_FLUSH_STEPS 3
/* More requests than this in a step: what was taken for steps are not the program's iterations. */
#define LS_POOL_STEP_CALLS 64
/* Segments of this size are PyTorch's for small blocks: all alike. Its large blocks begin at half
 * of it. */
#define LS_POOL_SMALL (2 << 20)

/* --- peak-overlap ------------------------------------------------------------------------ */

/* The old value must be this much of what is live: else freeing it changes little. */
#define LS_OVERLAP_SHARE 0.2
/* So often the line did the same: once may be a program's last value beside its first one. */
#define LS_OVERLAP_TURNS 3
/* While both are there, at most these launches (one to make the new one, one to look at it), or
 * this much of a turn's: a buffer that is worked on meanwhile is double buffering. */
#define LS_OVERLAP_LAUNCHES 2
#define LS_OVERLAP_LAUNCH_SHARE 0.2
/* One allocation of more than half of the device, with nine tenths of all that is live: a pool that
 * took the device at its start. TensorFlow takes more than nine tenths, JAX three quarters. */
#define LS_ONE_POOL_DEVICE 0.5
#define LS_ONE_POOL_LIVE 0.9

/* --- unused-allocation, early-allocation, late-free --------------------------------------- */

/* A thirty-second of PyTorch's smallest segment: smaller blocks make no peak, and there are
 * millions. */
#define LS_IDLE_BLOCK (64 << 10)
/* Less than PyTorch's allocator takes from the driver at once is not worth a line. */
#define LS_IDLE_BYTES (1 << 20)
/* So many addresses are told of a launch at most, and not that there were more; of kernels over
 * lists of tensors many more are, and that some are left out. */
#define LS_USES_ARGUMENTS 8
/* Up to 8,192 addresses that the host brings to the device: a table of rows, of matrices, a
 * structure with some. What is larger, or no multiple of an address, is data. */
#define LS_USES_TABLE (64 << 10)
/* From one step to the next a name keeps its value: a loop's last batch, its logits. Two whole
 * steps without a use are no such thing. */
#define LS_IDLE_STEPS 2
/* Outside of loops: a quarter of the run, with as many launches as a layer or two have. */
#define LS_IDLE_SHARE 0.25
#define LS_IDLE_LAUNCHES 16
/* Beside the peak: for half of the run, then it is worth a note (another process may want it). */
#define LS_IDLE_HELD 0.5
/* As for delayed-release: a fifth of the peak is a good part of it; but nobody changes a program
 * for less than three of PyTorch's usual segments. */
#define LS_IDLE_PEAK_SHARE 0.2
#define LS_IDLE_WARNING_BYTES (64 << 20)

/* --- copy-dominated ---------------------------------------------------------------------- */

/* Copies are what a program does where they are most of what the GPU runs; in the networks of field
 * reports with much too many they were 4 to 38 %. */
#define LS_COPY_DOMINATED 0.5
/* Fewer are a set-up phase: weights put into shape once, at the start of a short run. */
#define LS_COPY_DOMINATED_COUNT 64
/* A kernel this short is over before the next one can be launched: it costs its launch, 2 to 4 us,
 * whatever it moves. TensorRT's copies of slices took 3.5 us each. */
#define LS_LAUNCH_BOUND_NS 5000

/* --- conversion-kernels, layout-mismatch --------------------------------------------------- */

/* So few runs are a library that tries its algorithms. */
#define LS_CONVERSIONS 4
/* And where not every second call of a convolution has one, they are not made for the calls: a
 * filter is converted anew now and then. */
#define LS_CONVERSION_CALLS 2

/* --- gemm-loop, batch-degraded ------------------------------------------------------------- */

/* As often in a row is a loop: q, k and v are three, the gates of a cell four. */
#define LS_GEMM_RUN 8
/* A product that takes no longer than this keeps the GPU busy for less than two launches; without
 * times, at 20 TFLOP/s, which is what one of an A100 reaches in single precision. */
#define LS_GEMM_SMALL_NS 10000
#define LS_GEMM_SMALL_FLOPS 2e8
/* Among a loop's products at most so many copies each: what puts results into a list or a slice. */
#define LS_GEMM_COPIES 2
/* Kernels for each matrix of a batch: one each is a loop inside of the library, and a fifth of them
 * is no chance (two kernels, split along k, for a batch of eight). */
#define LS_BATCH_KERNELS 0.5

/* --- cudnn-bypassed ------------------------------------------------------------------------ */

/* A product takes the columns within so many calls of its thread: their launches, and what sizes
 * are asked for between. */
#define LS_COLUMNS_CALLS 64

/* --- kernel-choice ------------------------------------------------------------------------- */

/* The same layer at a neighbouring size is never slower per operation than this by its size alone:
 * the public case was 60 times slower, filling a device with a tenth of the work costs a factor of
 * about 5. */
#define LS_KERNEL_CHOICE_FACTOR 8.0
/* Less work than this does not fill a device: 0.1 ms at 10 TFLOP/s. */
#define LS_KERNEL_CHOICE_FLOPS 1e9
/* Neighbours: work within this factor of each other. */
#define LS_KERNEL_CHOICE_NEAR 8.0

/* --- misaligned ---------------------------------------------------------------------------- */

/* Tensor Cores are fed in pieces of 16 bytes: 8 elements of 16 bits, 16 of 8 bits (NVIDIA's Deep
 * Learning Performance Guide, "Tensor Core Requirements"). */
#define LS_ALIGN_BYTES 16
/* What padding saves of such a product's time. The guide's figures for k off 8 with cuBLAS 11 are
 * between a fifth and two thirds, the public case of a vocabulary of 50,257 padded to 50,304 was a
 * quarter of a whole step. */
#define LS_MISALIGNED_GAIN 0.3

#endif
