"""What the rules need to know of a block: iterators, accesses along them, and how expensive an iteration is."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import tvm
import tvm_ffi

from tunefarm_search.space.access_pattern import AccessPattern, BufferAccess, access_pattern_in
from tunefarm_search.validation.index_range import holds_load

CHEAP_CALLS: Final = frozenset(
    {"if_then_else", "likely", "bitwise_and", "bitwise_or", "bitwise_not", "bitwise_xor", "shift_right", "shift_left",
     "fabs", "isnan", "reinterpret", "fma", "max_value", "min_value"}
)  # fmt: skip

ARITHMETIC: Final = (
    *(tvm.tirx.Add, tvm.tirx.Sub, tvm.tirx.Mul, tvm.tirx.Div),
    *(tvm.tirx.Max, tvm.tirx.Min, tvm.tirx.Select),
)


@dataclass(frozen=True)
class BlockCostConfig:
    """The constants by which the rules estimate a block. Times are rough, of vectors on one core.

    Attributes:
        access_ns: time of each read and write of an iteration.
        operation_ns: time of each operation in floating point.
        expensive_call_ns: time of each call that is not one instruction or two, such as ``exp``.
        worth_threads_ns: work that outweighs starting threads.
        few_operations: operations in floating point that are cheaper to repeat than to keep the result of.
        near_elements: elements between neighbouring results of a strided window that are still worth loading along
            with it.
    """

    access_ns: float = 0.05
    operation_ns: float = 0.015
    expensive_call_ns: float = 5
    worth_threads_ns: float = 10_000
    few_operations: int = 12
    near_elements: int = 4


DEFAULTS: Final = BlockCostConfig()


@dataclass(frozen=True)
class BlockFacts:
    """A leaf block before its loops are changed.

    Attributes:
        calls: names of the intrinsics that an iteration calls, such as ``exp``.
        operations: in floating point, of an iteration.
        size: nodes of its expressions, indices included.
        chooses: whether an iteration computes one of several values, as padding and concatenation do.
        conditional: the iterators that the choice depends on.
        partitionable: those of them that TVM divides into ranges with one choice each. It crashes where the choice also
            depends on elements of buffers, and fails at some with several choices in one value of another.
        backward: the iterators along which it reads in the opposite direction, as flips do.
        gathers: whether it reads at places that are not affine, such as those in another input.
        is_plain: whether an iteration only copies an element, or converts its type.
        is_output: whether the function returns what it writes.
    """

    name: str
    pattern: AccessPattern
    calls: tuple[str, ...]
    operations: int
    size: int
    chooses: bool
    conditional: frozenset[int]
    partitionable: frozenset[int]
    backward: frozenset[int]
    gathers: bool
    is_plain: bool
    is_output: bool

    @property
    def reduces(self) -> bool:
        """Whether it has an iterator over what it sums up."""
        return not all(self.pattern.spatial)

    @property
    def iterations(self) -> float:
        """How often its statement runs."""
        return self.pattern.iterations

    @property
    def sums_partially(self) -> bool:
        """Whether it reduces along neighbouring elements, so that partial results side by side are a vector."""
        axis = self.contiguous_axis
        return axis is not None and not self.pattern.spatial[axis]

    @property
    def results(self) -> int:
        """Number of elements that it writes, if it writes each once."""
        spatial = zip(self.pattern.extents, self.pattern.spatial, strict=True)
        return math.prod(extent for extent, is_spatial in spatial if is_spatial)

    @property
    def expensive_calls(self) -> int:
        """Number of calls of an iteration that are not one instruction or two."""
        return sum(call not in CHEAP_CALLS for call in self.calls)

    @property
    def work_ns(self) -> float:
        """Estimated nanoseconds of all iterations on one core, in vectors."""
        accesses_ns = DEFAULTS.access_ns * len(self.strides)
        operations_ns = DEFAULTS.operation_ns * self.operations
        return self.iterations * (accesses_ns + operations_ns + DEFAULTS.expensive_call_ns * self.expensive_calls)

    @property
    def has_many_operations(self) -> bool:
        """Whether repeating an iteration's arithmetic takes longer than keeping its result."""
        return self.operations > DEFAULTS.few_operations

    @property
    def is_expensive(self) -> bool:
        """Whether an iteration takes longer than keeping its result, as ``exp`` does."""
        return self.expensive_calls > 0 or self.has_many_operations

    @cached_property
    def strides(self) -> tuple[tuple[float, ...], ...]:
        """Elements that each read, and then each write, advances with each iterator."""
        return tuple(
            flat_strides(access, len(self.pattern.extents)) for access in (*self.pattern.reads, *self.pattern.writes)
        )

    @cached_property
    def contiguous_axis(self) -> int | None:
        """The iterator along which results are contiguous and the largest read nearly, or else that read alone."""
        accesses = sorted(self.pattern.reads, key=lambda read: -math.prod(read.extents)) or list(self.pattern.writes)
        written = self.strides[-1]
        for access in accesses:
            steps = flat_strides(access, len(written))
            near = [
                n for n, step in enumerate(steps) if 0 < step <= DEFAULTS.near_elements and self.pattern.extents[n] > 1
            ]
            results = [n for n in near if self.pattern.spatial[n] and written[n] == 1.0]
            if results:
                return results[-1]
            contiguous = [n for n in near if steps[n] == 1.0]
            if contiguous:
                return contiguous[-1]
        return None

    @property
    def slides(self) -> bool:
        """Whether it reduces windows of its largest read only, as pooling and depthwise convolution do."""
        spatial = self.pattern.spatial
        read = max(self.pattern.reads, key=lambda read: math.prod(read.extents), default=None)
        if read is None:
            return False
        shared = [
            n for steps in read.strides if any(map(_both, steps, spatial)) for n, step in enumerate(steps) if step
        ]
        moved = {n for steps in read.strides for n, step in enumerate(steps) if step}
        wanted = {n for n, extent in enumerate(self.pattern.extents) if extent > 1}
        reduced = {n for n in wanted if not spatial[n]}
        return wanted <= moved and reduced <= set(shared)

    def in_vectors(self, axis: int) -> bool:
        """Whether neighbours along an axis load neighbours or the same element, by the same choice.

        TVM turns vectors of anything else into scalars one by one; LLVM makes more of a plain loop.
        """
        if axis in self.conditional | self.backward or self.gathers:
            return False
        return all(steps[axis] in (0.0, 1.0) for steps in self.strides)

    def merges(self, outer: int, inner: int) -> bool:
        """Whether every access treats two neighbouring iterators as one: contiguous along both, or along neither."""
        if self.backward & {outer, inner}:
            return False
        extent = self.pattern.extents[inner]
        return all(steps[outer] == steps[inner] * extent for steps in self.strides)


