-- schema.sql - contract 2: the trace, one SQLite file. Written by `layoutspy collect`, read by
-- everybody else. Readable by SQLite 3.26: no STRICT, no generated columns, no ->, JSON as text.
--
-- Sizes are in bytes. *_ns are ns since the recording's start (meta 'start_real_ns' has the wall
-- clock, ns since 1970). Addresses are integers (print with printf('0x%x', address)).
-- Tables hold facts as they were recorded, enums as integers; the views (schema_views.sql and
-- schema_layout.sql, which follow this file) are the public face: their names and columns do not change, more may come.

PRAGMA application_id = 0x4c537079; -- "LSpy": what `file` and readers tell a trace by
PRAGMA user_version = 5; -- the schema's version: readers refuse a newer one

-- Key and value about the recording. Keys: schema, layoutspy_version, start_real_ns, end_ns (of
-- the last record), ended (exit | killed: by a
-- signal, as `run` saw it | exec: the process runs another program | unknown: without its exit
-- handlers), exit_status, signal, clock (tsc | monotonic), clock_error_ns,
-- pid, exe, cmdline, cwd, host, boot_id, spool, and others that the target wrote.
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;

-- What the recording could see. state: on | off | partial | unavailable.
CREATE TABLE coverage(layer TEXT, state TEXT, detail TEXT, PRIMARY KEY(layer, state, detail)) WITHOUT ROWID;

-- Events that are missing, and why (include/layoutspy/lost.def).
CREATE TABLE lost(reason TEXT, count INTEGER, start_ns INTEGER, end_ns INTEGER);

-- The one table of intercepted functions, as the recording knew it. fields: JSON array of
-- {"name": ..., "type": ...}; the n-th field of a call is in column f<n> of `call`, from f0.
CREATE TABLE api(id INTEGER PRIMARY KEY, name TEXT, library TEXT, class TEXT, fields TEXT);

CREATE TABLE thread(id INTEGER PRIMARY KEY, tid INTEGER, name TEXT); -- id: number in the recording

-- Files that recorded stacks lie in. since: the module generation (number of unloads) that it was
-- found in; an address belongs to the latest one that is not later than its stack's generation.
CREATE TABLE module(id INTEGER PRIMARY KEY, path TEXT, build_id TEXT, bias INTEGER,
    start INTEGER, end INTEGER, since INTEGER);

-- One resolved frame. kind 0, native: several rows of one address where functions were inlined:
-- `stack` names the innermost, whose `inlined_into` is the frame it was inlined into, and so on.
-- offset: of the return address, as in the ELF file; function NULL: not known. module NULL: offset is
-- the bare address. kind 1, Python: function and file are co_name and co_filename, module and offset
-- NULL; line NULL: not known. kind 2: the same, of a forward operation whose backward was running.
CREATE TABLE frame(id INTEGER PRIMARY KEY, module INTEGER, offset INTEGER, function TEXT,
    function_offset INTEGER, file TEXT, line INTEGER, inlined_into INTEGER,
    kind INTEGER);

-- Stacks as a tree: a stack is named by its innermost node, parent is the caller, NULL at the top.
-- Where Python called, the native frames end with the first one of the interpreter, and Python's
-- frames are outside of it. In a thread that ran a backward pass for PyTorch nobody's Python called:
-- there the frames on which the forward operation was called are outside, where that is known.
CREATE TABLE stack(id INTEGER PRIMARY KEY, parent INTEGER, frame INTEGER);

