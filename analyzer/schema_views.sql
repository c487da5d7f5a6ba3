-- schema_views.sql - the public face of a trace: its views. Follows schema.sql, which has the tables
-- and says what units and names mean. Names and columns here do not change; more columns may come.

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
    (SELECT operator FROM stack_site WHERE stack_site.id = copy.stack) AS operator,
    (SELECT width FROM copy_rows AS r WHERE r.id = copy.id) AS row_bytes,
    (SELECT dst_pitch FROM copy_rows AS r WHERE r.id = copy.id) AS dst_pitch,
    (SELECT src_pitch FROM copy_rows AS r WHERE r.id = copy.id) AS src_pitch
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