def is_worth_threads(work_ns: float) -> bool:
    """Whether work on one core outweighs starting threads for it."""
    return work_ns > DEFAULTS.worth_threads_ns


def _both(step: float, is_spatial: bool) -> bool:
    return bool(step) and is_spatial


def flat_strides(access: BufferAccess, iterators: int) -> tuple[float, ...]:
    """Elements of the flat buffer by which an access advances with each iterator."""
    total = [0.0] * iterators
    size = 1
    for extent, steps in zip(reversed(access.extents), reversed(access.strides), strict=True):
        total = [known + step * size for known, step in zip(total, steps, strict=True)]
        size *= extent
    return tuple(total)


def blocks_of(schedule: Any) -> list[Any]:
    """The blocks directly under the root, in the order in which they run."""
    return list(schedule.get_child_blocks(schedule.get_sblock("root")))


def facts_of(schedule: Any, block: Any) -> BlockFacts | None:
    """The facts of a block whose loops are still its iterators; None for any other block."""
    held = schedule.get(block)
    pattern = access_pattern_in(schedule, block)
    if pattern is None or not pattern.writes:
        return None
    calls: list[Any] = []
    arithmetic: list[Any] = []
    tvm_ffi.structural_walk(held.body, (tvm.ir.Call, calls.append), order="post")
    tvm_ffi.structural_walk(held.body, (ARITHMETIC, arithmetic.append), order="post")
    conditions = [call.args[0] for call in filter(_is_choice, calls)]
    selects = [each for each in arithmetic if isinstance(each, tvm.tirx.Select)]
    conditions += [each.condition for each in selects if _depends_on_place(each.condition, held)]
    conditional = _iterators_in(conditions, held)
    unsuited = conditions if _nests_several(calls) else filter(holds_load, conditions)
    value = getattr(held.body, "value", None)
    while isinstance(value, tvm.tirx.Cast):
        value = value.value
    return BlockFacts(
        name=str(held.name_hint),
        pattern=pattern,
        calls=tuple(_name(call) for call in calls),
        operations=sum("float" in str(each.ty.dtype) for each in arithmetic),
        size=len(arithmetic) + len(calls),
        chooses=bool(conditions),
        conditional=conditional,
        partitionable=conditional - _iterators_in(unsuited, held),
        backward=_iterators_in(_subtracted(held), held),
        gathers=any(getattr(each.extent, "value", 0) != 1 for read in held.reads for each in read.region),
        is_plain=isinstance(value, tvm.ir.TensorLoad),
        is_output=not schedule.get_consumers(block),
    )


def _subtracted(block: Any) -> list[Any]:
    """What the indices of a block's reads subtract."""
    found: list[Any] = []
    for read in block.reads:
        for dimension in read.region:
            tvm_ffi.structural_walk(dimension.min, (tvm.tirx.Sub, found.append), order="post")
    return [each.b for each in found]


def _depends_on_place(condition: Any, block: Any) -> bool:
    """Whether a condition depends on iterators, and not only on what is read at them.

    TVM and LLVM make vectors of choices between values.
    """
    without_reads = tvm_ffi.structural_map(condition, (tvm.ir.TensorLoad, lambda read: tvm.tirx.const(0, read.ty)))
    return bool(_iterators_in([without_reads], block))


def _nests_several(calls: Sequence[Any]) -> bool:
    """Whether a choice has several others in what it gives first."""
    for call in filter(_is_choice, calls):
        inner: list[Any] = []
        tvm_ffi.structural_walk(call.args[1], (tvm.ir.Call, inner.append), order="post")
        if sum(map(_is_choice, inner)) > 1:
            return True
    return False


def _is_choice(call: Any) -> bool:
    return _name(call) == "if_then_else"


def _iterators_in(conditions: Iterable[Any], block: Any) -> frozenset[int]:
    """Numbers of the iterators of a block that occur in expressions."""
    found: list[Any] = []
    for condition in conditions:
        tvm_ffi.structural_walk(condition, (tvm.ir.Var, found.append), order="post")
    return frozenset(
        number for number, each in enumerate(block.iter_vars) if any(each.var.same_as(variable) for variable in found)
    )


def _name(call: Any) -> str:
    return str(getattr(call.op, "name", "extern")).rsplit(".", 1)[-1]
