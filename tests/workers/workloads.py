"""Small functions, and traces that schedule them well, badly or wrongly."""

from functools import cache
from typing import Any

import tvm
from tvm import te

from tunefarm_schemas.tuning.measurement import Candidate, CandidateOrigin, Dispatch, ExportOrder, MeasureTask, Purpose
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.tvm.tensor_intrinsics.of_tvm import load_intrinsics
from tunefarm_search.tvm.trace import trace_of

TARGET = '{"kind":"llvm","num-cores":2}'
HOT = "cpu-hot-cache/1"


@cache
def matmul(extent: int = 128, dtype: str = "float32", out: str = "") -> tvm.IRModule:
    left = te.placeholder((extent, extent), dtype, name="A")
    right = te.placeholder((extent, extent), dtype, name="B")
    axis = te.reduce_axis((0, extent), name="k")
    out = out or dtype
    product = te.compute(
        (extent, extent),
        lambda i, j: te.sum(left[i, axis].astype(out) * right[axis, j].astype(out), axis=axis),
        name="C",
    )
    return tvm.IRModule({"main": te.create_prim_func([left, right, product])})


def matmul_of_swapped(extent: int) -> tvm.IRModule:
    """The signature of ``matmul``, with the factors swapped."""
    left = te.placeholder((extent, extent), name="A")
    right = te.placeholder((extent, extent), name="B")
    axis = te.reduce_axis((0, extent), name="k")
    product = te.compute((extent, extent), lambda i, j: te.sum(right[i, axis] * left[axis, j], axis=axis), name="C")
    return tvm.IRModule({"main": te.create_prim_func([left, right, product])})


def square_root() -> tvm.IRModule:
    source = te.placeholder((256,), name="A")
    return tvm.IRModule({"main": te.create_prim_func([source, te.compute((256,), lambda i: te.sqrt(source[i]))])})


def rotation_of_root() -> tvm.IRModule:
    """Finite for positive inputs only."""
    source = te.placeholder((256,), name="A")
    root = te.compute((256,), lambda i: te.sqrt(source[i]))
    out = te.compute((256,), lambda i: te.sin(root[i]) * te.cos(root[i]))
    return tvm.IRModule({"main": te.create_prim_func([source, out])})


def aborting() -> tvm.IRModule:
    source = te.placeholder((16,), name="A")
    out = te.compute((16,), lambda i: source[i] + tvm.tirx.call_extern("int32", "abort").astype("float32"))
    return tvm.IRModule({"main": te.create_prim_func([source, out])})


def not_a_number() -> tvm.IRModule:
    source = te.placeholder((16,), name="A")
    return tvm.IRModule(
        {"main": te.create_prim_func([source, te.compute((16,), lambda i: te.log(-1.0 - source[i] * source[i]))])}
    )


def large_output() -> tvm.IRModule:
    """40 MiB: three sets of five schedules' outputs take more than one child may add."""
    source = te.placeholder((16,), "int8", name="A")
    out = te.compute((40 << 16, 16), lambda i, j: source[j])
    return tvm.IRModule({"main": te.create_prim_func([source, out])})


def gather() -> tvm.IRModule:
    table = te.placeholder((50, 8), name="T")
    rows = te.placeholder((32,), "int32", name="I")
    out = te.compute((32, 8), lambda i, j: table[rows[i], j], name="O")
    return tvm.IRModule({"main": te.create_prim_func([table, rows, out])})


def tiled(
    module: tvm.IRModule, rows: int = 8, columns: int = 16, *, vectors: bool = True, parallel: bool = True
) -> Trace:
    """A schedule for ``matmul`` on both cores, with vector registers in use.

    Without ``parallel`` it is faster than the untuned function on a busy host too, where threads wait for each other.
    """
    schedule = tvm.s_tir.Schedule(module)
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    i_outer, i_inner = schedule.split(i, [None, rows])
    j_outer, j_inner = schedule.split(j, [None, columns])
    schedule.reorder(i_outer, j_outer, k, i_inner, j_inner)
    if vectors:
        schedule.vectorize(j_inner)
    if parallel:
        schedule.parallel(i_outer)
    schedule.decompose_reduction(block, k)
    return trace_of(schedule)


def slow(module: tvm.IRModule) -> Trace:
    """A schedule for ``matmul`` that reads memory across its rows."""
    schedule = tvm.s_tir.Schedule(module)
    i, j, k = schedule.get_loops(schedule.get_sblock("C"))
    schedule.reorder(k, j, i)
    return trace_of(schedule)


def rounded_too_early(module: tvm.IRModule) -> Trace:
    """A schedule for ``matmul`` that keeps its sums in sixteen bits, and therefore returns wrong results."""
    schedule = tvm.s_tir.Schedule(module)
    block = schedule.get_sblock("C")
    schedule.cache_write(block, 0, "global")
    schedule.unsafe_set_dtype(block, 0, "float16")
    return trace_of(schedule)


