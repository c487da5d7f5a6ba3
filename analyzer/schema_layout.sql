-- schema_layout.sql - shapes, operands and conversions: tables and views of layouts. Follows
-- schema.sql, which says what units and names mean.

-- How something lies in memory, or what a library was told of its work; each once. kind: tensor |
-- matrix | product | convolution | pooling | rnn. told: the recorded process's own number; NULL: a
-- matrix that follows from a product. dims, strides: JSON arrays, in the library's own order; strides
-- in elements, or with flag 8 in bytes. A matrix: rows, columns as they lie in memory, then the batch.
-- layout: nchw | nhwc | row-major | column-major | strided | broadcast | unknown, as
-- analyzer/shape_text.h defines them; ambiguous: 1, the other word of the pair (nchw and nhwc,
-- row-major and column-major) holds as well. dense: 1, neither gaps nor overlaps. elements: product of
-- the sizes, bytes: of so many; span: bytes from the first to the end of the last. uid: the number that
-- the program gave to a tensor of a graph. flags: a sum of 1 (uid is set), 2 (a matrix told by rows), 4
-- (tiled: strides mean nothing), 8 (strides in bytes), 16 (a scalar). dtype_told: the library's own
-- number of the type. vector_count: elements of dimension vector_dim that lie together as one. unit:
-- bytes of an element, with flag 8 and no type the smallest stride. detail: what a convolution,
-- pooling or rnn was told, a JSON object.
CREATE TABLE shape(id INTEGER PRIMARY KEY, told INTEGER, kind TEXT, dtype TEXT, dims TEXT,
    strides TEXT, layout TEXT, ambiguous INTEGER, dense INTEGER, elements INTEGER, bytes INTEGER,
    span INTEGER, uid INTEGER, flags INTEGER, dtype_told INTEGER, vector_count INTEGER,
    vector_dim INTEGER, unit INTEGER, detail TEXT);

-- A shape of kind product: C = op(A) op(B), column-major. op_a, op_b: N, T, C as passed. stride_*: from
-- one matrix of the batch to the next, in elements; 0: none, an array of addresses, or told one by one.
-- compute: cublasComputeType_t, -1: none was told. a, b, c: shape.id of the matrices.
CREATE TABLE product(shape INTEGER PRIMARY KEY, m INTEGER, n INTEGER, k INTEGER, op_a TEXT, op_b TEXT,
    lda INTEGER, ldb INTEGER, ldc INTEGER, batch INTEGER, stride_a INTEGER, stride_b INTEGER,
    stride_c INTEGER, dtype TEXT, dtype_b TEXT, dtype_c TEXT, compute INTEGER, a INTEGER, b INTEGER,
    c INTEGER);

-- What an operand is to its call. direction: in | out | inout | touched (nobody knows) | nothing (a
-- description, no memory). images: 1, a tensor of 4 dimensions in this role has channels.
CREATE TABLE role(id INTEGER PRIMARY KEY, name TEXT, direction TEXT, images INTEGER);

-- The operands of calls: of libraries' calls, and of launches whose arguments were told. position:
-- from 0. shape: NULL, not known. address 0: none was given. flags: a sum of 1 (the address is that of
-- an array of addresses), 2 (the last one: there were more). block: block.id, of the one that begins at
-- the address; allocation: else allocation.id, of the one that holds it. Both as of the call's end.
CREATE TABLE operand(call INTEGER, position INTEGER, role INTEGER, shape INTEGER, address INTEGER,
    flags INTEGER, block INTEGER, allocation INTEGER, PRIMARY KEY(call, position)) WITHOUT ROWID;

-- Operands whose shape has not been told yet; gone at the end. For the collector alone.
CREATE TABLE raw_operand(call INTEGER, position INTEGER, role INTEGER, told INTEGER,
    PRIMARY KEY(call, position)) WITHOUT ROWID;

