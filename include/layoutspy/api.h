/*
 * api.h - the one table of intercepted functions, and how to expand it.
 *
 * Every function that layoutspy intercepts is ONE row of one file under api/. The row makes the
 * function's number and name, the wrapper in liblayoutspy.so, the export list, the rows of the
 * trace's `api` table, the documentation's list, the static check against the vendor's header and
 * the test that compares the trace with the simulated device's log. Nothing else may list them.
 *
 * A row:
 *
 *   API(LIB, ret, name, CLASS, STACK, (parameters), (arguments), fields)
 *   API_TWIN(LIB, ret, name, twin, CLASS, STACK, (parameters), (arguments), fields)
 *   API_PTDS, API_PTSZ: an API and the API_TWIN name_ptds or name_ptsz, in one
 *   API_WIDE(LIB, ret, name, CLASS, STACK, (parameters), (arguments), (header), fields)
 *   API_WIDE_PTSZ: as API_PTSZ
 *   API_WHEN(LIB, ret, name, CLASS, STACK, (parameters), (arguments), condition, fields)
 *   API_OPERANDS(LIB, ret, name, CLASS, STACK, (parameters), (arguments), (operands), fields)
 *   API_OPERANDS_PTSZ: as API_PTSZ
 *   API_KEPT(LIB, ret, name, CLASS, STACK, (parameters), (arguments), (statement), fields)
 *   API_VOID_WHEN(LIB, name, CLASS, STACK, (parameters), (arguments), condition, fields)
 *   API_MAP(LIB, ret, name, (parameters), (arguments), statement)
 *   API_MAP_PTSZ: an API_MAP and the API_MAP_TWIN name_ptsz, in one
 *   API_MAP_VOID(LIB, name, (parameters), (arguments), statement)
 *   API_AROUND(LIB, ret, name, (parameters), (arguments), before, after)
 *
 *   LIB       a row of api/library.def: whose function it is, how to find the real one
 *   CLASS     what kind of thing the call does: one of api/class.def
 *   STACK     whether a stack is taken: NONE, STACK (see preload/stack.h)
 *   fields    what is recorded, in this order: F(name, TYPE, expression) F(...) ...
 *             The expressions are evaluated after the real call and may use the parameters, and
 *             `ls_status`, the call's status (0 for success). Names are the field's words, and one
 *             word means one thing in every row (see api/field notes below).
 *   API_TWIN  as API, for `twin`, the per-thread-default-stream entry point (`_ptds`, `_ptsz`) of
 *             `name`; it exists in the library but not under its own name in the header.
 *   API_WIDE  a function whose signature differs by CUDA's version: the parameters are the longer
 *             list (a caller of the shorter one leaves the last ones undefined, which harms nothing
 *             in registers and on the stack), ls_by_major(ls_function, ...) tells which is which,
 *             and `header` is what CUDA 13's header says
 *   API_WHEN  recorded only where the condition holds, which may use the parameters and is
 *             evaluated before the call
 *   API_VOID_WHEN  the same of a function that returns nothing
 *   API_OPERANDS   with statements that tell the call's operands, evaluated as the fields are:
 *             O(ROLE, shape, address); roles are those of layoutspy/role.def, the words that make
 *             shapes those of preload/operand_words.h. Of launches: LAUNCHED(STUB | KERNEL |
 *             DRIVER, function, args, extra, the grid's y), see preload/launch_args.h
 *   API_KEPT  with a statement that runs after the call whether or not anything is recorded, and
 *             keeps what later calls' operands need (a plan's sizes)
 *   API_MAP   class MAP: the statement runs after the call and keeps what later records need (a
 *             kernel's name); the call itself is not recorded.
 *   API_AROUND  as API_MAP, with a statement before the call as well, which may change the
 *             arguments and declare what the one after it needs: what other clients of CUPTI do
 *
 * TYPE: PTR (an address), SIZE (bytes), UINT, INT (signed), STREAM, HANDLE (an opaque object),
 * KIND (cudaMemcpyKind), DIM3 (LS_GRID or LS_BLOCK packing), KERNEL (a kernel number, see
 * preload/kernels.h), DEVICE (ordinal).
 *
 * Field names and their meaning:
 *   ptr       what an allocation returned, or what a free or memset was given
 *   size      bytes asked for (pitched and 3D: bytes the allocation spans)
 *   dst, src  the two addresses of a copy (an array handle where dst_array/src_array says so)
 *   bytes     bytes moved or set; extents are in elements where an array takes part, and then
 *             `width`, `height`, `depth` are recorded instead and the collector multiplies
 *   kind      cudaMemcpyKind as passed; rows without one are cudaMemcpyDefault (4)
 *   stream    as passed; a row without this field runs on the legacy default stream
 *   handle    physical memory of the driver's (cuMemCreate); a handle for other processes, as a
 *             hash of its bytes; of class LIBRARY and LIBRARY_CALL the library's own object
 *   count     copies of a batch
 *   allocated, reserved  bytes that a framework's allocator has handed out and holds, after the
 *             call; `size` beside them is signed: negative for a block that was given back
 *   dst_array, src_array, dst_device, src_device, symbol, offset, pool, array, event, context,
 *   flags, device, value, mode, graph, kernel, grid, block, shared, free, total, attr, levels,
 *   level, type (cudaGraphNodeType): as named
 *
 * Includer's contract: define API with `...` in place of `fields` (the others default to it), and F
 * where `fields` is used; include "layoutspy/api/all.def", which undefines them all again.
 */
#ifndef LAYOUTSPY_API_H
#define LAYOUTSPY_API_H

#include <stddef.h>
#include <stdint.h>

enum ls_lib {
#define LIBRARY(ID, name, soname, versions, missing) LS_LIB_##ID,
#include "layoutspy/api/library.def"
    LS_LIB_COUNT
};

enum ls_class {
#define CLASS(ID, name, what) LS_CLASS_##ID,
#include "layoutspy/api/class.def"
    LS_CLASS_COUNT
};

enum ls_stack_want { LS_STACK_NONE, LS_STACK_STACK };

enum ls_field_type {
    LS_FIELD_PTR,
    LS_FIELD_SIZE,
    LS_FIELD_UINT,
    LS_FIELD_INT,
    LS_FIELD_STREAM,
    LS_FIELD_HANDLE,
    LS_FIELD_KIND,
    LS_FIELD_DIM3,
    LS_FIELD_KERNEL,
    LS_FIELD_DEVICE,
};

/* The numbers. 0 is no function. */
enum ls_api {
    LS_API_NONE,
#define API(LIB, ret, name, CLASS, STACK, params, args, ...) LS_API_##name,
#define API_TWIN(LIB, ret, name, twin, CLASS, STACK, params, args, ...) LS_API_##twin,
#include "layoutspy/api/all.def"
    LS_API_COUNT
};

#define LS_FIELD_MAX 12 /* __VA_ARGS__ in one row, at most */

/* Where totalGlobalMem lies in struct cudaDeviceProp, of all versions. */
#define LS_DEVICE_PROP_TOTAL 288

/* A grid: x up to 2^31-1, y and z up to 65535; of more, which no device takes, the lower 16 bits. A
 * block: up to 1024 in each. */
#define LS_DIM3(x, y, z)                                                                           \
    ((uint64_t)(uint32_t)(x) | (uint64_t)(uint16_t)(y) << 32 | (uint64_t)(uint16_t)(z) << 48)
#define LS_GRID(d) LS_DIM3((d).x, (d).y, (d).z)
#define LS_BLOCK(d) LS_GRID(d)

#endif
