from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.models

pytest.importorskip("onnx")

from tvm import relax, tirx  # noqa: E402
from tvm.relax import op  # noqa: E402

from tests.models.library.operator_cases import F32, I8, I32, constant, integers  # noqa: E402
from tests.models.library.regions import Case, bindings  # noqa: E402
from tunefarm_schemas.bad_input import BadInput  # noqa: E402
from tunefarm_search.relax.constants import constant_of  # noqa: E402
from tunefarm_search.relax.onnx_graph import onnx_model, unsupported  # noqa: E402

IMAGE = [((1, 4, 7, 6), F32)]
REFUSED: Sequence[tuple[Case, str]] = [
    (
        Case("an operator without counterpart", [((4,), F32)], lambda x: op.cumsum(x, 0)),
        "relax.cumsum has no counterpart",
    ),
    (Case("bytes", [((4,), I8), ((4,), I8)], op.add), "it computes with int8"),
    (Case("a type", [((4,), "uint16")], lambda x: op.reshape(x, (2, 2))), "the element type uint16"),
    (Case("to bytes", [((4,), F32)], lambda x: op.astype(x, I8)), "float32 becomes int8"),
    (
        Case(
            "sums in 32 bits", [((1, 2, 5, 5), I8), ((3, 2, 3, 3), I8)], lambda x, w: op.nn.conv2d(x, w, out_dtype=I32)
        ),
        "it computes with int8",
    ),
    (Case("uneven windows", IMAGE, lambda x: op.nn.adaptive_avg_pool2d(x, (3, 2))), "its windows differ in size"),
    (
        Case("leaves the padding", IMAGE, lambda x: op.nn.avg_pool2d(x, 2, 2, ceil_mode=True, count_include_pad=True)),
        "its last window leaves the padding",
    ),
    (
        Case("circular padding", [((4, 5), F32)], lambda x: op.nn.pad(x, [1, 0, 0, 2], "circular")),
        "its mode is circular",
    ),
    (
        Case(
            "between two elements",
            [((1, 2, 8, 8), F32)],
            lambda x: op.image.resize2d(
                x, (4, 4), 0.0, "NCHW", "nearest_neighbor", "half_pixel", rounding_method="round"
            ),
        ),
        "a coordinate is between two elements",
    ),
    (Case("out of bounds", [((4, 5), F32)], lambda x: op.take(x, integers([4]), 0)), "an index is out of bounds"),
    (
        Case("unknown zero", [((4,), F32), ((), I8)], lambda x, z: op.quantize(x, constant(), z, 0, I8)),
        "not a constant",
    ),
    (
        Case("zero of another type", [((4,), I8)], lambda x: op.dequantize(x, constant(), integers(300, I32), 0)),
        "its zero point is not of int8",
    ),
    (
        Case("inner axes", [((2, 3, 4), F32)], lambda x: op.nn.layer_norm(x, constant(3), constant(3), [1])),
        "the last ones",
    ),
    (Case("softplus", [((4,), F32)], lambda x: op.nn.softplus(x, 2.0, 20.0)), "beta is 2"),
    (
        Case("other layout", IMAGE, lambda x: op.nn.conv2d(x, constant(3, 4, 3, 3), out_layout="NHWC")),
        "the result has the layout NHWC",
    ),
]


@pytest.mark.parametrize(("case", "reason"), REFUSED, ids=[case.name for case, _ in REFUSED])
def test_unsupported_bindings_have_a_reason_and_are_not_exported(case: Case, reason: str) -> None:
    module = case.function()
    found = [each for each in (unsupported(module, binding) for binding in bindings(module)) if each]
    assert any(reason in each for each in found)
    with pytest.raises(BadInput, match="cannot be exported to ONNX"):
        onnx_model(module["main"], None)


def test_dynamic_shapes_are_unsupported() -> None:
    extent = tirx.Var("n", "int64")
    parameter = relax.Var("x", relax.TensorType((extent, 4), F32))
    builder = relax.BlockBuilder()
    with builder.function("main", [parameter]):
        with builder.dataflow():
            result = builder.emit_output(op.exp(parameter))
        builder.emit_func_output(result)
    module = builder.get()
    assert unsupported(module, bindings(module)[0]) == "relax.exp: a shape is dynamic"


def test_calls_of_functions_are_unsupported() -> None:
    parameter = relax.Var("x", relax.TensorType((4,), F32))
    call = relax.call_dps_packed("env.relu", (parameter,), out_ty=relax.TensorType((4,), F32))
    variable = relax.Var("y", relax.TensorType((4,), F32))
    assert "relax.call_dps_packed has no counterpart" in str(unsupported(None, relax.VarBinding(variable, call)))


def test_exports_do_not_read_weights_to_say_whether_a_binding_is_supported() -> None:
    """A gigabyte, read for each binding, would take seconds."""

    def fail(_constant: Any) -> Any:
        raise AssertionError("a weight was read")

    weight = constant_of(np.zeros((8, 8), np.float32))
    module = Case("matmul", [((4, 8), F32)], lambda x: op.matmul(x, weight)).function()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tunefarm_search.relax.onnx_graph.operator_call.array_of", fail)
        assert unsupported(module, bindings(module)[0]) is None