-- The GPU's time of what a library's call brought about: kernels, copies and memsets, whether they have
-- rows or not. call: call.id of the outermost one.
CREATE TABLE library_gpu(call INTEGER PRIMARY KEY, gpu_ns INTEGER);

-- Kernels that only move or convert data, by their names (common/kernel_words.def). change: layout,
-- from one to another as far as the name says | strided, a copy between different strides unless its
-- operands tell otherwise | copy, of which only operands tell a change of layout.
CREATE TABLE kernel_layout(kernel INTEGER PRIMARY KEY, change TEXT, from_layout TEXT, to_layout TEXT);

-- Copies by kernels that turned images, as is known of the library's call that read the copy, or the
-- convolution that wrote its source: they were told what it is, the copy knows a batch of matrices.
-- from_layout, to_layout: nchw | nhwc.
CREATE TABLE image_copy(call INTEGER PRIMARY KEY, from_layout TEXT, to_layout TEXT);

-- Calls by which NVIDIA's libraries work; those that another library's call made are in
-- library_call_nested alone (cuBLAS works by cublasLtMatmul). stream: the call's, or the one that its
-- handle was told last; NULL: it was told none. gpu_ns: of all that the GPU did for the call, NULL:
-- nothing was seen; what nested calls did counts for the outermost one.
CREATE VIEW every_library_call AS SELECT call.id AS id, start_ns, api.library AS library, api.name AS api, duration_ns,
    (SELECT gpu_ns FROM library_gpu WHERE library_gpu.call = call.id) AS gpu_ns,
    CASE WHEN api.fields LIKE '%"stream"%' THEN f1 ELSE
        (SELECT h.stream FROM library_handle AS h WHERE h.handle = call.f0 AND h.id < call.id ORDER BY h.id DESC LIMIT 1)
        END AS stream,
    COALESCE((SELECT site FROM stack_site WHERE stack_site.id = call.stack), 'site unknown') AS site, status,
    (SELECT operator FROM stack_site WHERE stack_site.id = call.stack) AS operator,
    flags & 1 AS nested, device, stack, f0 AS handle, thread
    FROM api JOIN call ON call.api = api.id WHERE api.class = 'library_call';

CREATE VIEW library_call AS SELECT * FROM every_library_call WHERE nested = 0;
CREATE VIEW library_call_nested AS SELECT * FROM every_library_call WHERE nested = 1;

-- Tensors and matrices that calls were given. dims, strides: JSON arrays in the library's own order.
-- direction: in, out, inout, touched. nested: 1 of a call that another recorded call made.
CREATE VIEW tensor_operand AS SELECT o.call AS call_id,
    (SELECT name FROM role WHERE role.id = o.role) AS role, COALESCE(s.dtype, 'unknown') AS dtype, s.dims, s.strides,
    CASE WHEN s.layout IN ('nchw', 'nhwc') AND NOT (SELECT images FROM role WHERE role.id = o.role)
        THEN CASE s.layout WHEN 'nchw' THEN 'row-major' ELSE 'strided' END
        ELSE COALESCE(s.layout, 'unknown') END AS layout,
    o.address,
    (SELECT direction FROM role WHERE role.id = o.role) AS direction, s.kind, s.ambiguous, s.dense, s.elements,
    s.bytes, s.span, s.uid, o.flags & 1 AS is_array, o.block, o.allocation, o.position, o.shape, s.unit,
    s.flags & 8 AS in_bytes, (SELECT flags & 1 FROM call WHERE call.id = o.call) AS nested
    FROM operand AS o LEFT JOIN shape AS s ON s.id = o.shape
    WHERE COALESCE(s.kind, 'tensor') IN ('tensor', 'matrix');

-- What convolutions, poolings and recurrent layers were told beside their tensors. detail: JSON.
CREATE VIEW library_setting AS SELECT o.call AS call_id, s.kind, s.detail, s.dtype
    FROM operand AS o JOIN shape AS s ON s.id = o.shape WHERE s.detail IS NOT NULL;

