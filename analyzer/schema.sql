-- schema.sql - contract 2: the trace, one SQLite file. Written by `layoutspy collect`, read by
-- everybody else. Readable by SQLite 3.26: no STRICT, no generated columns, no ->, JSON as text.
--
-- Sizes are in bytes. *_ns are ns since the recording's start (meta 'start_real_ns' has the wall
-- clock, ns since 1970). Addresses are integers (print with printf('0x%x', address)).
-- Tables hold facts as they were recorded, enums as integers; the views below them are the public
-- face: their names and columns do not change, more columns may come.

PRAGMA application_id = 0x4c537079; -- "LSpy": what `file` and readers tell a trace by
PRAGMA user_version = 4; -- the schema's version: readers refuse a newer one

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

-- Decoders of the views: CASE, not joins.
-- kind of memory (allocation.kind): 1 device 2 async 3 managed 4 pinned 5 registered 6 vmm
--   7 array 8 ipc 9 graph
-- side of a copy (src_kind, dst_kind): 0 unknown 1 pageable 2 pinned 3 device 4 managed 5 array
-- direction: 0 unknown 1 H2D 2 D2H 3 D2D 4 H2H 5 P2P

CREATE VIEW all_allocation AS SELECT
    start_ns, end_ns,
    CASE kind WHEN 1 THEN 'device' WHEN 2 THEN 'async' WHEN 3 THEN 'managed' WHEN 4 THEN 'pinned'
        WHEN 5 THEN 'registered' WHEN 6 THEN 'vmm' WHEN 7 THEN 'array' WHEN 8 THEN 'ipc'
        WHEN 9 THEN 'graph' ELSE 'unknown' END AS kind,
    device, address, size,
    (SELECT name FROM api WHERE api.id = allocation.api) AS api,
    (SELECT name FROM api WHERE api.id = allocation.free_api) AS free_api,
    COALESCE((SELECT site FROM stack_site WHERE stack_site.id = allocation.stack), 'site unknown') AS site,
    CASE WHEN free_api IS NOT NULL THEN COALESCE((SELECT site FROM stack_site WHERE
        stack_site.id = allocation.free_stack), 'site unknown') END AS free_site,
    stream, stack, free_stack, start_call, end_call, id,
    (SELECT operator FROM stack_site WHERE stack_site.id = allocation.stack) AS operator
    FROM allocation;

CREATE VIEW live_allocation AS SELECT * FROM all_allocation WHERE end_ns IS NULL;

CREATE VIEW all_copy AS SELECT
    start_ns,
    CASE direction WHEN 1 THEN 'H2D' WHEN 2 THEN 'D2H' WHEN 3 THEN 'D2D' WHEN 4 THEN 'H2H'
        WHEN 5 THEN 'P2P' ELSE 'unknown' END AS direction,
    CASE src_kind WHEN 1 THEN 'pageable' WHEN 2 THEN 'pinned' WHEN 3 THEN 'device'
        WHEN 4 THEN 'managed' WHEN 5 THEN 'array' ELSE 'unknown' END AS src_kind,
    CASE dst_kind WHEN 1 THEN 'pageable' WHEN 2 THEN 'pinned' WHEN 3 THEN 'device'
        WHEN 4 THEN 'managed' WHEN 5 THEN 'array' ELSE 'unknown' END AS dst_kind,
    bytes,
    (SELECT name FROM api WHERE api.id = copy.api) AS api,
    is_async, stream, blocked_ns, gpu_ns,
    COALESCE((SELECT site FROM stack_site WHERE stack_site.id = copy.stack), 'site unknown') AS site,
    thread, status, dst, src, device, stack, id AS call_id,
    (SELECT operator FROM stack_site WHERE stack_site.id = copy.stack) AS operator
    FROM copy;

CREATE VIEW block_lifetime AS SELECT start_ns, end_ns, device, address, size, segment,
    COALESCE((SELECT site FROM stack_site WHERE stack_site.id = block.stack), 'site unknown') AS site,
    CASE WHEN end_call IS NOT NULL THEN COALESCE((SELECT site FROM stack_site WHERE
        stack_site.id = block.free_stack), 'site unknown') END AS free_site,
    free_ns, waited, CASE WHEN waited > 0 THEN free_ns END AS pending,
    stack, free_stack, id AS start_call, end_call, thread, id
    FROM block;

