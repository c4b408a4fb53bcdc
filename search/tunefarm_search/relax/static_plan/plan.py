"""The kernel calls of a model in order, with the places of their tensors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import tvm
from tvm import relax

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.model import ModelEntry
from tunefarm_search.relax.constants import Array, array_of, is_constant, numpy_dtype
from tunefarm_search.relax.expressions import is_reshape
from tunefarm_search.relax.loops.private_functions import with_inlined_calls
from tunefarm_search.relax.preparation import PreparedModel
from tunefarm_search.relax.static_plan.arena import Arena, Lifetime, aligned, placed

Place = Literal["input", "output", "weights", "arena"]
COPY: Final = ""
"""The function of a call that copies its first tensor to its second."""
_FIX: Final = "Use the model with tunefarm.load_model, or take that part out of it."


@dataclass(frozen=True)
class PlannedTensor:
    """A contiguous tensor.

    Attributes:
        shape: its extents.
        dtype: as TVM writes it.
        place: the memory that it stands in.
        position: its offset in bytes for ``weights`` and ``arena``, the number of the input or output for the others.
    """

    shape: tuple[int, ...]
    dtype: str
    place: Place
    position: int


@dataclass(frozen=True)
class KernelCall:
    """A call of a kernel with tensors, by their numbers in the plan, outputs last; ``COPY`` copies bytes."""

    function: str
    tensors: tuple[int, ...]


@dataclass(frozen=True)
class StaticPlan:
    """One entry of a model without control flow.

    Attributes:
        entry: its inputs and outputs, in the order of their numbers.
        tensors: all tensors, with those of the entry that are read or written in the shapes that it says.
        calls: in order. Each reads tensors that are inputs, weights or outputs of calls before it.
        weights: the arrays with their offsets in the file of the weights, in bytes.
        weights_bytes: the size of that file.
        arena_bytes: the size of the memory for intermediate tensors.
    """

    entry: ModelEntry
    tensors: tuple[PlannedTensor, ...]
    calls: tuple[KernelCall, ...]
    weights: tuple[tuple[int, Array], ...] = field(repr=False)
    weights_bytes: int
    arena_bytes: int

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the kernels that it calls."""
        return tuple(dict.fromkeys(call.function for call in self.calls if call.function != COPY))


