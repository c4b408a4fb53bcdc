"""Floats that are divided by the constant zero, which TVM does not compile. They are multiplied by infinity."""

import math
from typing import Any, Final

import tvm
from tvm import topi

from tunefarm_search.relax.constants import array_of, is_constant

DIVIDE: Final = "relax.divide"


def legalize_divide(builder: Any, call: Any) -> Any:
    """A call of ``divide`` as a call of a TIR function, for TVM's pass ``LegalizeOps``."""
    dividend, divisor = call.args
    dtype = str(divisor.ty.dtype)
    if is_constant(divisor) and "float" in dtype and array_of(divisor).ndim == 0:
        zero = float(array_of(divisor))
        if zero == 0 and not is_constant(dividend):
            infinity = tvm.tirx.const(math.copysign(math.inf, zero), dtype)
            return builder.call_te(topi.multiply, dividend, infinity, primfunc_name_hint="divide")
    return tvm.ir.Op.get(DIVIDE).get_attr("FLegalize")(builder, call)
