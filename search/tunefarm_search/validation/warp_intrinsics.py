"""What TVM's intrinsics for the threads of a warp access: reductions across threads, and tensor cores by ``wmma``."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tvm import tirx
from tvm.ir import Call

ALL_REDUCE: Final = "tirx.tvm_thread_allreduce"
"""Its arguments load what it reads and what it writes. TVM allocates the memory in which threads exchange values."""
_FILL: Final = "tirx.tvm_fill_fragment"
_MULTIPLY: Final = "tirx.tvm_mma_sync"
_COPIES: Final = ("tirx.tvm_load_matrix_sync", "tirx.tvm_store_matrix_sync")
_DATA: Final = "tirx.buffer_data"
_POINTER: Final = "tirx.tvm_access_ptr"
_TYPE: Final = "tirx.type_annotation"
_SIDE: Final = 16
"""Fragments are square, so that a layout and a kind of matrix change nothing."""


@dataclass(frozen=True)
class Elements:
    """``count`` elements of a buffer's memory from ``index * count_of_index`` on."""

    buffer: Any
    index: Any
    count: int
    count_of_index: int = 1


def fragment_accesses(call: Any) -> list[Elements] | None:
    """All that a call of ``wmma`` accesses; None if it is another call, or one that cannot be analysed."""
    try:
        return list(_accesses(call))
    except _NotAnalysed:
        return None


class _NotAnalysed(Exception):
    pass


def _accesses(call: Any) -> Iterator[Elements]:
    name, arguments = _name(call), call.args
    if name == _MULTIPLY:
        for at in range(0, len(arguments), 2):
            yield _fragment(arguments[at], arguments[at + 1])
    elif name == _FILL or name in _COPIES:
        if [_number(each) for each in arguments[1:4]] != [_SIDE] * 3:
            raise _NotAnalysed
        yield _fragment(arguments[0], arguments[4])
        if name == _FILL and not isinstance(arguments[5], (tirx.IntImm, tirx.FloatImm)):
            raise _NotAnalysed
        if name in _COPIES:
            yield _rows(arguments[5], _number(arguments[6]))
    else:
        raise _NotAnalysed


def _fragment(data: Any, number: Any) -> Elements:
    return Elements(_buffer(data), number, _SIDE * _SIDE, _SIDE * _SIDE)


def _rows(pointer: Any, stride: int) -> Elements:
    """The elements between the first and the last of a matrix whose rows are ``stride`` elements apart."""
    if _name(pointer) != _POINTER or stride < _SIDE:
        raise _NotAnalysed
    annotation, data, offset, *_ = pointer.args
    buffer = _buffer(data)
    if _name(annotation) != _TYPE or str(annotation.ty.dtype) != str(buffer.dtype):
        raise _NotAnalysed
    return Elements(buffer, offset, stride * (_SIDE - 1) + _SIDE)


def _buffer(data: Any) -> Any:
    if _name(data) != _DATA:
        raise _NotAnalysed
    return data.args[0]


def _number(expression: Any) -> int:
    if not isinstance(expression, tirx.IntImm):
        raise _NotAnalysed
    return int(expression)


def _name(call: Any) -> str:
    return str(getattr(call.op, "name", "")) if isinstance(call, Call) else ""