def untouched(module: tvm.IRModule) -> Trace:
    schedule = tvm.s_tir.Schedule(module)
    schedule.get_sblock("C")
    return trace_of(schedule)


@cache
def dense() -> tvm.IRModule:
    """A layer of batch one whose weight may be stored in any layout."""
    data = te.placeholder((1, 256), name="X")
    weight = te.placeholder((128, 256), name="W")
    axis = te.reduce_axis((0, 256), name="k")
    out = te.compute(
        (1, 128),
        lambda i, j: te.sum(data[i, axis] * weight[j, axis], axis=axis),
        name="C",
        attrs={"layout_free_placeholders": [weight]},
    )
    return tvm.IRModule({"main": te.create_prim_func([data, weight, out])})


@cache
def convolution() -> tvm.IRModule:
    """A convolution whose weight may be stored in any layout."""
    data = te.placeholder((1, 10, 10, 16), name="X")
    weight = te.placeholder((3, 3, 16, 32), name="W")
    y, x, c = (te.reduce_axis((0, extent), name=name) for name, extent in (("y", 3), ("x", 3), ("c", 16)))
    out = te.compute(
        (1, 8, 8, 32),
        lambda n, h, w, o: te.sum(data[n, h + y, w + x, c] * weight[y, x, c, o], axis=[y, x, c]),
        name="C",
        attrs={"layout_free_placeholders": [weight]},
    )
    return tvm.IRModule({"main": te.create_prim_func([data, weight, out])})


def with_packed_weight(module: tvm.IRModule, inner: int = 16) -> Trace:
    """A schedule that stores the weight so that its last axis holds ``inner`` neighbouring outputs."""
    schedule = tvm.s_tir.Schedule(module)
    block = schedule.get_sblock("C")
    loops = schedule.get_loops(block)
    spatial = 2 if len(loops) == 3 else 4
    outer, lanes = schedule.split(loops[spatial - 1], [None, inner])
    schedule.reorder(*loops[: spatial - 1], outer, *loops[spatial:], lanes)
    schedule.vectorize(lanes)
    _rewrite_layout(schedule, block, module)
    return trace_of(schedule)


def _rewrite_layout(schedule: Any, block: Any, module: tvm.IRModule) -> None:
    from tvm.s_tir.meta_schedule.postproc import RewriteLayout

    del block, module
    assert RewriteLayout().apply(schedule)


def dense_in_bytes() -> tvm.IRModule:
    """A layer of batch one whose weight has the layout of instructions for sixteen sums of four bytes."""
    data = te.placeholder((1, 64), "uint8", name="X")
    weight = te.placeholder((4, 16, 16, 4), "int8", name="W")
    axis = te.reduce_axis((0, 64), name="k")

    def product(i: Any, j: Any) -> Any:
        return data[i, axis].astype("int32") * weight[j // 16, axis // 4, j % 16, axis % 4].astype("int32")

    return tvm.IRModule(
        {
            "main": te.create_prim_func(
                [data, weight, te.compute((1, 64), lambda i, j: te.sum(product(i, j), axis=axis), name="C")]
            )
        }
    )


def tensorized(module: tvm.IRModule, intrinsic: str) -> Trace:
    """A schedule for ``dense_in_bytes`` that uses ``intrinsic`` in its innermost loops."""
    load_intrinsics("llvm")
    schedule = tvm.s_tir.Schedule(module)
    block = schedule.get_sblock("C")
    row, column, reduced = schedule.get_loops(block)
    columns, lanes = schedule.split(column, [None, 16])
    steps, bytes_each = schedule.split(reduced, [None, 4])
    schedule.reorder(row, columns, steps, lanes, bytes_each)
    schedule.decompose_reduction(block, steps)
    schedule.tensorize(lanes, intrinsic)
    return trace_of(schedule)


def task(
    module: tvm.IRModule,
    exploration_id: str,
    *,
    abi: str = "stable",
    target: str = TARGET,
    callees: tuple[str, ...] = (),
) -> MeasureTask:
    return MeasureTask(
        exploration_id=exploration_id,
        workload_id="workload",
        module_json=tvm.ir.save_json(module),
        target=target,
        num_cores=2,
        protocol_id=HOT,
        abi=abi,  # type: ignore[arg-type]
        callees=callees,
    )


def dispatch(exploration_id: str, trace: Trace, number: int = 0, purpose: Purpose = Purpose.SEARCH) -> Dispatch:
    return Dispatch(
        dispatch_id=f"dispatch-{number}",
        nonce="nonce",
        fence=1,
        attempt=1,
        purpose=purpose,
        candidate=Candidate(
            exploration_id=exploration_id,
            number=number,
            trace=trace,
            module_hash=str(number),
            origin=CandidateOrigin.RANDOM,
        ),
    )


def export_order(exploration_id: str, trace: Trace | None, processes: int = 1) -> ExportOrder:
    """An export whose latencies no test reads: any latency is as fast as likely, so one round of timing suffices."""
    return ExportOrder(exploration_id=exploration_id, trace=trace, processes=processes, likely_s=1.0)
