#!/usr/bin/env python3
"""Makes cupti_layouts.def and cupti_calls.def from NVIDIA's headers of several versions of CUPTI.

    cupti_tables.py layouts CUDA_INCLUDE INCLUDE_11_8 INCLUDE_12_4 INCLUDE_13_0 INCLUDE_13_3
    cupti_tables.py calls INCLUDE_12_4 INCLUDE_13_0

An INCLUDE is the folder with that version's cupti.h; CUDA_INCLUDE has cuda.h. Layouts are measured
by compiling; calls are read from the enumerations, for what symbols/ says that the stand-ins export.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent

# kind of record: (number of the kind, C types from the newest to the oldest, fields)
TIMES = "start end"
PLACE = "deviceId contextId streamId"
RECORDS = {
    "API": (5, "API", f"cbid {TIMES} processId threadId correlationId returnValue"),
    "KERNEL": (10, "Kernel12 Kernel11 Kernel10 Kernel9 Kernel8",
               f"{TIMES} completed {PLACE} gridX gridY gridZ blockX blockY blockZ registersPerThread "
               "staticSharedMemory dynamicSharedMemory localMemoryPerThread correlationId gridId name "
               "queued submitted launchType sharedMemoryExecuted graphNodeId graphId channelID "
               "channelType"),
    "MEMCPY": (1, "Memcpy6 Memcpy5", f"copyKind srcKind dstKind flags bytes {TIMES} {PLACE} "
               "correlationId graphNodeId graphId channelID channelType copyCount"),
    "MEMCPY2": (22, "MemcpyPtoP4", f"copyKind srcKind dstKind flags bytes {TIMES} {PLACE} "
                "srcDeviceId srcContextId dstDeviceId dstContextId correlationId graphNodeId graphId "
                "channelID channelType"),
    "MEMSET": (2, "Memset4", f"value bytes {TIMES} {PLACE} correlationId flags memoryKind "
               "graphNodeId graphId channelID channelType"),
    "MEMORY2": (49, "Memory4 Memory3",
                f"memoryOperationType memoryKind correlationId address bytes timestamp PC processId "
                f"{PLACE} name isAsync poolType=memoryPoolConfig.memoryPoolType "
                "poolAddress=memoryPoolConfig.address "
                "poolThreshold=memoryPoolConfig.releaseThreshold "
                "poolSize=memoryPoolConfig.pool.size poolUsed=memoryPoolConfig.utilizedSize source"),
    "MEMORY_POOL": (50, "MemoryPool3 MemoryPool2",
                    "memoryPoolOperationType memoryPoolType correlationId processId deviceId "
                    "minBytesToKeep address size releaseThreshold timestamp utilizedSize"),
    "SYNCHRONIZATION": (38, "Synchronization2 Synchronization",
                        f"type {TIMES} correlationId contextId streamId cudaEventId "
                        "cudaEventSyncId returnValue"),
    "CUDA_EVENT": (36, "CudaEvent2 CudaEvent", "correlationId contextId streamId eventId deviceId "
                   "deviceTimestamp cudaEventSyncId"),
    "GRAPH_TRACE": (51, "GraphTrace2 GraphTrace", f"correlationId {TIMES} deviceId graphId contextId "
                    "streamId endDeviceId endContextId"),
    "OVERHEAD": (17, "Overhead3 Overhead2 Overhead",
                 "overheadKind objectKind objectProcess=objectId.pt.processId "
                 f"objectThread=objectId.pt.threadId {TIMES} correlationId overheadData"),
    "EXTERNAL_CORRELATION": (39, "ExternalCorrelation", "externalKind externalId correlationId"),
    "CONTEXT": (9, "Context4 Context3 Context2 Context", "contextId deviceId computeApiKind "
                "nullStreamId parentContextId numMultiprocessors processId"),
    "DEVICE": (8, "Device6 Device5 Device4",
               "flags globalMemoryBandwidth globalMemorySize numThreadsPerWarp coreClockRate "
               "numMultiprocessors computeCapabilityMajor computeCapabilityMinor id uuid name"),
}


def fields(text):
    """(name, C member) of each field; every record has its kind first."""
    return [tuple((f + "=" + f).split("=")[:2]) for f in ("kind " + text).split()]


def measure(cuda, include):
    """{(record, field): (offset, width)} and {record: (C type, size)} of one version's headers."""
    header = (Path(include) / "cupti_activity.h").read_text()
    types, lines = {}, []
    for record, (_, names, text) in RECORDS.items():
        name = next(n for n in names.split() if re.search(rf"}} CUpti_Activity{n};", header))
        types[record] = "CUpti_Activity" + name
        body = header[:header.index(f"}} CUpti_Activity{name};")]
        body = body[body.rindex("typedef struct"):]
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        lines.append(f'printf("{record} - %zu 0\\n", sizeof({types[record]}));')
        for field, member in fields(text):
            if re.search(rf"\b{member.split('.')[0]}(\[\d+\])?;", body):
                lines.append(f'printf("{record} {field} %zu %zu\\n", offsetof({types[record]}, {member}), '
                             f"sizeof((({types[record]} *)0)->{member}));")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "measure.c"
        source.write_text("#include <stdio.h>\n#include <stddef.h>\n#include <cupti_activity.h>\nint main(void) {\n"
                          + "\n".join(lines) + "\nreturn 0;\n}\n")
        program = Path(folder) / "measure"
        subprocess.run(["cc", "-w", f"-I{include}", f"-I{cuda}", "-o", program, source], check=True)
        out = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return types, {tuple(w[:2]): (int(w[2]), int(w[3])) for w in map(str.split, out.splitlines())}