DTYPES: Final = frozenset(
    {"bool", "float16", "bfloat16", "float32", "float64"}
    | {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
)
"""Of tensors: elements of whole bytes, which the runtime and devices know."""
MAX_ARGUMENTS: Final = 64
"""Tensors of one call, as in ``TUNEFARM_MAX_ARGUMENTS`` of the runtime."""


def static_plan(model: PreparedModel, entry: str) -> StaticPlan:
    """Plan one entry of a model.

    Raises:
        BadInput: the entry has control flow, or calls something else than kernels.
    """
    described = next((each for each in model.entries if each.name == entry), None)
    if described is None:
        names = ", ".join(each.name for each in model.entries)
        raise BadInput("entry", f"the model has no function {entry!r}.", f"Give one of: {names}.")
    module = with_inlined_calls(model.module)
    return _Planning(module, described).plan(module[entry])


@dataclass
class _Buffer:
    """Memory of a tensor and of all reshaped views of it. ``begins`` is the call that writes it."""

    size_bytes: int
    place: Place
    position: int = 0
    begins: int = 0
    ends: int = 0


@dataclass(frozen=True)
class _View:
    buffer: _Buffer
    shape: tuple[int, ...]
    dtype: str


class _Planning:
    """Reads the bindings of one function in order."""

    def __init__(self, module: Any, entry: ModelEntry) -> None:
        self._module = module
        self._entry = entry
        self._values: dict[Any, Any] = {}  # a _View, or a list of such values for a tuple
        self._views: list[_View] = []
        self._numbers: dict[tuple[int, tuple[int, ...], str], int] = {}  # of views, by the identity of their buffers
        self._calls: list[KernelCall] = []
        self._constants: list[tuple[Any, _View]] = []
        self._weights: list[tuple[int, Array]] = []
        self._weights_bytes = 0

    def plan(self, function: Any) -> StaticPlan:
        inputs: list[_View] = []
        for number, (parameter, described) in enumerate(zip(function.params, self._entry.inputs, strict=True)):
            size_bytes = _size_bytes(described.shape, described.dtype)
            inputs.append(_View(_Buffer(size_bytes, "input", number), described.shape, described.dtype))
            self._values[parameter] = inputs[-1]
        for block in function.body.blocks:
            for binding in block.bindings:
                self._bind(binding)
        self._give(self._value(function.body.body))
        for each in inputs:
            if any(known.buffer is each.buffer for known in self._views):
                self._number(each)  # its own shape, if only views of it are read
        arena = self._arranged()
        return StaticPlan(
            self._entry,
            tuple(
                PlannedTensor(each.shape, each.dtype, each.buffer.place, each.buffer.position) for each in self._views
            ),
            tuple(self._calls),
            tuple(self._weights),
            self._weights_bytes,
            arena.size_bytes,
        )

    def _bind(self, binding: Any) -> None:
        value = binding.value
        if not isinstance(binding, relax.VarBinding) or isinstance(value, relax.If | relax.Function):
            raise self._refused("has a condition or a loop")
        is_call = isinstance(value, relax.Call)
        self._values[binding.var] = self._called(value) if is_call else self._value(value)

    def _called(self, call: Any) -> Any:
        if not isinstance(call.op, tvm.ir.Op) or call.op.name != "relax.call_tir" or len(call.args) != 2:
            name = call.op.name if isinstance(call.op, tvm.ir.Op) else "a function of its own"
            raise self._refused(f"calls {name.removeprefix('relax.')}")
        variable, given = call.args
        read: list[_View] = []
        for each in given.fields if isinstance(given, relax.Tuple) else [given]:
            found = self._value(each)
            read += found if isinstance(found, list) else [found]
        kinds = call.ty_args[0]
        is_tuple = isinstance(kinds, relax.TupleType)
        shapes = [self._tensor(kind) for kind in (kinds.fields if is_tuple else [kinds])]
        if len(read) == len(shapes) == 1 and is_reshape(self._module[variable]) and read[0].dtype == shapes[0][1]:
            return _View(read[0].buffer, *shapes[0])
        written = [_View(_Buffer(_size_bytes(*each), "arena", begins=len(self._calls)), *each) for each in shapes]
        self._call(str(variable.name_hint), [*read, *written])
        return written if is_tuple else written[0]

    def _call(self, function: str, tensors: Sequence[_View]) -> None:
        if len(tensors) > MAX_ARGUMENTS:
            raise self._refused(f"calls {function} with {len(tensors)} tensors, more than {MAX_ARGUMENTS}")
        for each in tensors:
            each.buffer.ends = len(self._calls)
        self._calls.append(KernelCall(function, tuple(self._number(each) for each in tensors)))

    def _number(self, view: _View) -> int:
        if view.dtype not in DTYPES:
            raise self._refused(f"has a tensor of {view.dtype}")
        number = self._numbers.setdefault((id(view.buffer), view.shape, view.dtype), len(self._views))
        if number == len(self._views):
            self._views.append(view)
        return number

    def _value(self, value: Any) -> Any:
        if is_constant(value):
            return self._constant(value)
        if isinstance(value, relax.Tuple):
            return [self._value(each) for each in value.fields]
        if isinstance(value, relax.TupleGetItem):
            return self._value(value.tuple_value)[int(value.index)]
        if isinstance(value, relax.Var) and value in self._values:
            return self._values[value]
        raise self._refused(f"has a value of the kind {type(value).__name__}")

    def _constant(self, constant: Any) -> _View:
        for known, view in self._constants:
            if known.same_as(constant) or known.value.same_as(constant.value):
                return view
        array = array_of(constant)
        view = _View(_Buffer(array.nbytes, "weights", self._weights_bytes), tuple(array.shape), str(constant.ty.dtype))
        self._constants.append((constant, view))
        self._weights.append((self._weights_bytes, array))
        self._weights_bytes += aligned(array.nbytes)
        return view

    def _give(self, result: Any) -> None:
        """Make the memory of each result that of an output; copy what has other memory already."""
        for number, view in enumerate(_flat(result)):
            if view.buffer.place == "arena":
                view.buffer.place, view.buffer.position = "output", number
                self._number(view)
                continue
            output = _View(_Buffer(view.buffer.size_bytes, "output", number), view.shape, view.dtype)
            self._call(COPY, [view, output])

    def _arranged(self) -> Arena:
        buffers = list({id(each.buffer): each.buffer for each in self._views if each.buffer.place == "arena"}.values())
        arena = placed([Lifetime(each.size_bytes, each.begins, each.ends) for each in buffers])
        for buffer, offset in zip(buffers, arena.offsets, strict=True):
            buffer.position = offset
        return arena

    def _tensor(self, kind: Any) -> tuple[tuple[int, ...], str]:
        shape = getattr(kind, "shape", None)
        if shape is None or not all(isinstance(extent, tvm.tirx.IntImm) for extent in shape):
            raise self._refused("has a tensor of dynamic shape")
        return tuple(int(extent) for extent in shape), str(kind.dtype)

    def _refused(self, what: str) -> BadInput:
        return BadInput("model", f"{self._entry.name} {what}, which needs TVM's virtual machine.", _FIX)


def _flat(value: Any) -> list[_View]:
    return [leaf for each in value for leaf in _flat(each)] if isinstance(value, list) else [value]


def _size_bytes(shape: Sequence[int], dtype: str) -> int:
    return math.prod(shape) * int(numpy_dtype(dtype).itemsize)