-- What cuBLAS and cuBLASLt were told of products of matrices, column-major; also of what is like one
-- (geam, trsm, syrk ...). dtype: of A. status: what the call returned. nested: 1, another library's call
-- made it. gemm_call: the general products, of nested calls none.
CREATE VIEW product_call AS SELECT o.call AS call_id, m, n, k, op_a, op_b, lda, ldb, ldc, batch, stride_a, stride_b,
    stride_c, dtype, dtype_b, dtype_c, compute, (SELECT name FROM api WHERE api.id = call.api) AS api, call.status AS status,
    call.flags & 1 AS nested, o.shape AS shape
    FROM operand AS o JOIN product ON product.shape = o.shape JOIN call ON call.id = o.call
    WHERE o.role = (SELECT id FROM role WHERE name = 'product');

CREATE VIEW gemm_call AS SELECT * FROM product_call
    WHERE nested = 0 AND (api LIKE '%gemm%' OR api LIKE 'cublasLtMatmul%');

-- Copies of one tensor by kernels whose operands are known: where from, where to; of images by image_copy. changed: 1, the order in memory is
-- another one, or gaps go or come. Where no type was told, a source whose smallest stride is larger than
-- the destination's is strided.
CREATE VIEW copied_layout AS SELECT call_id,
    COALESCE((SELECT i.from_layout FROM image_copy AS i WHERE i.call = call_id),
        CASE from_layout WHEN 'nchw' THEN 'row-major' WHEN 'nhwc' THEN 'strided' ELSE from_layout END) AS from_layout,
    COALESCE((SELECT i.to_layout FROM image_copy AS i WHERE i.call = call_id),
        CASE to_layout WHEN 'nchw' THEN 'row-major' WHEN 'nhwc' THEN 'strided' ELSE to_layout END) AS to_layout,
    from_layout <> to_layout OR from_dense <> to_dense AS changed
    FROM (SELECT dst.call AS call_id,
        CASE WHEN src_shape.dtype = 'unknown' AND dst_shape.dtype = 'unknown' AND src_shape.unit > dst_shape.unit
            AND src_shape.layout <> 'broadcast' THEN 'strided' ELSE src_shape.layout END AS from_layout,
        dst_shape.layout AS to_layout, src_shape.dense AS from_dense, dst_shape.dense AS to_dense
        FROM operand AS dst JOIN operand AS src ON src.call = dst.call
            JOIN shape AS dst_shape ON dst_shape.id = dst.shape JOIN shape AS src_shape ON src_shape.id = src.shape
        WHERE dst.role = (SELECT id FROM role WHERE name = 'dst' AND direction = 'out' AND images = 0)
            AND src.role = (SELECT id FROM role WHERE name = 'src' AND images = 0) AND src.position = dst.position + 1
            AND NOT EXISTS (SELECT 1 FROM operand AS more WHERE more.call = dst.call AND more.position > src.position));

-- Libraries' calls that convert a layout. A transposing one is from row-major to column-major.
CREATE VIEW conversion_call AS SELECT call_id, api, from_layout, to_layout, gpu_ns, start_ns FROM (
    SELECT id AS call_id, api, gpu_ns, start_ns, turned,
        CASE WHEN turned THEN 'row-major' ELSE COALESCE((SELECT layout FROM tensor_operand AS t WHERE t.call_id = c.id
            AND direction = 'in' ORDER BY position LIMIT 1), 'unknown') END AS from_layout,
        CASE WHEN turned THEN 'column-major' ELSE COALESCE((SELECT layout FROM tensor_operand AS t WHERE t.call_id = c.id
            AND direction IN ('out', 'inout') ORDER BY position LIMIT 1), 'unknown') END AS to_layout
    FROM (SELECT id, api, gpu_ns, start_ns, EXISTS (SELECT 1 FROM operand AS o JOIN product AS p ON p.shape = o.shape
            WHERE o.call = library_call.id AND (p.op_a <> 'N' OR p.op_b <> 'N' AND EXISTS (SELECT 1 FROM tensor_operand
                AS b WHERE b.call_id = library_call.id AND b.role = 'b' AND b.direction = 'in'))) AS turned
        FROM library_call WHERE status = 0
            AND (api LIKE 'cudnnTransform%' OR api = 'cublasLtMatrixTransform' OR api LIKE '%geam%')) AS c)
    WHERE turned OR api NOT LIKE '%geam%' AND (from_layout <> to_layout OR from_layout IN ('unknown', 'strided'));