-- Memory that PyTorch's allocator holds. native: by cudaMalloc; expandable: one row per mapping, all
-- mappings of one `reservation` are one growing segment, which may have holes.
CREATE VIEW segment AS SELECT start_ns, end_ns, device, address, size,
    CASE kind WHEN 6 THEN 'expandable' ELSE 'native' END AS kind,
    CASE kind WHEN 6 THEN (SELECT r.address FROM vmm_range AS r WHERE r.kind = 1 AND
        r.start_ns <= a.start_ns AND (r.end_ns IS NULL OR r.end_ns > a.start_ns) AND
        a.address >= r.address AND a.address < r.address + r.size) ELSE a.address END AS reservation,
    COALESCE((SELECT site FROM stack_site WHERE stack_site.id = a.stack), 'site unknown') AS site,
    CASE WHEN free_api IS NOT NULL THEN COALESCE((SELECT site FROM stack_site WHERE
        stack_site.id = a.free_stack), 'site unknown') END AS free_site,
    stack, free_stack, start_call, end_call, id
    FROM allocation AS a WHERE holder = 3;

-- What a framework's allocator holds and nobody uses.
CREATE VIEW reserved_gap AS SELECT ts_ns, device, allocated, reserved, reserved - allocated AS gap,
    id AS call_id
    FROM memory WHERE reserved IS NOT NULL;

-- What a full device was full of. unknown: what is in use and nobody of these; above 0 it is memory of
-- libraries, modules, the driver, or of other processes where NVML does not tell of them.
CREATE VIEW device_memory AS SELECT ts_ns, device, used, tracked, context, other_processes,
    MAX(used - tracked - context - COALESCE(other_processes, 0), 0) AS unknown,
    total, own_process, uncertain, source, id
    FROM device_use WHERE tracked NOT NULL;

-- recovered: 1, a retry succeeded (a stall); 0, the program got the error.
CREATE VIEW oom_event AS SELECT ts_ns, device, requested, allocated, reserved, device_free, recovered,
    COALESCE((SELECT site FROM stack_site WHERE stack_site.id = oom.stack), 'site unknown') AS site,
    device_total, pending, cached, largest_hole, asked, attempts, flushed_calls, flushed_bytes,
    flush_ns, waited_ns, owner, CASE source WHEN 1 THEN 'allocator' ELSE 'driver' END AS source, stack,
    thread, id AS call_id
    FROM oom;

CREATE VIEW pageable_copy AS SELECT * FROM all_copy WHERE call_id IN
    (SELECT id FROM copy WHERE status = 0 AND bytes > 0 AND (direction = 1 AND src_kind = 1 OR direction = 2 AND dst_kind = 1));

CREATE VIEW lost_event AS SELECT reason, SUM(count) AS count FROM lost GROUP BY reason;

CREATE VIEW top_site AS SELECT site,
    SUM(CASE WHEN end_ns IS NULL THEN size ELSE 0 END) AS bytes_live,
    SUM(size) AS bytes_total, COUNT(*) AS calls
    FROM all_allocation GROUP BY site ORDER BY bytes_live DESC, bytes_total DESC;

-- Every call with its names; field values stay in f0.. (see api.fields).
CREATE VIEW api_call AS SELECT call.id AS id, start_ns, duration_ns,
    (SELECT tid FROM thread WHERE thread.id = call.thread) AS tid,
    (SELECT name FROM api WHERE api.id = call.api) AS api,
    (SELECT class FROM api WHERE api.id = call.api) AS class,
    status, flags, device, stack,
    COALESCE((SELECT site FROM stack_site WHERE stack_site.id = call.stack), 'site unknown') AS site,
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11,
    (SELECT operator FROM stack_site WHERE stack_site.id = call.stack) AS operator,
    CASE WHEN flags & 8 THEN 'cupti' ELSE 'hook' END AS seen_by, correlation, context
    FROM call;