def layouts(cuda, *includes):
    measured = [measure(cuda, include) for include in includes]
    print("""/*
 * cupti_layouts.def - CUPTI's activity records in the versions 11.8, 12.4, 13.0 and 13.3, as
 * NVIDIA's headers lay them out. Made by cupti_tables.py.
 *
 * RECORD(record, kind, type in 13.0, size in each version)
 * FIELD(record, name, member in 13.0 (kind: none), width, offset in each version; -1: not there)
 */""")
    for record, (kind, _, text) in RECORDS.items():
        sizes = ", ".join(str(sizes[record, "-"][0]) for _, sizes in measured)
        print(f"RECORD({record}, {kind}, {measured[2][0][record]}, {sizes})")
        for field, member in fields(text):
            found = [places.get((record, field)) for _, places in measured]
            widths = {place[1] for place in found if place}
            if not widths:
                sys.exit(f"{record}.{field}: in no version")
            offsets = ", ".join(str(place[0] if place else -1) for place in found)
            member = member if found[2] else "kind"
            print(f"FIELD({record}, {field}, {member}, {max(widths)}, {offsets})"
                  + (f" /* widths {sorted(widths)} */" if len(widths) > 1 else ""))
    print("#undef RECORD\n#undef FIELD")


def exported():
    names = set()
    for path in ("libcudart12", "libcudart13", "libcuda"):
        lines = (HERE / "../symbols" / f"{path}.txt").read_text().splitlines()
        names |= {line.split()[0] for line in lines}
    return names


def numbers(include):
    """{(domain, number): name} for the functions that the stand-ins export."""
    names, found = exported(), {}
    for domain, file, prefix in (("RUNTIME", "cupti_runtime_cbid.h", "CUPTI_RUNTIME_TRACE_CBID_"),
                                 ("DRIVER", "cupti_driver_cbid.h", "CUPTI_DRIVER_TRACE_CBID_")):
        text = (Path(include) / file).read_text()
        for name, number in re.findall(rf"{prefix}(\w+)\s*=\s*(\d+)", text):
            symbol = re.sub(r"_v\d{4,5}$", "", name) if domain == "RUNTIME" else name
            if symbol in names:
                found[domain, int(number)] = name
    return found


def calls(older, newer):
    print("""/*
 * cupti_calls.def - the numbers by which CUPTI's callbacks and records name the functions that the
 * simulated runtime and driver export, from NVIDIA's enumerations. Made by cupti_tables.py.
 *
 * CBID(domain, number, name as cuptiGetCallbackName gives it)
 * CBID12(domain, number, name) where CUDA 13 has another or none, CBID13 where CUDA 12 has
 */""")
    old, new = numbers(older), numbers(newer)
    for key, name in new.items():
        print(f"CBID{'' if old.get(key) == name else 13}({key[0]}, {key[1]}, {name})")
    for key, name in old.items():
        if new.get(key) != name:
            print(f"CBID12({key[0]}, {key[1]}, {name})")
    print("#undef CBID\n#undef CBID12\n#undef CBID13")


if __name__ == "__main__":
    verbs = {"layouts": (layouts, 5), "calls": (calls, 2)}
    verb, arguments = verbs.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if verb is None or len(sys.argv) != arguments + 2:
        sys.exit(__doc__)
    verb(*sys.argv[2:])
