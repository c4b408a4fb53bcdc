"""The signature of a workload's function, inferred from its body."""

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.conversation.argument import Argument


def arguments_of(module: tvm.IRModule) -> tuple[Argument, ...]:
    """Return the parameters of the function ``main``, in order.

    Raises:
        BadInput: a parameter is not a tensor, or its shape is not constant.
    """
    function = module["main"]
    parameters = list(function.params)
    written = {index for buffer in _written(function) if (index := _position(parameters, buffer)) is not None}
    read = {index for buffer in _read(function) if (index := _position(parameters, buffer)) is not None}
    extents = _index_extents(function, parameters)
    return tuple(
        Argument(
            tensor=_tensor(parameter, index in written),
            holds_input=index in read or index not in written,
            index_extent=extents.get(index),
        )
        for index, parameter in enumerate(parameters)
    )


def _tensor(parameter: Any, is_output: bool) -> TensorArgument:
    try:
        shape = tuple(int(extent) for extent in parameter.shape)
        dtype = str(parameter.dtype)
    except (AttributeError, TypeError, ValueError) as error:
        raise BadInput(
            "module", f"parameter {parameter.name} is not a tensor of a constant shape.", "Bind its shape first."
        ) from error
    return TensorArgument(name=str(parameter.name), shape=shape, dtype=dtype, is_output=is_output)


def _position(parameters: list[Any], buffer: Any) -> int | None:
    for index, parameter in enumerate(parameters):
        if buffer.same_as(parameter):
            return index
    return None


def _nodes(root: Any, kind: type) -> list[Any]:
    found: list[Any] = []

    def keep(node: Any) -> None:
        found.append(node)

    tvm_ffi.structural_walk(root, (kind, keep), order="post")
    return found


def _written(function: Any) -> Iterator[Any]:
    for block in _nodes(function.body, tvm.s_tir.SBlock):
        yield from (region.source for region in block.writes)
    yield from (store.buffer for store in _nodes(function.body, tvm.tirx.BufferStore))


def _read(function: Any) -> Iterator[Any]:
    """Yield what blocks declare as read, which excludes partial sums in their own outputs."""
    for block in _nodes(function.body, tvm.s_tir.SBlock):
        yield from (region.source for region in block.reads)


def _index_extents(function: Any, parameters: list[Any]) -> dict[int, int]:
    """Map each integer parameter that indexes a buffer to the smallest extent it indexes."""
    loads = [(load.source, load.indices) for load in _nodes(function.body, tvm.ir.TensorLoad)]
    stores = [(store.buffer, store.indices) for store in _nodes(function.body, tvm.tirx.BufferStore)]
    extents: dict[int, int] = {}
    for buffer, subscripts in loads + stores:
        for subscript, extent in zip(subscripts, buffer.shape, strict=False):
            for inner in _nodes(subscript, tvm.ir.TensorLoad):
                index = _position(parameters, inner.source)
                if index is not None:
                    extents[index] = min(extents.get(index, int(extent)), int(extent))
    return extents