-- Calls by which NVIDIA's libraries work. stream: the call's, or the one that its handle was told
-- last; NULL: it was told none. gpu_ns: NULL, not known yet. nested: 1 made by another recorded call
-- (cuBLAS works by cublasLtMatmul): sums leave it out.
CREATE VIEW library_call AS SELECT call.id AS id, start_ns, api.library AS library, api.name AS api, duration_ns,
    NULL AS gpu_ns,
    CASE WHEN api.fields LIKE '%"stream"%' THEN f1 ELSE
        (SELECT h.stream FROM library_handle AS h WHERE h.handle = call.f0 AND h.id < call.id ORDER BY h.id DESC LIMIT 1)
        END AS stream,
    COALESCE((SELECT site FROM stack_site WHERE stack_site.id = call.stack), 'site unknown') AS site, status,
    (SELECT operator FROM stack_site WHERE stack_site.id = call.stack) AS operator,
    flags & 1 AS nested, device, stack, f0 AS handle
    FROM api JOIN call ON call.api = api.id WHERE api.class = 'library_call';

-- What the GPU ran. queued_ns: from the return of the launch to the start; below 0 where it started
-- before that. under_call: the library's function that it was launched in. site, operator: of the
-- launch, or else of that call. graph, node: CUPTI's numbers, NULL where it was no part of a graph.
-- status: matched, graph, unmatched, invalid (no times), no call.
CREATE VIEW kernel_run AS SELECT start_ns, end_ns, end_ns - start_ns AS duration_ns,
    (SELECT name FROM kernel WHERE kernel.id = w.v0) AS name,
    (SELECT demangled FROM kernel WHERE kernel.id = w.v0) AS demangled,
    (SELECT short FROM kernel WHERE kernel.id = w.v0) AS short,
    (v1 & 4294967295) || ',' || (v1 >> 32 & 65535) || ',' || (v1 >> 48 & 65535) AS grid,
    (v2 & 4294967295) || ',' || (v2 >> 32 & 65535) || ',' || (v2 >> 48 & 65535) AS block,
    v3 AS shared_bytes, device, stream, correlation, call AS call_id,
    (SELECT start_ns FROM call WHERE call.id = w.call) AS launch_ns,
    start_ns - (SELECT start_ns + duration_ns FROM call WHERE call.id = w.call) AS queued_ns,
    (SELECT name FROM api WHERE api.id = (SELECT api FROM call WHERE call.id = w.under)) AS under_call,
    COALESCE((SELECT operator FROM stack_site WHERE stack_site.id = (SELECT stack FROM call WHERE call.id = w.call)),
        (SELECT operator FROM stack_site WHERE stack_site.id = (SELECT stack FROM call WHERE call.id = w.under))) AS operator,
    COALESCE((SELECT site FROM stack_site WHERE stack_site.id = (SELECT stack FROM call WHERE call.id = w.call)),
        (SELECT site FROM stack_site WHERE stack_site.id = (SELECT stack FROM call WHERE call.id = w.under)),
        'site unknown') AS site,
    graph, node,
    CASE status WHEN 1 THEN 'matched' WHEN 2 THEN 'graph' WHEN 3 THEN 'unmatched' WHEN 4 THEN 'invalid'
        ELSE 'no call' END AS status,
    under AS under_id, context, v0 AS kernel, id
    FROM gpu_work AS w WHERE kind = 1;

-- Time of all runs of each kernel, those without a row of their own too; the most expensive first.
-- share: of all the time of kernels, copies and memsets.
CREATE VIEW gpu_time AS SELECT name, demangled, short, SUM(count) AS count, SUM(total_ns) AS total_ns,
    MIN(min_ns) AS min_ns, MAX(max_ns) AS max_ns,
    SUM(total_ns) * 1.0 / (SELECT NULLIF(SUM(total_ns), 0) FROM gpu_count WHERE kind IN ('kernel', 'copy', 'memset')) AS share,
    SUM(untimed) AS untimed
    FROM kernel_total LEFT JOIN kernel ON kernel.id = kernel_total.kernel
    GROUP BY COALESCE(name, kernel_total.kernel) ORDER BY total_ns DESC;

