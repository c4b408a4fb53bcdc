"""Functions with schedules for a GPU, and bundles of them."""

from pathlib import Path
from typing import Any

import tvm
from tvm import te

from tests.client.bundle.test_function_bundles import elementwise
from tunefarm.bundle.bundle_build import BundleBuilder
from tunefarm.bundle.bundle_folder import read_bundle
from tunefarm.bundle.bundle_source import FunctionsSource, RecordFunction
from tunefarm.model.function_orders import ChosenRecord
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.tuning.bundle import BundleManifest
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target
from tunefarm_search.tvm.trace import trace_of
from tunefarm_search.tvm.workload import ENTRY, workload_of


def gpu_target(architecture: str = "sm_80") -> Target:
    attributes = {
        "kind": "cuda",
        "arch": architecture,
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
    }
    return canonical_target(attributes).target


def mirrored_sum() -> Workload:
    """Two stages, the first of which is kept in memory of the device: C[i, j] = 2 A[i, j] + 2 A[i, 63 - j]."""
    given = te.placeholder((32, 64), "float32", "A")
    doubled = te.compute((32, 64), lambda i, j: given[i, j] * 2.0, "B")
    result = te.compute((32, 64), lambda i, j: doubled[i, j] + doubled[i, 63 - j], "C")
    return workload_of(te.create_prim_func([given, result]), name="mirrored")


def matmul() -> Workload:
    a, b = te.placeholder((64, 32), "float32", "A"), te.placeholder((32, 128), "float32", "B")
    k = te.reduce_axis((0, 32), "k")
    return workload_of(
        te.create_prim_func([a, b, te.compute((64, 128), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")]),
        name="matmul",
    )


def _schedule(workload: Workload) -> Any:
    return tvm.s_tir.Schedule(load_json(workload.module_json))


def bound(workload: Workload, record_id: str) -> RecordFunction:
    """Each stage as a kernel with a block for each row, and a thread for each column."""
    schedule = _schedule(workload)
    for block in schedule.get_child_blocks(schedule.get_sblock("root", func_name=ENTRY)):
        rows, columns = schedule.get_loops(block)
        schedule.bind(rows, "blockIdx.x")
        schedule.bind(columns, "threadIdx.x")
    return RecordFunction(workload, ChosenRecord(record_id, trace_of(schedule).text))


def tiled(workload: Workload, record_id: str, scope: str = "shared") -> RecordFunction:
    """A matmul in tiles of 16 x 32, whose rows of A and columns of B are fetched to shared memory."""
    schedule = _schedule(workload)
    [block] = schedule.get_child_blocks(schedule.get_sblock("root", func_name=ENTRY))
    i, j, k = schedule.get_loops(block)
    (i0, i1), (j0, j1) = schedule.split(i, [None, 16]), schedule.split(j, [None, 32])
    k0, k1 = schedule.split(k, [None, 8])
    schedule.reorder(i0, j0, i1, j1, k0, k1)
    for loop, axis in ((i0, "blockIdx.y"), (j0, "blockIdx.x"), (i1, "threadIdx.y"), (j1, "threadIdx.x")):
        schedule.bind(loop, axis)
    for number in (0, 1):
        copied = schedule.cache_read(block, number, scope)
        schedule.compute_at(copied, k0)
        fused = schedule.fuse(*schedule.get_loops(copied)[-2:])
        _, y, x = schedule.split(fused, [None, 16, 32])
        schedule.bind(y, "threadIdx.y")
        schedule.bind(x, "threadIdx.x")
    return RecordFunction(workload, ChosenRecord(record_id, trace_of(schedule).text))


def functions() -> tuple[RecordFunction, ...]:
    twice = elementwise("twice", lambda value: value * 2.0, 16)
    return bound(twice, "1" * 32), bound(mirrored_sum(), "2" * 32), tiled(matmul(), "3" * 32)


def cuda_bundle(
    fork_server: ForkServer,
    folder: Path,
    given: tuple[RecordFunction, ...],
    target: Target | None = None,
    cc: str = "",
) -> BundleManifest:
    source = FunctionsSource(given, target or gpu_target(), needs_schedules=True)
    BundleBuilder(fork_server).build_source(source, "gpu", "cuda", folder, cc)
    return read_bundle(str(folder))[0]
