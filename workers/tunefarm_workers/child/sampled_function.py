"""The untuned function of a large workload, computed at single points of its output and timed for a few iterations.

A whole call would take from seconds to minutes. The loops stay as written, except that the outermost ones of each nest
begin where the caller chooses and run for one or a few iterations.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, Self

import tvm
import tvm_ffi
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.tirx import For, ForKind, IterVar, PrimFunc, SeqStmt, Var

from tunefarm_workers.builder.scheduled_module import build_in_place
from tunefarm_workers.builder.shipped_module import ENTRY
from tunefarm_workers.correctness.reordered_module import LONG_STEPS

LONG_S: Final = 1.0
"""Calls of the untuned function that take this long or longer are estimated instead of made."""
_POINT_STEPS: Final = 8_000_000
_WINDOW_STEPS: Final = 6_000_000
_SLOW_SHARE: Final = 0.02
"""Nests with a smaller share of the steps always run whole."""
_REFUSALS = (tvm.s_tir.schedule.ScheduleError, tvm.error.InternalError, ValueError, TypeError, RuntimeError)
_DATA_PARALLEL, _REDUCTION = int(IterVar.DataPar), int(IterVar.CommReduce)


class NotSampled(ValueError):
    """The function is not a sequence of plain loop nests, or its output is not written point by point."""


@dataclass(frozen=True)
class _Nest:
    """One block in its loops, outermost first. Each iteration of the first ``leading`` loops has its own elements."""

    loops: tuple[Any, ...]
    leading: int
    inside: Any

    @classmethod
    def of(cls, statement: Any) -> Self:
        """Parse the nest. Raises NotSampled."""
        loops: list[Any] = []
        while isinstance(statement, For):
            loops.append(statement)
            statement = statement.body
        if not isinstance(statement, SBlockRealize) or not all(map(_is_plain, loops)):
            raise NotSampled("its loops are not a plain nest")
        values, variables = statement.iter_values, statement.block.iter_vars
        kinds = [int(variable.iter_type) for variable in variables]
        if len(values) != len(loops) or not all(
            value.same_as(loop.loop_var) for value, loop in zip(values, loops, strict=True)
        ):
            raise NotSampled("its blocks do not use their loop variables directly")
        if not set(kinds) <= {_DATA_PARALLEL, _REDUCTION}:
            raise NotSampled("its loops depend on their order")
        leading = next((position for position, kind in enumerate(kinds) if kind == _REDUCTION), len(kinds))
        return cls(tuple(loops), leading, statement)

    @property
    def extents(self) -> list[int]:
        return [int(loop.extent) for loop in self.loops]

    @property
    def steps(self) -> int:
        return prod(self.extents)


@dataclass(frozen=True)
class _Window:
    """The timed part of a slow nest: ``sampled`` consecutive iterations out of ``iterations`` of its outer loops."""

    iterations: int
    sampled: int


class SampledFunction:
    """Computes single points of the output and estimates the latency of the function.

    A point is an index of the output's first ``leading`` dimensions and includes all elements of the others.
    """

    def __init__(
        self, at_point: Any, shape: tuple[int, ...], leading: int, windowed: Any, windows: list[_Window]
    ) -> None:
        self.leading = leading
        self._shape = shape
        self._at_point = at_point
        self._windowed = windowed
        self._windows = windows

    @classmethod
    def of(cls, module: tvm.IRModule, target: Any) -> Self | None:
        """Create it for a function that may be slow; None for a fast one, and for one that cannot be sampled."""
        try:
            function = module[ENTRY]
            nests = _nests(function)
            if sum(nest.steps for nest in nests) < LONG_STEPS:
                return None
            _require_plain_addresses(function)
            at_point, shape, leading = _at_a_point(module)
            windowed, windows = _windowed(function, nests)
            return cls(_built(at_point, target), shape, leading, _built(windowed, target), windows)
        except _REFUSALS:
            return None

    def compute(self, tensors: Sequence[Any], element: int) -> None:
        """Compute the point that contains ``element``, a row-major index of the output."""
        extents = self._shape[: self.leading]
        number = element // prod(self._shape[self.leading :])
        point = []
        for extent in reversed(extents):
            point.append(number % extent)
            number //= extent
        self._at_point(*tensors, *reversed(point))

    def seconds(self, tensors: Sequence[Any]) -> float:
        """Estimated seconds of one call. The output is invalid afterwards.

        Uses thread time: interference during the few sampled iterations would be extrapolated to all of them.
        """
        counts = [window.sampled for window in self._windows]
        self._thread_time_s(tensors, counts)  # warm-up: maps memory and fills caches
        base_s = self._thread_time_s(tensors, counts)
        total_s = base_s
        for number, window in enumerate(self._windows):
            twice = [sampled * (1 + (position == number)) for position, sampled in enumerate(counts)]
            more_s = max(self._thread_time_s(tensors, twice) - base_s, 0.0)
            total_s += (window.iterations - window.sampled) * more_s / window.sampled
        return max(total_s, 1e-9)

    def _thread_time_s(self, tensors: Sequence[Any], counts: list[int]) -> float:
        began_s = time.thread_time()
        self._windowed(*tensors, *counts)
        return time.thread_time() - began_s


def _built(function: Any, target: Any) -> Any:
    return build_in_place(tvm.IRModule({ENTRY: function}), target)[ENTRY]


def _is_plain(loop: Any) -> bool:
    return int(loop.kind) == ForKind.SERIAL and int(loop.min) == 0 and loop.step is None


def _nests(function: Any) -> list[_Nest]:
    if not isinstance(function.body, SBlockRealize):
        raise NotSampled("it has no root block")
    return list(map(_Nest.of, _statements(function.body.block.body)))


def _statements(body: Any) -> list[Any]:
    return list(body.seq) if isinstance(body, SeqStmt) else [body]


def _require_plain_addresses(function: Any) -> None:
    """Windows leave parts of intermediate tensors unwritten, whose contents must not become an address."""
    loads: list[Any] = []
    stores: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tvm.ir.TensorLoad, loads.append), order="post")
    tvm_ffi.structural_walk(function.body, (tvm.tirx.BufferStore, stores.append), order="post")
    inner: list[Any] = []
    for node in (*loads, *stores):
        for index in node.indices:
            tvm_ffi.structural_walk(index, (tvm.ir.TensorLoad, inner.append), order="post")
    if inner:
        raise NotSampled("its addresses depend on tensor contents")


def _at_a_point(module: tvm.IRModule) -> tuple[Any, tuple[int, ...], int]:
    """The function restricted to one point, given by extra parameters; the output's shape; the number of parameters.

    Intermediate tensors are computed only where the point depends on them.
    """
    nests = _nests(module[ENTRY])
    written = _output(module[ENTRY], nests)
    for depth in range(1, nests[-1].leading + 1):
        function, body, loops = _fused(module, depth)
        if _steps(body) <= _POINT_STEPS:
            break
    else:
        raise NotSampled("each point takes a large part of the function")
    points = [Var(f"point_{number}", "int32") for number in range(depth)]
    for loop, point in zip(reversed(loops), reversed(points), strict=True):
        body = For(loop.loop_var, point, 1, loop.kind, body)
    return _with(function, body, points), tuple(int(extent) for extent in written.shape), depth


def _fused(module: tvm.IRModule, depth: int) -> tuple[Any, Any, list[Any]]:
    """The function with all nests inside the ``depth`` outermost loops of the last one; their body, and those loops."""
    schedule = Schedule(module)
    *inner, last = schedule.get_child_blocks(schedule.get_sblock("root"))
    for block in reversed(inner):
        schedule.compute_at(block, schedule.get_loops(last)[depth - 1])
    function = schedule.mod[ENTRY]
    body, loops = function.body.block.body, []
    for _ in range(depth):
        if not isinstance(body, For):
            raise NotSampled("a part of it cannot be computed for a single point")
        loops.append(body)
        body = body.body
    return function, body, loops


def _output(function: Any, nests: list[_Nest]) -> Any:
    """The only output, written by the last nest in the order of its loops. Raises NotSampled."""
    regions = [region for nest in nests for region in nest.inside.block.writes]
    outputs = [parameter for region in regions for parameter in function.params if region.source.same_as(parameter)]
    nest, block = nests[-1], nests[-1].inside.block
    if len(outputs) != 1 or len(block.writes) != 1 or not block.writes[0].source.same_as(outputs[0]):
        raise NotSampled("it does not have one output")
    ranges = block.writes[0].region
    spatial = [variable.var for variable in block.iter_vars if int(variable.iter_type) == _DATA_PARALLEL]
    identical = len(ranges) == len(spatial) == nest.leading and all(
        int(extent.extent) == 1 and extent.min.same_as(variable)
        for extent, variable in zip(ranges, spatial, strict=True)
    )
    if not identical:
        raise NotSampled("its output is not written in the order of its loops")
    return outputs[0]


def _steps(body: Any) -> int:
    """How often the innermost bodies run."""
    total = 0
    for statement in _statements(body):
        if isinstance(statement, For):
            total += int(statement.extent) * _steps(statement.body)
        else:
            total += 1
    return total


def _windowed(function: Any, nests: list[_Nest]) -> tuple[Any, list[_Window]]:
    """The function with an extra parameter per slow nest: how many iterations of its outer loops to run."""
    total = sum(nest.steps for nest in nests)
    slow = [nest.steps > _SLOW_SHARE * total for nest in nests]
    budget = _WINDOW_STEPS // sum(slow)
    windows: list[_Window] = []
    counts: list[Any] = []
    bodies: list[Any] = []
    for nest, is_slow, statement in zip(nests, slow, _statements(function.body.block.body), strict=True):
        if not is_slow:
            bodies.append(statement)
            continue
        depth = next((d for d in range(1, nest.leading + 1) if nest.extents[d - 1] >= 4 and _fit(nest, d, budget)), 0)
        if not depth:
            raise NotSampled("a slow nest cannot be timed in part")
        count = Var(f"count_{len(counts)}", "int32")
        counts.append(count)
        windows.append(
            _Window(prod(nest.extents[:depth]), min(_fit(nest, depth, budget), nest.extents[depth - 1] // 4))
        )
        body = nest.loops[depth - 1].body
        for position, loop in reversed(list(enumerate(nest.loops[:depth]))):
            extent = count if position == depth - 1 else 1
            body = For(loop.loop_var, int(loop.extent) // 2, extent, loop.kind, body)
        bodies.append(body)
    return _with(function, bodies[0] if len(bodies) == 1 else SeqStmt(bodies), counts), windows


def _fit(nest: _Nest, depth: int, steps: int) -> int:
    """How many iterations of the loop at ``depth`` fit into ``steps``; 0 if one exceeds them."""
    return steps // (nest.steps // prod(nest.extents[:depth]))


def _with(function: Any, body: Any, parameters: Sequence[Any]) -> Any:
    root = function.body.block
    block = SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        body,
        root.init,
        root.alloc_buffers,
        root.match_buffers,
        root.annotations,
    )
    realize = SBlockRealize(function.body.iter_values, function.body.predicate, block)
    return PrimFunc([*function.params, *parameters], realize, function.ret_type, attrs=function.attrs)