-- When CUPTI did not record for us: calls that began then have no GPU times. end_ns NULL: to the end.
CREATE VIEW cupti_gap AS
    SELECT s.ts_ns AS start_ns,
        (SELECT n.ts_ns FROM gpu_state AS n WHERE (n.ts_ns, n.id) > (s.ts_ns, s.id) ORDER BY n.ts_ns, n.id LIMIT 1) AS end_ns,
        s.detail AS reason FROM gpu_state AS s WHERE s.state = 2
    UNION ALL
    SELECT call.start_ns, first.ts_ns, 'CUPTI was not on yet'
        FROM (SELECT * FROM gpu_state ORDER BY ts_ns, id LIMIT 1) AS first JOIN call ON call.id = 1
        WHERE first.state = 1 AND first.ts_ns > call.start_ns;

-- Copies as the GPU made them; all_copy has the calls. direction and kinds: CUPTI's word.
CREATE VIEW gpu_copy AS SELECT start_ns, end_ns, end_ns - start_ns AS duration_ns,
    CASE WHEN v1 IN (1, 3) THEN 'H2D' WHEN v1 IN (2, 4) THEN 'D2H' WHEN v1 BETWEEN 5 AND 8 THEN 'D2D'
        WHEN v1 = 9 THEN 'H2H' WHEN v1 = 10 THEN 'P2P' ELSE 'unknown' END AS direction,
    CASE kinds & 15 WHEN 1 THEN 'pageable' WHEN 2 THEN 'pinned' WHEN 3 THEN 'device' WHEN 4 THEN 'array'
        WHEN 5 THEN 'managed' WHEN 6 THEN 'device' WHEN 7 THEN 'managed' ELSE 'unknown' END AS src_kind,
    CASE kinds >> 4 WHEN 1 THEN 'pageable' WHEN 2 THEN 'pinned' WHEN 3 THEN 'device' WHEN 4 THEN 'array'
        WHEN 5 THEN 'managed' WHEN 6 THEN 'device' WHEN 7 THEN 'managed' ELSE 'unknown' END AS dst_kind,
    v0 AS bytes, flags & 1 AS is_async, device, stream, correlation, call AS call_id,
    CASE WHEN flags & 2 THEN v2 END AS src_device, CASE WHEN flags & 2 THEN v3 END AS dst_device,
    (SELECT name FROM api WHERE api.id = (SELECT api FROM call WHERE call.id = w.call)) AS api,
    (SELECT name FROM api WHERE api.id = (SELECT api FROM call WHERE call.id = w.under)) AS under_call,
    graph, node,
    CASE status WHEN 1 THEN 'matched' WHEN 2 THEN 'graph' WHEN 3 THEN 'unmatched' WHEN 4 THEN 'invalid'
        ELSE 'no call' END AS status, context, id
    FROM gpu_work AS w WHERE kind = 2;

CREATE VIEW gpu_set AS SELECT start_ns, end_ns, end_ns - start_ns AS duration_ns, v0 AS bytes, v1 AS value,
    CASE kinds & 15 WHEN 1 THEN 'pageable' WHEN 2 THEN 'pinned' WHEN 3 THEN 'device' WHEN 4 THEN 'array'
        WHEN 5 THEN 'managed' WHEN 6 THEN 'device' WHEN 7 THEN 'managed' ELSE 'unknown' END AS memory,
    flags & 1 AS is_async, device, stream, correlation, call AS call_id,
    (SELECT name FROM api WHERE api.id = (SELECT api FROM call WHERE call.id = w.call)) AS api,
    graph, node,
    CASE status WHEN 1 THEN 'matched' WHEN 2 THEN 'graph' WHEN 3 THEN 'unmatched' WHEN 4 THEN 'invalid'
        ELSE 'no call' END AS status, context, id
    FROM gpu_work AS w WHERE kind = 3;

-- Memory, pools, waits and CUPTI's own overhead, as CUPTI tells of them. ts_ns: when.
CREATE VIEW gpu_memory AS SELECT start_ns AS ts_ns,
    CASE v0 WHEN 1 THEN 'allocation' WHEN 2 THEN 'release' ELSE 'unknown' END AS operation,
    v1 AS address, v2 AS bytes, v3 AS pool,
    CASE kinds & 15 WHEN 1 THEN 'pageable' WHEN 2 THEN 'pinned' WHEN 3 THEN 'device' WHEN 4 THEN 'array'
        WHEN 5 THEN 'managed' WHEN 6 THEN 'device' WHEN 7 THEN 'managed' ELSE 'unknown' END AS memory,
    flags & 1 AS is_async, device, stream, correlation, call AS call_id, context, id
    FROM gpu_work WHERE kind = 4;

