"""What the instructions of a matrix unit access.

A load or store names the first element only: the rows were set before. ``judged_schedule`` permits such calls only in
our own tensor intrinsics, which name the last element in a statement of its own.
"""

from typing import Any, Final

import tvm
from tvm import tirx
from tvm.ir import Call, TensorLoad

from tunefarm_search.tvm.tensor_intrinsics.matrix_tiles import TILE_INTRINSICS
from tunefarm_search.validation.permitted_nodes import ADDRESS

_CALL: Final = "tirx.call_llvm_intrin"


def first_elements(call: Any) -> list[Any] | None:
    """Loads of the first elements that an instruction accesses; None if it is another call or has another form."""
    if _intrinsic(call) not in TILE_INTRINSICS:
        return None
    found = []
    for argument in call.args[1:]:
        if isinstance(argument, Call):
            is_address = _name(argument) == ADDRESS and isinstance(argument.args[0], TensorLoad)
            if not is_address:
                return None
            found.append(argument.args[0])
        elif not isinstance(argument, tirx.IntImm):
            return None
    return found


def _intrinsic(call: Any) -> str:
    if _name(call) != _CALL or not isinstance(call.args[0], tirx.IntImm):
        return ""
    return str(tvm.target.codegen.llvm_get_intrinsic_name(int(call.args[0])))


def _name(call: Any) -> str:
    return str(getattr(call.op, "name", ""))