-- Each conversion: a kernel that the GPU ran, or, where no run of it was seen, its launch or the
-- library's call that is one. kernel: kernel.id, NULL: of a call whose kernels were not seen. call_id:
-- the launch, or that call. under_id: the outermost call around it. Casts and copies that change no
-- layout are none. gpu_ns NULL: not known. seen: gpu | launch | call.
CREATE VIEW conversion_run AS
    SELECT w.v0 AS kernel, w.end_ns - w.start_ns AS gpu_ns,
        COALESCE(c.from_layout, l.from_layout, k.from_layout) AS from_layout,
        COALESCE(c.to_layout, l.to_layout, k.to_layout) AS to_layout,
        w.call AS call_id, w.under AS under_id, w.start_ns AS start_ns, 'gpu' AS seen
        FROM gpu_work AS w LEFT JOIN kernel_layout AS k ON k.kernel = w.v0
            LEFT JOIN (SELECT * FROM conversion_call) AS c ON c.call_id = w.under
            LEFT JOIN (SELECT * FROM copied_layout) AS l ON l.call_id = w.call
        WHERE w.kind = 1 AND (w.v0 IN (SELECT kernel FROM kernel_layout)
                OR w.under IN (SELECT call_id FROM conversion_call))
            AND (c.call_id IS NOT NULL OR k.change = 'layout' OR COALESCE(l.changed, k.change = 'strided'))
    UNION ALL
    SELECT kernel, NULL, from_layout, to_layout, call_id, under_id, start_ns, 'launch'
        FROM (SELECT k.kernel AS kernel, COALESCE(l.from_layout, k.from_layout) AS from_layout,
            COALESCE(l.to_layout, k.to_layout) AS to_layout, call.id AS call_id, call.start_ns AS start_ns,
            CASE WHEN flags & 1 THEN (SELECT o.id FROM call AS o WHERE o.id > call.id AND o.id < call.id + 4096
                AND o.thread = call.thread AND o.flags & 1 = 0 ORDER BY o.id LIMIT 1) END AS under_id
            FROM call JOIN kernel_layout AS k ON k.kernel = call.f0
                LEFT JOIN (SELECT * FROM copied_layout) AS l ON l.call_id = call.id
            WHERE call.api IN (SELECT id FROM api WHERE class = 'launch') AND call.status = 0 AND call.flags & 2 = 0
                AND call.id NOT IN (SELECT call FROM gpu_work WHERE kind = 1 AND call IS NOT NULL)
                AND (k.change = 'layout' OR COALESCE(l.changed, k.change = 'strided')))
        WHERE under_id IS NULL OR (SELECT class FROM api WHERE api.id = (SELECT api FROM call WHERE call.id = under_id)) <> 'launch'
    UNION ALL
    SELECT NULL, gpu_ns, from_layout, to_layout, call_id, call_id, start_ns, 'call'
        FROM conversion_call WHERE call_id NOT IN (SELECT under FROM gpu_work WHERE kind = 1 AND under IS NOT NULL);

