-- schema.sql - contract 2: the trace, one SQLite file. Written by `layoutspy collect`, read by
-- everybody else. Readable by SQLite 3.26: no STRICT, no generated columns, no ->, JSON as text.
--
-- Sizes are in bytes. *_ns are ns since the recording's start (meta 'start_real_ns' has the wall
-- clock, ns since 1970). Addresses are integers (print with printf('0x%x', address)).
-- Tables hold facts as they were recorded, enums as integers; the views below them are the public
-- face: their names and columns do not change, more columns may come.

PRAGMA application_id = 0x4c537079; -- "LSpy": what `file` and readers tell a trace by
PRAGMA user_version = 1; -- the schema's version: readers refuse a newer one

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

-- One resolved frame; several rows of one address where functions were inlined: `stack` names the
-- innermost, whose `inlined_into` is the frame it was inlined into, and so on. offset: of the return
-- address, as in the ELF file; function NULL: not known. module NULL: offset is the bare address.
CREATE TABLE frame(id INTEGER PRIMARY KEY, module INTEGER, offset INTEGER, function TEXT,
    function_offset INTEGER, file TEXT, line INTEGER, inlined_into INTEGER);

-- Stacks as a tree: a stack is named by its innermost node, parent is the caller, NULL at the top.
CREATE TABLE stack(id INTEGER PRIMARY KEY, parent INTEGER, frame INTEGER);

-- The stack numbers of the spool: the node, and the site text once it is symbolised.
CREATE TABLE stack_site(id INTEGER PRIMARY KEY, stack INTEGER, site TEXT);

CREATE TABLE kernel(id INTEGER PRIMARY KEY, name TEXT, demangled TEXT);

-- Every recorded call, once. id: order of completion as merged. flags: 1 made inside another
-- recorded call, 2 while a stream was capturing. stack: stack_site.id or NULL.
CREATE TABLE call(id INTEGER PRIMARY KEY, start_ns INTEGER, duration_ns INTEGER, thread INTEGER,
    api INTEGER, status INTEGER, flags INTEGER, device INTEGER, stack INTEGER,
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11);

-- One lifetime of memory. kind: enum in the views. end_ns NULL: live at the end. start_call and
-- end_call: call.id. end_ns is the start of the call that freed it.
CREATE TABLE allocation(id INTEGER PRIMARY KEY, start_ns INTEGER, end_ns INTEGER, kind INTEGER,
    device INTEGER, address INTEGER, size INTEGER, api INTEGER, free_api INTEGER,
    stack INTEGER, free_stack INTEGER, stream INTEGER, start_call INTEGER, end_call INTEGER,
    end_reason INTEGER); -- 0 freed, 1 device reset, 2 its address was handed out again (free not seen)

-- One copy that succeeded or failed (status in call). id = call.id.
CREATE TABLE copy(id INTEGER PRIMARY KEY, start_ns INTEGER, direction INTEGER, src_kind INTEGER,
    dst_kind INTEGER, bytes INTEGER, api INTEGER, is_async INTEGER, stream INTEGER,
    blocked_ns INTEGER, gpu_ns INTEGER, stack INTEGER, thread INTEGER, status INTEGER,
    dst INTEGER, src INTEGER, device INTEGER);

CREATE TABLE finding(id INTEGER PRIMARY KEY, kind TEXT, severity TEXT, title TEXT, site TEXT,
    count INTEGER, bytes INTEGER, time_ns INTEGER, gain_ns INTEGER, gain_bytes INTEGER,
    evidence TEXT, advice TEXT);

-- Detectors that could not run, and why.
CREATE TABLE skipped(kind TEXT PRIMARY KEY, reason TEXT) WITHOUT ROWID;

-- How far each chunk of the spool is in these tables; same transaction as the rows.
CREATE TABLE ingest(slot INTEGER PRIMARY KEY, generation INTEGER, offset INTEGER);

-- Stacks whose modules may not be known yet: gone from here once they are in `stack`. addresses:
-- 8 bytes each, innermost first; modules: the generation that they belong to.
CREATE TABLE raw_stack(id INTEGER PRIMARY KEY, modules INTEGER, addresses BLOB);

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
    stream, stack, free_stack, start_call, end_call, id
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
    thread, status, dst, src, device, stack, id AS call_id
    FROM copy;

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
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11
    FROM call;

-- A stack, outermost frame last: SELECT * FROM stack_frame WHERE stack_id = N ORDER BY depth.
-- Functions that were inlined are frames of their own, as in the source.
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
        COALESCE(frame.function, '??') AS function, frame.file AS file, frame.line AS line
    FROM walk JOIN frame ON frame.id = walk.frame LEFT JOIN module ON module.id = frame.module;
