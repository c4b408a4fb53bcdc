"""What the instructions of a matrix unit access.

A load or store names the first element only: the rows were set before. ``judged_schedule`` permits such calls only in
our own tensor intrinsics, which name the last element in a statement of its own.
"""

from typing import Any

from tvm import tirx
from tvm.ir import Call, TensorLoad

from tunefarm_search.tvm.tensor_intrinsics.matrix_tiles import TILE_INTRINSICS, intrinsic_of
from tunefarm_search.validation.permitted_nodes import ADDRESS


def first_elements(call: Any) -> list[Any] | None:
    """Loads of the first elements that an instruction accesses; None if it is another call or has another form."""
    if intrinsic_of(call) not in TILE_INTRINSICS:
        return None
    found = []
    for argument in call.args[1:]:
        if isinstance(argument, Call):
            is_address = str(getattr(argument.op, "name", "")) == ADDRESS and isinstance(argument.args[0], TensorLoad)
            if not is_address:
                return None
            found.append(argument.args[0])
        elif not isinstance(argument, tirx.IntImm):
            return None
    return found
