"""Operators give in TVM what they give in onnxruntime: those of our own converters, and those that are rewritten."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.client.frontend.untuned import by_tvm
from tests.client.onnx.graphs import TensorProto, assert_equal, constants, joined_or_kept, model_of, node, normal, saved
from tunefarm.frontend.onnx.reading import read_onnx
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models
X = {"x": (1, 4, 9, 8)}


def one(operator: str, weights: Any = None, inputs: Any = None, opset: int = 17, **attributes: Any) -> Any:
    """A model of one node, whose inputs are ``x`` and the weights in their order."""
    names = [*(inputs or X), *(weights or {})]
    return model_of([node(operator, names, ["y"], **attributes)], inputs or X, ["y"], weights, opset=opset)


def pooled_positions(**attributes: Any) -> Any:
    pool = node("MaxPool", ["x"], ["y", "i"], **attributes)
    return model_of([pool], {"x": (2, 3, 9, 8)}, ["y", "i"], types={"i": TensorProto.INT64})


INT64 = np.int64
MODELS = {
    "conv same upper": lambda: one("Conv", constants(w=normal(6, 4, 3, 2), b=normal(6)), strides=[2, 3],
                                   auto_pad="SAME_UPPER"),
    "conv same lower": lambda: one("Conv", constants(w=normal(6, 4, 4, 3)), auto_pad="SAME_LOWER"),
    "conv valid": lambda: one("Conv", constants(w=normal(6, 4, 3, 3)), auto_pad="VALID", dilations=[2, 2]),
    "conv of groups": lambda: one("Conv", constants(w=normal(8, 1, 3, 3)), group=4, pads=[1, 0, 2, 1]),
    "conv transpose": lambda: one("ConvTranspose", constants(w=normal(4, 3, 3, 3)), strides=[2, 2],
                                  pads=[1, 1, 0, 0], output_padding=[1, 0]),
    "conv transpose of a shape": lambda: one("ConvTranspose", constants(w=normal(4, 3, 3, 3)), strides=[2, 2],
                                             output_shape=[18, 16]),
    "clip": lambda: one("Clip", constants(low=np.float32(-0.2), high=np.float32(0.3))),
    "clip below": lambda: one("Clip", constants(low=np.float32(0))),
    "old clip": lambda: one("Clip", min=0.0, max=0.4, opset=9),
    "old softmax": lambda: one("Softmax", axis=2, opset=11),
    "old batch normalization": lambda: one("BatchNormalization", constants(
        s=normal(4), b=normal(4), m=normal(4), v=np.abs(normal(4)) + 1), opset=9),
    "old pad": lambda: one("Pad", pads=[0, 0, 1, 2, 0, 0, 0, 1], mode="reflect", opset=10),
    "elu": lambda: one("Elu", alpha=0.7),
    "square": lambda: one("Pow", constants(e=np.float32(2))),
    "cube": lambda: one("Pow", constants(e=np.float32(3))),
    "integer exponent": lambda: one("Pow", constants(e=INT64(4))),
    "gather negative": lambda: one("Gather", constants(i=np.array([[-1, 0], [2, -9]])), axis=2),
    "compress": lambda: one("Compress", constants(c=np.array([False, True, True])), axis=-2),
    "compress all": lambda: one("Compress", constants(c=np.arange(200) % 7 == 3)),
    "slice to the end": lambda: one("Slice", constants(s=[4], e=[2**63 - 1], a=[3])),
    "slice backwards": lambda: one("Slice", constants(s=[-1, 7], e=[-100, 1], a=[2, 3], t=[-2, -3])),
    "resize nearest": lambda: one("Resize", constants(r=np.zeros(0, np.float32), s=np.array([1, 1, 2, 2], np.float32)),
                                  mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "resize linear": lambda: one("Resize", constants(r=np.zeros(0, np.float32), s=np.zeros(0, np.float32),
                                                     n=np.array([1, 4, 13, 5])), mode="linear"),
    "resize cubic": lambda: one("Resize", constants(r=np.zeros(0, np.float32), s=np.array([1, 1, 2, 2], np.float32)),
                                mode="cubic", coordinate_transformation_mode="align_corners"),
    "old upsample": lambda: one("Upsample", constants(s=np.array([1, 1, 2, 2], np.float32)), opset=9),
    "average pool": lambda: one("AveragePool", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0], ceil_mode=1),
    "max pool same": lambda: one("MaxPool", kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
    "positions of a max pool": lambda: pooled_positions(kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1]),
    "positions by column": lambda: pooled_positions(kernel_shape=[2, 3], dilations=[2, 2], storage_order=1,
                                                    ceil_mode=1),
    "positions of a max pool same": lambda: pooled_positions(kernel_shape=[3, 2], strides=[2, 2],
                                                             auto_pad="SAME_LOWER"),
    "max unpool": lambda: model_of(
        [node("MaxPool", ["x"], ["p", "i"], kernel_shape=[2, 3], strides=[2, 3], pads=[1, 0, 0, 1]),
         node("Neg", ["p"], ["n"]),
         node("MaxUnpool", ["n", "i", "s"], ["y"], kernel_shape=[2, 3], strides=[2, 3], pads=[1, 0, 0, 1])],
        X, ["y"], constants(s=np.array([1, 4, 9, 8]))),
    "layer normalization": lambda: one("LayerNormalization", constants(s=normal(9, 8), b=normal(9, 8)), axis=2),
    "lp normalization": lambda: one("LpNormalization", axis=1, p=1),
    "lp normalization of squares": lambda: one("LpNormalization"),
    "group of instances": lambda: one("InstanceNormalization", constants(s=normal(4), b=normal(4))),
    "celu by other operators": lambda: one("Celu", alpha=0.8),
    "gelu by other operators": lambda: one("Gelu", opset=20),
    "hard swish": lambda: one("HardSwish"),
    "depth to space": lambda: one("DepthToSpace", blocksize=2, mode="CRD"),
    "einsum": lambda: one("Einsum", constants(w=normal(8, 5)), equation="bchw,wd->bhcd"),
    "split into nine": lambda: model_of(
        [node("Split", ["x", "s"], [f"y{part}" for part in range(9)], axis=2)], X, [f"y{part}" for part in range(9)],
        constants(s=np.ones(9, INT64))),
    "cumulative sum": lambda: one("CumSum", constants(a=INT64(2))),
    "reduce by axes": lambda: one("ReduceMean", axes=[2, 3], keepdims=0),
    "top values": lambda: model_of([node("TopK", ["x", "k"], ["y", "i"], axis=3)], X, ["y", "i"],
                                   constants(k=np.array([3])), types={"i": TensorProto.INT64}),
    "integer division": lambda: model_of(
        [node("Mul", ["x", "k"], ["m"]), node("Cast", ["m"], ["i"], to=TensorProto.INT64),
         node("Div", ["i", "n"], ["q"]), node("Mod", ["i", "n"], ["r"]), node("Sub", ["q", "r"], ["s"]),
         node("Cast", ["s"], ["y"], to=TensorProto.FLOAT)],
        X, ["y"], constants(k=np.float32(20), n=np.array(-3))),
    "ceiling average pool": lambda: one("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
                                        ceil_mode=1, count_include_pad=1),
    "negative padding": lambda: one("Pad", constants(p=np.array([0, 0, -1, 2, 0, 0, 3, -1]))),
    "large constant": lambda: model_of(
        [node("ConstantOfShape", ["s"], ["c"]), node("ReduceSum", ["c"], ["t"], keepdims=0),
         node("Add", ["x", "t"], ["y"])],
        X, ["y"], constants(s=np.array([1100, 1100]))),
    "is infinite": lambda: model_of(
        [node("Mul", ["x", "n"], ["z"]), node("IsInf", ["z"], ["b"], detect_negative=0),
         node("Cast", ["b"], ["y"], to=TensorProto.FLOAT)],
        X, ["y"], constants(n=np.float32(np.inf))),
    "shape arithmetic": lambda: model_of(
        [node("Shape", ["x"], ["s"]), node("Gather", ["s", "i"], ["c"]), node("Concat", ["c", "m"], ["t"], axis=0),
         node("Reshape", ["x", "t"], ["y"])],
        X, ["y"], constants(i=np.array([0, 1]), m=np.array([-1]))),
    "scatter of elements": lambda: model_of(
        [node("ScatterND", ["x", "i", "u"], ["y"])], {"x": (5, 3), "u": (2, 3)}, ["y"],
        constants(i=np.array([[4], [1]]))),
    "scatter along the last axis": lambda: model_of(
        [node("ScatterElements", ["x", "i", "u"], ["y"], axis=2)], {"x": (2, 4, 5), "u": (2, 3, 2)}, ["y"],
        constants(i=np.array([[[0, 1], [3, 3], [2, -1]]] * 2)), opset=13),
    "scatter and add": lambda: model_of(
        [node("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction="add")],
        {"x": (5, 3, 4), "u": (2, 3, 2)}, ["y"], constants(i=np.zeros((2, 3, 2), INT64)), opset=18),
    "regions of half pixels": lambda: model_of(
        [node("RoiAlign", ["x", "r", "b"], ["y"], spatial_scale=0.25, output_height=3, output_width=3,
              sampling_ratio=2)],
        {"x": (1, 2, 16, 16)}, ["y"], constants(r=np.array([[8, 8, 40, 44]], np.float32), b=np.array([0])), opset=16),
    "old regions": lambda: model_of(
        [node("RoiAlign", ["x", "r", "b"], ["y"], spatial_scale=0.25, output_height=3, output_width=3,
              sampling_ratio=2)],
        {"x": (1, 2, 16, 16)}, ["y"], constants(r=np.array([[8, 8, 40, 44]], np.float32), b=np.array([0])), opset=10),
    "max pool same lower": lambda: one("MaxPool", kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER"),
    "average pool same lower": lambda: one("AveragePool", kernel_shape=[3, 2], strides=[2, 3], auto_pad="SAME_LOWER"),
    "scale with an axis": lambda: model_of(
        [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])],
        X, ["y"], constants(s=np.array([0.1], np.float32), z=np.array([3], np.int8))),
    "top values in any order": lambda: model_of(
        [node("TopK", ["x", "k"], ["t", "i"], axis=3, sorted=0), node("ReduceSum", ["t", "a"], ["y"])], X, ["y"],
        constants(k=np.array([3]), a=np.array([3]))),
    "selu": lambda: one("Selu", alpha=1.2, gamma=0.9),
    "thresholded relu": lambda: one("ThresholdedRelu", alpha=0.1),
    "mean variance normalization": lambda: one("MeanVarianceNormalization", axes=[0, 2, 3]),
    "local response normalization": lambda: one("LRN", size=5, alpha=0.3, beta=0.6, bias=2.0),
    "reversed sequences": lambda: one("ReverseSequence", constants(n=np.array([2, 5, 1])), {"x": (5, 3, 2)}),
    "reversed sequences of a batch": lambda: one(
        "ReverseSequence", constants(n=np.array([2, 5, 1])), {"x": (3, 5)}, time_axis=1, batch_axis=0),
    "identity of another type": lambda: model_of(
        [node("EyeLike", ["x"], ["y"], k=1, dtype=TensorProto.DOUBLE)], {"x": (3, 4)}, ["y"],
        types={"y": TensorProto.DOUBLE}),
    "determinant": lambda: one("Det", inputs={"x": (2, 4, 4)}),
    "inverse": lambda: model_of(
        [node("Inverse", ["x"], ["y"], domain="com.microsoft")], {"x": (3, 4, 4)}, ["y"], domains=["com.microsoft"]),
    "transform": lambda: one("DFT", inputs={"x": (2, 9, 5, 1)}, axis=1),
    "half of a transform": lambda: one("DFT", inputs={"x": (2, 5, 8, 1)}, axis=2, onesided=1),
    "longer inverse transform": lambda: one("DFT", constants(n=INT64(12)), {"x": (2, 9, 2)}, inverse=1),
    "shorter transform along a later axis": lambda: one(
        "DFT", constants(n=INT64(6), a=INT64(-2)), {"x": (2, 9, 1)}, opset=20, onesided=1),
    "spectrogram": lambda: one("STFT", constants(s=INT64(5), w=np.abs(normal(16))), {"x": (2, 50, 1)}),
    "spectrogram of all frequencies": lambda: model_of(
        [node("STFT", ["x", "s", "", "n"], ["y"], onesided=0)], {"x": (2, 40, 1)}, ["y"],
        constants(s=INT64(8), n=INT64(15))),
    "powers that are cut off": lambda: model_of(
        [node("Pow", ["n", "x"], ["p"]), node("Cast", ["p"], ["y"], to=TensorProto.FLOAT)],
        X, ["y"], constants(n=np.array(37, np.int32))),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_import_onnx_converts(tmp_path: Path, name: str) -> None:
    model = MODELS[name]()
    call = {}
    for number, each in enumerate(model.graph.input):
        shape = [dim.dim_value for dim in each.type.tensor_type.shape.dim]
        call[each.name] = normal(*shape, seed=number)
    assert_equal(saved(model, tmp_path), call)


def recurrent(operator: str, gates: int, directions: int, batch: int = 2, **attributes: Any) -> Any:
    def initial(seed: int) -> Any:
        state = normal(directions, batch, 5, seed=seed)
        return state.transpose(1, 0, 2) if attributes.get("layout") else state

    weights = constants(
        w=normal(directions, gates * 5, 3, seed=1), r=normal(directions, gates * 5, 5, seed=2),
        b=normal(directions, gates * 10, seed=3), h=initial(4),
    )  # fmt: skip
    names = ["x", "w", "r", "b", "", "h"]
    outputs = ["y", "last"]
    if gates == 4:
        weights |= constants(c=initial(5), p=normal(directions, 15, seed=6))
        names, outputs = [*names, "c", "p"], [*outputs, "cell"]
    kind = {1: "forward", 2: "bidirectional"}[directions]
    attributes = {"hidden_size": 5, "direction": kind, **attributes}
    shape = (batch, 4, 3) if attributes.get("layout") else (4, batch, 3)
    return model_of([node(operator, names, outputs, **attributes)], {"x": shape}, outputs, weights)


@pytest.mark.parametrize(
    "model",
    [
        recurrent("LSTM", 4, 1),
        recurrent("LSTM", 4, 2),
        recurrent("LSTM", 4, 1, direction="reverse", clip=0.3),
        recurrent("GRU", 3, 2, linear_before_reset=1),
        recurrent("GRU", 3, 1, linear_before_reset=0),
        recurrent("RNN", 1, 2, activations=["Relu", "Tanh"]),
    ],
    ids=["lstm", "lstm both ways", "lstm backwards", "gru of torch", "gru", "rnn"],
)
def test_import_onnx_unrolls_recurrent_layers(tmp_path: Path, model: Any) -> None:
    assert_equal(saved(model, tmp_path), {"x": normal(4, 2, 3)})


def test_import_onnx_takes_sequences_by_batches(tmp_path: Path) -> None:
    """onnxruntime does not."""
    x = normal(4, 3, 3)
    by_steps, by_batches = (
        by_tvm(read_onnx(saved(recurrent("LSTM", 4, 2, batch=3, layout=layout), tmp_path), {}), [given])
        for layout, given in enumerate((x, x.transpose(1, 0, 2)))
    )
    np.testing.assert_allclose(by_batches[0], by_steps[0].transpose(2, 0, 1, 3), rtol=1e-5)
    for mine, theirs in zip(by_batches[1:], by_steps[1:], strict=True):
        np.testing.assert_allclose(mine, theirs.transpose(1, 0, 2), rtol=1e-5)


def test_import_onnx_pads_by_nothing_where_windows_are_apart(tmp_path: Path) -> None:
    """onnxruntime refuses the padding that it computes."""
    model = one("MaxPool", kernel_shape=[1, 1], strides=[2, 3], auto_pad="SAME_UPPER")
    x = normal(*X["x"])
    [found] = by_tvm(read_onnx(saved(model, tmp_path), {}), [x])
    np.testing.assert_array_equal(found, x[:, :, ::2, ::3])


def test_import_onnx_computes_halves_in_their_type(tmp_path: Path) -> None:
    nodes = [
        node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        node("Selu", ["h"], ["s"]),
        node("ThresholdedRelu", ["s"], ["t"], alpha=0.25),
        node("Cast", ["t"], ["y"], to=TensorProto.FLOAT),
    ]
    assert_equal(saved(model_of(nodes, X, ["y"]), tmp_path), {"x": normal(*X["x"])}, tolerance=2e-3)


def branch(name: str, factor: float) -> Any:
    value = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)
    nodes = [
        node("Constant", [], [f"{name}_c"], value_float=factor),
        node("Mul", ["x", f"{name}_c"], [f"{name}_out"]),
    ]
    return helper.make_graph(nodes, name, [], [value])


def conditional(condition: Any) -> Any:
    return node("If", [condition], ["y"], then_branch=branch("then", 2.0), else_branch=branch("else", -3.0))


def test_import_onnx_keeps_a_condition_of_the_input(tmp_path: Path) -> None:
    nodes = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "z"], ["c"]), conditional("c")]
    path = saved(model_of(nodes, {"x": (3,)}, ["y"], constants(z=np.float32(0))), tmp_path)
    positive = np.ones(3, np.float32)
    assert_equal(path, {"x": positive}, {"x": -positive})


def test_import_onnx_replaces_a_constant_condition_by_its_branch(tmp_path: Path) -> None:
    nodes = [node("Shape", ["x"], ["s"]), node("Equal", ["s", "n"], ["c"]), conditional("c")]
    path = saved(model_of(nodes, {"x": (3,)}, ["y"], constants(n=np.array([3]))), tmp_path)
    model = assert_equal(path, {"x": normal(3)})
    assert "if " not in model.module.script()


def test_import_onnx_folds_shapes_in_branches(tmp_path: Path) -> None:
    def body(name: str, operator: str) -> Any:
        nodes = [
            node("Shape", ["x"], [f"{name}_shape"]),
            node("Gather", [f"{name}_shape", "one"], [f"{name}_columns"]),
            node("Concat", [f"{name}_columns", "rest"], [f"{name}_new"], axis=0),
            node("Reshape", ["x", f"{name}_new"], [f"{name}_reshaped"]),
            node(operator, [f"{name}_reshaped"], [f"{name}_out"]),
        ]
        return helper.make_graph(
            nodes, name, [], [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)]
        )

    nodes = [node("If", ["c"], ["y"], then_branch=body("then", "Neg"), else_branch=body("else", "Exp"))]
    weights = constants(one=np.array([1]), rest=np.array([-1]))
    model = model_of(nodes, {"c": (), "x": (2, 3)}, ["y"], weights, types={"c": TensorProto.BOOL})
    x = normal(2, 3)
    assert_equal(saved(model, tmp_path), {"c": np.array(True), "x": x}, {"c": np.array(False), "x": x})


def test_import_onnx_takes_the_value_of_an_input_from_an_initializer(tmp_path: Path) -> None:
    """Branches whose results differ in shape, as in a decoder with and without earlier tokens, are one then."""
    model = model_of([joined_or_kept("c")], {"c": (1,), "x": (1, 3)}, ["y"], types={"c": TensorProto.BOOL})
    model.graph.initializer.append(numpy_helper.from_array(np.array([True]), "c"))
    [found] = by_tvm(read_onnx(saved(model, tmp_path), {}), [normal(1, 3)])
    np.testing.assert_array_equal(found, np.concatenate([normal(1, 3)] * 2, axis=1))


def test_import_onnx_derives_sizes_from_those_that_it_knows(tmp_path: Path) -> None:
    nodes = [node("Concat", ["past", "x"], ["all"], axis=0), node("Mul", ["all", "mask"], ["y"])]
    model = model_of(nodes, {"past": ("past",), "x": ("length",), "mask": ("past + length",)}, ["y"])
    path = saved(model, tmp_path)
    read = read_onnx(path, {"past": (4,), "x": (3,)})
    assert [int(each.ty.shape[0]) for each in read.module["main"].params] == [4, 3, 7]


def test_import_onnx_unrolls_loops_of_a_constant_count(tmp_path: Path) -> None:
    body = helper.make_graph(
        [
            node("Add", ["a", "w"], ["next"]),
            node("Mul", ["next", "next"], ["scanned"]),
            node("Identity", ["c"], ["go"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("a", TensorProto.FLOAT, [2]),
        ],
        [helper.make_tensor_value_info("go", TensorProto.BOOL, [])]
        + [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("next", "scanned")],
    )
    nodes = [node("Loop", ["n", "t", "x"], ["y", "all"], body=body)]
    weights = constants(n=np.int64(3), t=np.bool_(True), w=normal(2, seed=4))
    assert_equal(saved(model_of(nodes, {"x": (2,)}, ["y", "all"], weights), tmp_path), {"x": normal(2)})


def test_import_onnx_inlines_functions_of_the_model(tmp_path: Path) -> None:
    model = model_of([node("Twice", ["x"], ["y"], domain="own")], {"x": (3,)}, ["y"], domains=["own"])
    imports = [helper.make_opsetid("", 17)]
    model.functions.append(
        helper.make_function("own", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], imports)
    )
    assert_equal(saved(model, tmp_path), {"x": normal(3)})


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_norms_over_an_even_number_of_channels_keep_the_type(tmp_path: Path, kind: int) -> None:
    """Which onnxruntime refuses. ONNX computes as many channels as the batch has inputs."""
    nodes, shapes = [node("LRN", ["x"], ["y"], size=4, alpha=0.3)], {"x": (4, 4, 9, 8)}
    array = normal(*shapes["x"])
    expected = ReferenceEvaluator(model_of(nodes, shapes, ["y"])).run(None, {"x": array})[0]
    given = array.astype(helper.tensor_dtype_to_np_dtype(kind))
    path = saved(model_of(nodes, shapes, ["y"], types={"x": kind, "y": kind}), tmp_path)
    (found,) = by_tvm(read_onnx(path, shapes), [given])
    assert found.dtype == given.dtype
    np.testing.assert_allclose(found.astype(np.float32), expected, atol=1e-6 if kind == TensorProto.FLOAT else 2e-3)


@pytest.mark.parametrize(
    "model",
    [
        one("SpaceToDepth", inputs={"x": (1, 2, 4, 6)}, opset=28, blocksize=2, mode="CRD"),
        one("CumProd", constants(a=INT64(1)), {"x": (2, 5, 3)}, opset=26),
        one("CumProd", constants(a=INT64(-1)), {"x": (2, 5, 3)}, opset=26, exclusive=1, reverse=1),
        model_of(
            [
                node("Greater", ["x", "z"], ["b"]),
                node("ReduceMax", ["b", "a"], ["m"]),
                node("ReduceMin", ["b", "a"], ["n"]),
                node("Xor", ["m", "n"], ["c"]),
                node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
            ],
            {"x": (3, 4, 2)},
            ["y"],
            constants(z=np.float32(0.3), a=np.array([1])),
            opset=20,
        ),
    ],
    ids=["blocks behind channels", "running product", "from the end", "truth values"],
)
def test_operators_of_later_versions_are_those_of_onnx(tmp_path: Path, model: Any) -> None:
    """By ONNX's own implementation: onnxruntime lacks some of these versions."""
    (given,) = model.graph.input
    array = normal(*(each.dim_value for each in given.type.tensor_type.shape.dim), seed=2)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": array})
    (found,) = by_tvm(read_onnx(saved(model, tmp_path), {"x": array.shape}), [array])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_elements_are_those_of_onnxruntime(tmp_path: Path, coordinates: str, rounding: str) -> None:
    """In sizes of which several elements are equally near, too."""
    for extents, sizes in (((2, 2), (7, 8)), ((5, 7), (3, 2)), ((4, 6), (8, 1)), ((10, 13), (15, 4))):
        weights = constants(r=np.zeros(0, np.float32), s=np.zeros(0, np.float32), n=np.array([1, 1, *sizes]))
        shapes = {"x": (1, 1, *extents)}
        model = one("Resize", weights, shapes, coordinate_transformation_mode=coordinates, nearest_mode=rounding)
        assert_equal(saved(model, tmp_path), {"x": np.arange(np.prod(extents), dtype="float32").reshape(shapes["x"])})


def test_maxima_of_regions_are_refused(tmp_path: Path) -> None:
    """ONNX, onnxruntime and TVM have different ones."""
    regions = constants(r=np.array([[8, 8, 40, 44]], np.float32), b=np.array([0]))
    model = one("RoiAlign", regions, {"x": (1, 2, 16, 16)}, opset=16, mode="max")
    with pytest.raises(BadInput, match="it takes maxima"):
        read_onnx(saved(model, tmp_path), {"x": (1, 2, 16, 16)})