-- Runs of moving kernels beyond LAYOUTSPY_KERNEL_ROWS: in kernel_total alone.
CREATE VIEW conversion_rest AS
    SELECT t.kernel AS kernel, t.runs - COALESCE(g.runs, 0) AS runs, t.gpu_ns - COALESCE(g.gpu_ns, 0) AS gpu_ns
        FROM (SELECT kernel, SUM(count + untimed) AS runs, SUM(total_ns) AS gpu_ns FROM kernel_total
            WHERE kernel IN (SELECT kernel FROM kernel_layout) AND under NOT IN (SELECT id FROM api
                WHERE name LIKE 'cudnnTransform%' OR name = 'cublasLtMatrixTransform' OR name LIKE '%geam%')
            GROUP BY kernel) AS t
        LEFT JOIN (SELECT v0, COUNT(*) AS runs, SUM(end_ns - start_ns) AS gpu_ns FROM gpu_work
            WHERE kind = 1 AND v0 IN (SELECT kernel FROM kernel_layout) AND (under IS NULL OR (SELECT name FROM api
                WHERE api.id = (SELECT api FROM call WHERE call.id = under)) NOT LIKE 'cudnnTransform%')
            GROUP BY v0) AS g ON g.v0 = t.kernel
        WHERE t.runs > COALESCE(g.runs, 0);

-- Conversions of layouts by kernel, layouts, the library's function around them, and site. gpu_ns:
-- NULL where no time is known; of runs beyond LAYOUTSPY_KERNEL_ROWS their mean. What cannot be put to a
-- site is 'site unknown'. launches: how many of count were seen as launches or calls alone.
CREATE VIEW layout_conversion AS
    WITH rest AS (SELECT * FROM conversion_rest),
    part AS (SELECT kernel, from_layout, to_layout, (SELECT stack FROM call WHERE call.id = call_id) AS stack,
            (SELECT stack FROM call WHERE call.id = under_id) AS under_stack,
            (SELECT api FROM call WHERE call.id = under_id) AS under_api, COUNT(*) AS count, SUM(gpu_ns) AS gpu_ns,
            SUM(seen = 'launch') AS launched, SUM(seen <> 'gpu') AS launches
        FROM conversion_run GROUP BY 1, 2, 3, 4, 5, 6),
    launched AS (SELECT kernel, SUM(launched) AS count FROM part GROUP BY kernel),
    named AS (SELECT part.kernel AS kernel_id, from_layout, to_layout, part.count AS count, launches,
            CASE WHEN part.launched THEN COALESCE(part.gpu_ns, 0) + rest.gpu_ns / MAX(rest.runs, launched.count) * part.launched
                END AS estimated, part.gpu_ns AS gpu_ns,
            (SELECT name FROM api WHERE class = 'library_call' AND api.id = under_api) AS under_call,
            COALESCE((SELECT site FROM stack_site WHERE stack_site.id = under_stack),
                (SELECT site FROM stack_site WHERE stack_site.id = part.stack), 'site unknown') AS site
        FROM part LEFT JOIN rest ON rest.kernel = part.kernel LEFT JOIN launched ON launched.kernel = part.kernel)
    SELECT COALESCE((SELECT COALESCE(demangled, name) FROM kernel WHERE kernel.id = kernel_id),
            CASE WHEN kernel_id IS NULL THEN under_call ELSE 'kernel ' || kernel_id END) AS kernel,
        SUM(count) AS count, SUM(COALESCE(estimated, gpu_ns)) AS gpu_ns, from_layout, to_layout, under_call, site,
        COALESCE((SELECT short FROM kernel WHERE kernel.id = kernel_id), under_call) AS short, kernel_id,
        SUM(launches) AS launches
        FROM named GROUP BY kernel_id, from_layout, to_layout, under_call, site
    UNION ALL
    SELECT (SELECT COALESCE(demangled, name) FROM kernel WHERE kernel.id = rest.kernel),
        rest.runs - COALESCE(launched.count, 0),
        rest.gpu_ns / rest.runs * (rest.runs - COALESCE(launched.count, 0)), k.from_layout, k.to_layout, NULL,
        'site unknown', (SELECT short FROM kernel WHERE kernel.id = rest.kernel), rest.kernel, 0
        FROM rest JOIN kernel_layout AS k ON k.kernel = rest.kernel LEFT JOIN launched ON launched.kernel = rest.kernel
        WHERE k.change <> 'copy' AND rest.runs > COALESCE(launched.count, 0);