CREATE VIEW gpu_pool AS SELECT start_ns AS ts_ns,
    CASE v0 WHEN 1 THEN 'creation' WHEN 2 THEN 'destruction' WHEN 3 THEN 'trimming' ELSE 'unknown' END AS operation,
    v1 AS pool, v2 AS size, v3 AS keep, device, correlation, call AS call_id, context, id
    FROM gpu_work WHERE kind = 5;

-- waited_for: event | stream waits for event | stream | device.
CREATE VIEW gpu_wait AS SELECT start_ns, end_ns, end_ns - start_ns AS duration_ns,
    CASE v0 WHEN 1 THEN 'event' WHEN 2 THEN 'stream waits for event' WHEN 3 THEN 'stream' WHEN 4 THEN 'device'
        ELSE 'unknown' END AS waited_for,
    v1 AS event, v2 AS result, device, stream, correlation, call AS call_id,
    (SELECT name FROM api WHERE api.id = (SELECT api FROM call WHERE call.id = w.call)) AS api, context, id
    FROM gpu_work AS w WHERE kind = 6;

CREATE VIEW gpu_overhead AS SELECT start_ns, end_ns, end_ns - start_ns AS duration_ns,
    CASE v0 WHEN 1 THEN 'driver compiler' WHEN 65536 THEN 'buffer flush' WHEN 131072 THEN 'instrumentation'
        WHEN 196608 THEN 'resource' WHEN 262144 THEN 'module loading' WHEN 327680 THEN 'lazy function loading'
        WHEN 393216 THEN 'command buffer full' WHEN 458752 THEN 'activity buffer request'
        WHEN 524288 THEN 'UVM activity start' ELSE 'unknown' END AS overhead,
    v1 AS object_kind, v2 AS thread, correlation, call AS call_id, id
    FROM gpu_work WHERE kind = 7;

CREATE VIEW graph_run AS SELECT start_ns, end_ns, end_ns - start_ns AS duration_ns, graph, device, stream,
    correlation, call AS call_id, (SELECT start_ns FROM call WHERE call.id = w.call) AS launch_ns,
    COALESCE((SELECT site FROM stack_site WHERE stack_site.id = (SELECT stack FROM call WHERE call.id = w.call)),
        'site unknown') AS site, context, id
    FROM gpu_work AS w WHERE kind = 8;

-- A stack, outermost frame last: SELECT * FROM stack_frame WHERE stack_id = N ORDER BY depth.
-- Functions that were inlined are frames of their own, as in the source. kind: native; python; forward:
-- of the Python stack on which the forward operation was called whose backward was running.
-- truncated: 1, the stack had more frames of this kind, outside of those that are here.
CREATE VIEW stack_frame AS
    WITH RECURSIVE walk(stack_id, depth, node, frame) AS (
        SELECT stack_site.id, 0, stack.id, stack.frame
            FROM stack_site JOIN stack ON stack.id = stack_site.stack
        UNION ALL
        SELECT walk.stack_id, walk.depth + 1,
            CASE WHEN inner.inlined_into IS NULL THEN caller.id ELSE walk.node END,
            CASE WHEN inner.inlined_into IS NULL THEN caller.frame ELSE inner.inlined_into END
            FROM walk JOIN frame AS inner ON inner.id = walk.frame
                JOIN stack AS callee ON callee.id = walk.node
                LEFT JOIN stack AS caller ON caller.id = callee.parent
            WHERE inner.inlined_into IS NOT NULL OR caller.id IS NOT NULL)
    SELECT walk.stack_id AS stack_id, walk.depth AS depth, module.path AS module, frame.offset AS offset,
        COALESCE(frame.function, '??') AS function, frame.file AS file, frame.line AS line,
        CASE frame.kind WHEN 1 THEN 'python' WHEN 2 THEN 'forward' ELSE 'native' END AS kind,
        (SELECT truncated FROM stack_site WHERE stack_site.id = walk.stack_id) >> frame.kind & 1
            AS truncated
    FROM walk JOIN frame ON frame.id = walk.frame LEFT JOIN module ON module.id = frame.module;