-- The stack numbers of the spool: the node, and once it is symbolised the site text, and the
-- outermost and the innermost operator of a framework among the native frames ('aten::contiguous',
-- 'aten::copy_'; NVIDIA's library function where there is none), NULL where neither is. operator may
-- also be 'backward of mm': work of a backward pass between its operators. truncated: there were
-- more frames than the recording keeps; a sum of 1 (native), 2 (Python), 4 (forward operation).
CREATE TABLE stack_site(id INTEGER PRIMARY KEY, stack INTEGER, site TEXT, operator TEXT,
    inner_operator TEXT, truncated INTEGER);

-- Names of kernels, mangled and not; short: without namespaces, arguments and those of templates.
CREATE TABLE kernel(id INTEGER PRIMARY KEY, name TEXT, demangled TEXT, short TEXT);

-- Every recorded call, once. id: order of completion as merged. flags: a sum of 1 (made inside
-- another recorded call), 2 (while a stream was capturing), 8 (CUPTI alone saw it: it passed beside
-- the hooks). stack: stack_site.id or NULL. correlation, context: CUPTI's number of the call, by which
-- the GPU's work names it, and of the context that was current then; NULL: CUPTI gave none.
CREATE TABLE call(id INTEGER PRIMARY KEY, start_ns INTEGER, duration_ns INTEGER, thread INTEGER,
    api INTEGER, status INTEGER, flags INTEGER, device INTEGER, stack INTEGER,
    correlation INTEGER, context INTEGER,
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11);

-- One lifetime of memory. kind: enum in the views. end_ns NULL: live at the end. start_call and
-- end_call: call.id. end_ns is the start of the call that freed it.
CREATE TABLE allocation(id INTEGER PRIMARY KEY, start_ns INTEGER, end_ns INTEGER, kind INTEGER,
    device INTEGER, address INTEGER, size INTEGER, api INTEGER, free_api INTEGER,
    stack INTEGER, free_stack INTEGER, stream INTEGER, start_call INTEGER, end_call INTEGER,
    end_reason INTEGER, -- 0 freed, 1 device reset, 2 its address was handed out again (free not seen)
    holder INTEGER); -- 0 unknown (no stack), 1 whoever called, 2 PyTorch's libc10_cuda called,
                     -- 3 a segment of PyTorch's allocator: it reported a block in it

-- Addresses and physical memory of the driver. kind: 1 a range of reserved addresses, 2 physical
-- memory, known by its handle (in address). What is mapped where is in `allocation` (kind vmm).
CREATE TABLE vmm_range(id INTEGER PRIMARY KEY, start_ns INTEGER, end_ns INTEGER, kind INTEGER,
    device INTEGER, address INTEGER, size INTEGER, stack INTEGER, end_call INTEGER); -- id = call.id

-- One lifetime of a block that a framework's allocator handed out. id: the call that reported it;
-- end_ns, end_call: when it was given back. free_ns: when it became free, later than end_ns where
-- work of other streams still used it; NULL while it has not. waited: for so many other streams; NULL
-- where that is not known (given back during a capture): it became free at free_ns or before. segment: address of the memory (of the reserved range) that holds it.
CREATE TABLE block(id INTEGER PRIMARY KEY, start_ns INTEGER, end_ns INTEGER, free_ns INTEGER,
    device INTEGER, address INTEGER, size INTEGER, segment INTEGER, stack INTEGER, free_stack INTEGER,
    end_call INTEGER, thread INTEGER, end_reason INTEGER, waited INTEGER);

-- What a block that was given back still waits for: an event on another stream. id: the call that
-- recorded the event; done_ns NULL: not known to have passed.
CREATE TABLE block_wait(id INTEGER PRIMARY KEY, block INTEGER, event INTEGER, stream INTEGER,
    done_ns INTEGER);

-- A device's memory over time, one row per call that told something of it: a framework's allocator
-- (allocated, reserved), cudaMemGetInfo (device_free,
-- device_total), cudaGetDeviceProperties (device_total). id = call.id
CREATE TABLE memory(id INTEGER PRIMARY KEY, ts_ns INTEGER, device INTEGER, allocated INTEGER,
    reserved INTEGER, device_free INTEGER, device_total INTEGER);

-- How full a device was, one row per device and look: by NVML, which the collector asks about once a
-- second (source 'nvml'), or by the program's own cudaMemGetInfo ('program'; put when the recording is
-- finished). own_process: of this process, other_processes: of all others together, as NVML told; NULL:
-- it did not. Worked out when the recording is finished, else NULL: tracked: what the program was seen
-- to hold on the device then (by cudaMalloc and its like, arrays, graphs, of pools what was handed out,
-- of the driver's virtual memory what is physical; no managed memory); context: what NVML had for the
-- process at its first sample beyond that; where it tells of no processes, all that was in use beyond
-- that at the source's first sample, others' too; uncertain: memory that may be on the device or not:
-- managed, what pools may keep, and the rest of last pages.
CREATE TABLE device_use(id INTEGER PRIMARY KEY, ts_ns INTEGER, device INTEGER, used INTEGER,
    total INTEGER, own_process INTEGER, other_processes INTEGER, source TEXT, tracked INTEGER,
    context INTEGER, uncertain INTEGER);

-- Memory was asked for and there was none: a request that failed at least once, with all that the
-- same thread did about it. id: the call that told of it: the allocator's report (source 1), or the
-- first call of the runtime or the driver that failed (source 2; until the allocator's report, too).
-- ts_ns: of that call. requested: by whoever called the allocator; asked: by the allocator, of the
-- driver (rounded up; where it asks piece by piece, as far as it came), NULL: it did not ask.
-- recovered: 1, a retry succeeded: a stall, no error; 0: the program got the error, or does not have
-- the memory yet. attempts: calls that failed; 0: the allocator gave up without asking (a limit set
-- in the program). first_call, last_call: call.id of all that belongs to it, as oom_call lists.
-- flushed_*: what was given back to the driver from the first failure on (attempts 0: by that call
-- into the allocator), and the time in it; waited_ns: in waits for the device. owner: a library that
-- asked for itself (NCCL, cuBLAS: as in detect/owners.def), NULL: whoever the program is. allocated,
-- reserved, pending, cached: at ts_ns. allocated, reserved: of a framework's allocator; where there is
-- none (source 2) allocated is what `allocation` held on the device, and the others are NULL.
-- pending: given back, but still used by other streams; cached: reserved by the allocator and neither
-- allocated nor pending. device_free, device_total: as the program's own cudaMemGetInfo said between
-- the failure and the end, else NULL. largest_hole: the largest free piece of the allocator's memory
-- at ts_ns; NULL until the recording is finished, where there is no such allocator, and of all but
-- the first 64 of a device (fewer where it has millions of lifetimes).
CREATE TABLE oom(id INTEGER PRIMARY KEY, ts_ns INTEGER, device INTEGER, requested INTEGER,
    allocated INTEGER, reserved INTEGER, device_free INTEGER, device_total INTEGER, stack INTEGER,
    thread INTEGER, source INTEGER, asked INTEGER, recovered INTEGER, attempts INTEGER,
    first_call INTEGER, last_call INTEGER, flushed_calls INTEGER, flushed_bytes INTEGER,
    flush_ns INTEGER, waited_ns INTEGER, owner TEXT, pending INTEGER, cached INTEGER,
    largest_hole INTEGER);

-- What happened in an oom, in order. id: call.id; kind: 1 a request failed (bytes: of that call),
-- 2 memory was given back, 3 waited for the device (bytes NULL), 4 asked for free memory (bytes: that
-- were), 5 a request succeeded (all its pieces in one row), or the allocator found a block, 6 the
-- allocator's report.
CREATE TABLE oom_call(id INTEGER PRIMARY KEY, oom INTEGER, kind INTEGER, bytes INTEGER);

-- Moments worth looking at, of each device, and what each segment of a framework's allocator was then. kind: 1 the
-- most was allocated, 2 the most was reserved, 3 an oom (`oom` is its id; the first 64, as there), 4 the end.
-- reserved and largest_hole are NULL, and there is no kind 2, without a framework's allocator. segment_state:
-- live + pending + free = size; hole: the largest free piece; blocks: live ones; oldest: block.id of
-- the oldest live one. address: of the memory; of an expandable segment, of each piece that is mapped
-- in one. Made when the recording is finished.
CREATE TABLE moment(id INTEGER PRIMARY KEY, kind INTEGER, ts_ns INTEGER, device INTEGER, oom INTEGER,
    allocated INTEGER, pending INTEGER, reserved INTEGER, largest_hole INTEGER);
CREATE TABLE segment_state(moment INTEGER, address INTEGER, size INTEGER, live INTEGER,
    pending INTEGER, free INTEGER, hole INTEGER, blocks INTEGER, oldest INTEGER,
    PRIMARY KEY(moment, address)) WITHOUT ROWID;

-- Which Python objects held device memory. reason: 1 an oom (`oom` is its id), 2 asked for by
-- `layoutspy census`, 3 at exit. state: 1 it never ended, 2 complete, 3 cut short, 4 could not run;
-- detail says why. nodes: of autograd graphs.
CREATE TABLE census(id INTEGER PRIMARY KEY, ts_ns INTEGER, end_ns INTEGER, reason INTEGER,
    oom INTEGER, state INTEGER, objects INTEGER, tensors INTEGER, nodes INTEGER, detail TEXT);

-- Memory that tensors share. held_by_graph: bytes of other storages that only the autograd graph
-- behind this one's tensors keeps.
CREATE TABLE census_storage(census INTEGER, id INTEGER, device INTEGER, address INTEGER,
    bytes INTEGER, held_by_graph INTEGER, PRIMARY KEY(census, id)) WITHOUT ROWID;

-- A tensor in it. bytes: of its elements. dims and strides (in elements): JSON arrays. view: of
-- another tensor, or of a part of the storage. held: a sum of 1 (by a module's variable), 2 (by a
-- local variable of a running frame), 4 (by an exception and its traceback), 8 (saved by a node of an
-- autograd graph), 16 (by nothing but a reference cycle that waits for the garbage collector).
-- paths: that lead to it; census_path has the first ones, the shortest first.
CREATE TABLE census_tensor(census INTEGER, id INTEGER, storage INTEGER, object INTEGER, offset INTEGER,
    bytes INTEGER, dtype TEXT, class TEXT, dims TEXT, strides TEXT, contiguous INTEGER,
    requires_grad INTEGER, view INTEGER, held INTEGER, paths INTEGER,
    PRIMARY KEY(census, id)) WITHOUT ROWID;
CREATE TABLE census_path(census INTEGER, tensor INTEGER, path TEXT);

-- What a library's handle was told: the stream that it works on, the memory that it may use. id:
-- call.id; kind: 1 made, 2 destroyed, 3 a stream was set, 4 a workspace was set. Only what changed is
-- recorded. stream: the one that the handle had then, NULL: it was told none; address, size: of kind 4.
-- block: of a framework's allocator, that begins there; NULL: other memory, or none.
CREATE TABLE library_handle(id INTEGER PRIMARY KEY, ts_ns INTEGER, library TEXT, kind INTEGER,
    handle INTEGER, stream INTEGER, address INTEGER, size INTEGER, block INTEGER, stack INTEGER,
    device INTEGER);

-- Reports of a framework's allocator against what was recorded. *_breaks: reports after which the
-- sum of live blocks (of segments) was not what they said, *_worst: the largest difference in
-- bytes; after each the sums start anew. *_unseen: bytes that were there before the first report, or
-- could not be told of since. unattributed: waits of blocks that are not known. The others count what
-- the name of the allocator is told from.
CREATE TABLE block_audit(device INTEGER PRIMARY KEY, reports INTEGER, allocated_unseen INTEGER,
    allocated_breaks INTEGER, allocated_worst INTEGER, reserved_unseen INTEGER,
    reserved_breaks INTEGER, reserved_worst INTEGER, unattributed INTEGER, native INTEGER,
    expandable INTEGER, async INTEGER, uncached INTEGER, late_allocated INTEGER, late_reserved INTEGER);

-- One copy that succeeded or failed (status in call). id = call.id. gpu_ns: of all of the GPU's work
-- that it brought about; NULL: no times are known.
CREATE TABLE copy(id INTEGER PRIMARY KEY, start_ns INTEGER, direction INTEGER, src_kind INTEGER,
    dst_kind INTEGER, bytes INTEGER, api INTEGER, is_async INTEGER, stream INTEGER,
    blocked_ns INTEGER, gpu_ns INTEGER, stack INTEGER, thread INTEGER, status INTEGER,
    dst INTEGER, src INTEGER, device INTEGER);

-- Of copies in rows (2D, 3D, matrices and vectors of cuBLAS). width: bytes of a row. dst_pitch,
-- src_pitch: bytes from one row to the next; NULL: an array, or not told.
CREATE TABLE copy_rows(id INTEGER PRIMARY KEY, width INTEGER, dst_pitch INTEGER, src_pitch INTEGER);

-- What the GPU did, and what CUPTI says of memory and of waits. kind: 1 kernel, 2 copy, 3 memset, 4
-- memory, 5 pool, 6 wait, 7 overhead, 8 the whole of a graph's launch. status: 0 of no call, 1 matched
-- to `call` (call.id) by its correlation, 2 part of the launch of a graph: `call` launched that, 3
-- unmatched: its call is not here, 4 invalid: its times are not known. start_ns, end_ns: NULL of those.
-- under: call.id of the library's call (cuBLAS, cuDNN, NCCL) that `call` was made in, the outermost.
-- device, context, stream, correlation, graph, node: CUPTI's numbers. flags: 1 asynchronous, 2 between
-- two devices. kinds: memory of the source + 16 * of the destination (0 unknown 1 pageable 2 pinned 3
-- device 4 array 5 managed 6 device, static 7 managed, static). v0..v3: by kind, as the views name them:
-- kernel_run, gpu_copy, gpu_set, gpu_memory, gpu_pool, gpu_wait, gpu_overhead, graph_run.
-- Of kernels the first LAYOUTSPY_KERNEL_ROWS have rows; `kernel_total` counts all.
CREATE TABLE gpu_work(id INTEGER PRIMARY KEY, kind INTEGER, status INTEGER, start_ns INTEGER,
    end_ns INTEGER, device INTEGER, context INTEGER, stream INTEGER, correlation INTEGER,
    call INTEGER, under INTEGER, graph INTEGER, node INTEGER, flags INTEGER, kinds INTEGER,
    v0 INTEGER, v1 INTEGER, v2 INTEGER, v3 INTEGER);

-- All runs of kernels, whether they have a row or not. under: api.id of the library's function that
-- the launch was made in, 0: none. count: with times; untimed: without, in none of the times.
CREATE TABLE kernel_total(kernel INTEGER, device INTEGER, stream INTEGER, under INTEGER,
    count INTEGER, untimed INTEGER, total_ns INTEGER, min_ns INTEGER, max_ns INTEGER,
    PRIMARY KEY(kernel, device, stream, under)) WITHOUT ROWID;

-- All records of the GPU. kind and status as words; total_ns: of what has times.
CREATE TABLE gpu_count(kind TEXT, status TEXT, count INTEGER, total_ns INTEGER,
    PRIMARY KEY(kind, status)) WITHOUT ROWID;

-- CUPTI's clock beside ours: gpu_ns was at ts_ns, which was read within width_ns.
CREATE TABLE gpu_clock(gpu_ns INTEGER, ts_ns INTEGER, width_ns INTEGER);

-- From ts_ns on CUPTI recorded for us (state 1), or did not (2). detail: why.
CREATE TABLE gpu_state(id INTEGER PRIMARY KEY, ts_ns INTEGER, state INTEGER, detail TEXT);
CREATE INDEX gpu_state_ts ON gpu_state(ts_ns);

-- Records of the GPU whose call has not come yet, as in `gpu_work`; gone at the end. For the
-- collector alone.
CREATE TABLE raw_gpu(id INTEGER PRIMARY KEY, kind INTEGER, start_ns INTEGER, end_ns INTEGER,
    device INTEGER, context INTEGER, stream INTEGER, correlation INTEGER, graph INTEGER, node INTEGER,
    flags INTEGER, kinds INTEGER, v0 INTEGER, v1 INTEGER, v2 INTEGER, v3 INTEGER);

-- What the program itself said of its course. kind: 1 a step begins (layoutspy_step), 2 a range of
-- the thread begins and 3 the innermost ends (of its domain), 4 a range begins and 5 ends, in any
-- thread, value is its id, 6 an instant, 7 text is the name of the domain. ts_ns 0: or before.
CREATE TABLE mark(id INTEGER PRIMARY KEY, ts_ns INTEGER, thread INTEGER, kind INTEGER,
    value INTEGER, domain INTEGER, text TEXT);

-- Ranges of NVTX. thread and depth (0 the outermost of its domain) of nested ones; value: the id of
-- those that may end in another thread, which have no thread. domain: '' is the default one. end_ns
-- NULL: never ended.
CREATE TABLE phase(id INTEGER PRIMARY KEY, thread INTEGER, domain TEXT, start_ns INTEGER,
    end_ns INTEGER, depth INTEGER, name TEXT, value INTEGER);

-- Iterations of the program's loops, in order of time, and what happened in each, in all threads:
-- a call belongs to the step that it began in. source: marked (layoutspy_step) | optimizer |
-- pattern. loop: numbered from 1; thread: whose calls told it, NULL where marked. *_bytes of copies
-- by direction; launches of kernels and graphs; allocations and their bytes: from the runtime and
-- the driver; blocks: of a framework's allocator. peak_allocated: the most that it said to have
-- handed out, NULL where it said nothing; peak_memory: the most that `allocation` held on devices.
CREATE TABLE step(id INTEGER PRIMARY KEY, loop INTEGER, source TEXT, thread INTEGER,
    start_ns INTEGER, end_ns INTEGER, calls INTEGER, launches INTEGER, copies INTEGER,
    h2d_bytes INTEGER, d2h_bytes INTEGER, d2d_bytes INTEGER, other_bytes INTEGER,
    copy_blocked_ns INTEGER, allocations INTEGER, allocated_bytes INTEGER, blocks INTEGER,
    block_bytes INTEGER, peak_allocated INTEGER, peak_memory INTEGER);

CREATE TABLE finding(id INTEGER PRIMARY KEY, kind TEXT, severity TEXT, title TEXT, site TEXT,
    count INTEGER, bytes INTEGER, time_ns INTEGER, gain_ns INTEGER, gain_bytes INTEGER,
    evidence TEXT, advice TEXT);

-- Detectors that could not run, and why.
CREATE TABLE skipped(kind TEXT PRIMARY KEY, reason TEXT) WITHOUT ROWID;

-- How far each chunk of the spool is in these tables; same transaction as the rows.
CREATE TABLE ingest(slot INTEGER PRIMARY KEY, generation INTEGER, offset INTEGER);

-- Stacks whose modules may not be known yet: gone from here once they are in `stack`. addresses:
-- 8 bytes each, innermost first; modules: the generation that they belong to; python, forward:
-- raw_python.id or NULL; truncated: 1, there were more native frames.
CREATE TABLE raw_stack(id INTEGER PRIMARY KEY, modules INTEGER, addresses BLOB, python INTEGER,
    forward INTEGER, truncated INTEGER);

-- Python's code objects and stacks, by the numbers of the spool. frames: code and line of each, 4
-- bytes each, innermost first; truncated: 1, there were more. For the collector alone.
CREATE TABLE raw_code(id INTEGER PRIMARY KEY, name TEXT, file TEXT);
CREATE TABLE raw_python(id INTEGER PRIMARY KEY, frames BLOB, truncated INTEGER);
