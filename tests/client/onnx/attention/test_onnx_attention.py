"""Attention of onnxruntime's domain gives what onnxruntime gives, with keys and values of earlier tokens."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client.frontend.untuned import by_tvm
from tests.client.onnx.graphs import (
    TensorProto,
    assert_equal,
    by_onnxruntime,
    constants,
    model_of,
    node,
    normal,
    onnx,
    saved,
)
from tunefarm.frontend.onnx.reading import read_onnx
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models
DOMAIN = "com.microsoft"
HEADS, OF_KEYS, ELEMENTS = 4, 2, 16
KEYS = OF_KEYS * ELEMENTS
LONGEST = 40


@dataclass(frozen=True)
class Step:
    """One call: tokens of each sequence, those that a cache has room for, its rows, and all tokens up to this call."""

    tokens: int
    total: int
    room: int
    lengths: tuple[int, ...]


DECODE = Step(1, 12, 12, (7, 12))
FIRST = Step(6, 6, 6, (6,))
CHUNK = Step(3, 12, 12, (8,))
GROWING = Step(1, 6, 5, (6,))


def tables(pairs: int = ELEMENTS // 2) -> dict[str, Any]:
    angles = np.arange(LONGEST)[:, None] / 10.0 ** (np.arange(pairs) / pairs)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def grouped(step: Step, more: dict[int, str] | None = None, weights: Any = None, **attributes: Any) -> Any:
    """A model of one GroupQueryAttention; ``more`` names further inputs by their number."""
    batch = len(step.lengths)
    inputs = {
        "q": (batch, step.tokens, HEADS * ELEMENTS), "k": (batch, step.tokens, KEYS), "v": (batch, step.tokens, KEYS),
        "pk": (batch, OF_KEYS, step.room, ELEMENTS), "pv": (batch, OF_KEYS, step.room, ELEMENTS), "lengths": (batch,),
    }  # fmt: skip
    names = [*inputs, "total", *[""] * 9]
    for index, name in (more or {}).items():
        names[index] = name
    held = constants(total=np.array([step.total], np.int32)) | (weights or {})
    attributes = {"num_heads": HEADS, "kv_num_heads": OF_KEYS, **attributes}
    nodes = [node("GroupQueryAttention", names, ["y", "nk", "nv"], domain=DOMAIN, **attributes)]
    outputs, types = ["y", "nk", "nv"], {"lengths": TensorProto.INT32}
    return model_of(nodes, inputs, outputs, held, types=types, domains=[DOMAIN])


def rotated(step: Step, pairs: int = ELEMENTS // 2, **attributes: Any) -> Any:
    return grouped(step, {7: "cos", 8: "sin"}, tables(pairs), do_rotary=1, **attributes)


def step_inputs(step: Step) -> dict[str, Any]:
    batch = len(step.lengths)
    return {
        "q": normal(batch, step.tokens, HEADS * ELEMENTS, seed=1), "k": normal(batch, step.tokens, KEYS, seed=2),
        "v": normal(batch, step.tokens, KEYS, seed=3), "pk": normal(batch, OF_KEYS, step.room, ELEMENTS, seed=4),
        "pv": normal(batch, OF_KEYS, step.room, ELEMENTS, seed=5),
        "lengths": np.array(step.lengths, np.int32) - 1,
    }  # fmt: skip


def assert_step_equal(path: Path, step: Step, rows: tuple[int, ...]) -> None:
    """The output is equal, and so are ``rows`` of each cache; what follows them is left open."""
    call = step_inputs(step)
    expected = by_onnxruntime(path, call)
    model = read_onnx(path, {name: tuple(array.shape) for name, array in call.items()})
    found = by_tvm(model, list(call.values()))
    np.testing.assert_allclose(found[0], expected[0], atol=2e-6)
    for mine, theirs in zip(found[1:], expected[1:], strict=True):
        assert mine.shape == theirs.shape
        for sequence, count in enumerate(rows):
            np.testing.assert_allclose(mine[sequence, :, :count], theirs[sequence, :, :count], atol=1e-6)


@pytest.mark.parametrize("step", [DECODE, FIRST, CHUNK, GROWING], ids=["decode", "first", "chunk", "growing"])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"local_window_size": 4},
        {"softcap": 0.5, "scale": 0.3},
        {"smooth_softmax": 1},
        {"rotary_interleaved": 1},
        {"causal": 0},
    ],
    ids=["plain", "window", "softcap", "smooth", "interleaved", "both directions"],
)
def test_import_onnx_converts_grouped_attention(tmp_path: Path, step: Step, attributes: dict[str, Any]) -> None:
    assert_step_equal(saved(rotated(step, **attributes), tmp_path), step, step.lengths)


def test_import_onnx_turns_only_the_elements_that_have_angles(tmp_path: Path) -> None:
    assert_step_equal(saved(rotated(DECODE, pairs=8, scale=0.1), tmp_path), DECODE, DECODE.lengths)


@pytest.mark.parametrize("step", [DECODE, CHUNK], ids=["decode", "chunk"])
@pytest.mark.parametrize("heads", [1, HEADS])
def test_import_onnx_adds_biases_to_grouped_scores(tmp_path: Path, step: Step, heads: int) -> None:
    bias = constants(bias=normal(1, heads, step.tokens, step.total, seed=8))
    assert_step_equal(saved(grouped(step, {10: "bias"}, bias), tmp_path), step, step.lengths)


@pytest.mark.parametrize("step", [DECODE, CHUNK], ids=["decode", "chunk"])
def test_import_onnx_adds_sinks_to_grouped_softmax(tmp_path: Path, step: Step) -> None:
    sink = constants(sink=normal(HEADS, seed=9))
    assert_step_equal(saved(grouped(step, {11: "sink"}, sink), tmp_path), step, step.lengths)


def test_import_onnx_reads_positions_of_grouped_attention(tmp_path: Path) -> None:
    held = tables() | {"places": np.array([[9], [3]], np.int64)}
    model = grouped(DECODE, {7: "cos", 8: "sin", 9: "places"}, held, do_rotary=1)
    assert_step_equal(saved(model, tmp_path), DECODE, DECODE.lengths)


def test_import_onnx_normalizes_heads_of_grouped_attention(tmp_path: Path) -> None:
    """onnxruntime does so on GPUs only: norms before the operator give the same."""
    held = tables() | constants(qn=normal(ELEMENTS, seed=6), kn=normal(ELEMENTS, seed=7))
    places = {7: "cos", 8: "sin"}
    inside = grouped(DECODE, places | {14: "qn", 15: "kn"}, held, do_rotary=1, qk_norm_epsilon=1e-5)
    outside = grouped(DECODE, places, held, do_rotary=1)
    held |= {"q_heads": np.array([0, 0, HEADS, ELEMENTS]), "k_heads": np.array([0, 0, OF_KEYS, ELEMENTS])}
    attended = outside.graph.node[0]
    attended.input[0], attended.input[1] = "q_joined", "k_joined"
    before = []
    for name in "qk":
        before += [
            node("Reshape", [name, f"{name}_heads"], [f"{name}_apart"]),
            node("SimplifiedLayerNormalization", [f"{name}_apart", f"{name}n"], [f"{name}_normal"], epsilon=1e-5),
            node("Reshape", [f"{name}_normal", "flat"], [f"{name}_joined"]),
        ]
    del outside.graph.node[:]
    outside.graph.node.extend([*before, attended])
    for name in ("q_heads", "k_heads"):
        outside.graph.initializer.append(onnx.numpy_helper.from_array(held[name], name))
    outside.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0, 0, -1]), "flat"))
    call = step_inputs(DECODE)
    expected = by_onnxruntime(saved(outside, tmp_path, "outside.onnx"), call)
    found = by_tvm(read_onnx(saved(inside, tmp_path), {}), list(call.values()))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-6)


def _rows_of_window(length: int, room: int, window: int) -> int:
    at_once = room - window + 1
    return length if length <= room else length - at_once * -(-(length - room) // at_once)


@pytest.mark.parametrize("room", [5, 8])
@pytest.mark.parametrize(
    ("tokens", "lengths"), [(1, (4, 9)), (1, (8, 16)), (3, (7,)), (3, (12,)), (12, (12,))], ids=str
)
def test_import_onnx_drops_tokens_from_full_caches(
    tmp_path: Path, room: int, tokens: int, lengths: tuple[int, ...]
) -> None:
    step = Step(tokens, max(lengths), room, lengths)
    model = rotated(step, local_window_size=5, sliding_window_cache=1)
    assert_step_equal(saved(model, tmp_path), step, tuple(_rows_of_window(each, room, 5) for each in lengths))


def test_import_onnx_splits_packed_grouped_attention(tmp_path: Path) -> None:
    inputs = {"q": (1, 5, (HEADS + 2 * OF_KEYS) * ELEMENTS), "lengths": (1,)}
    names = ["q", "", "", "", "", "lengths", "total", "cos", "sin"]
    attributes = {"num_heads": HEADS, "kv_num_heads": OF_KEYS, "do_rotary": 1}
    nodes = [node("GroupQueryAttention", names, ["y", "nk", "nv"], domain=DOMAIN, **attributes)]
    held, types = constants(total=np.array([5], np.int32)) | tables(), {"lengths": TensorProto.INT32}
    model = model_of(nodes, inputs, ["y", "nk", "nv"], held, types=types, domains=[DOMAIN])
    call = {"q": normal(1, 5, (HEADS + 2 * OF_KEYS) * ELEMENTS), "lengths": np.array([4], np.int32)}
    assert_equal(saved(model, tmp_path), call)


def test_import_onnx_refuses_caches_of_unknown_length(tmp_path: Path) -> None:
    model = grouped(DECODE)
    del model.graph.initializer[:]
    model.graph.input.append(onnx.helper.make_tensor_value_info("total", TensorProto.INT32, [1]))
    with pytest.raises(BadInput, match="total sequence length depends on the input"):
        read_onnx(saved(model, tmp_path), {})


WIDTH = HEADS * ELEMENTS
MULTI_HEAD: dict[str, tuple[dict[str, tuple[int, ...]], dict[str, int], dict[str, Any]]] = {
    "self": ({"q": (2, 5, WIDTH), "k": (2, 5, WIDTH), "v": (2, 5, WIDTH)}, {}, {}),
    "of another width": ({"q": (2, 5, WIDTH), "k": (2, 7, WIDTH), "v": (2, 7, 32)}, {}, {"scale": 0.5}),
    "causal": ({"q": (2, 5, WIDTH), "k": (2, 5, WIDTH), "v": (2, 5, WIDTH)}, {}, {"unidirectional": 1}),
    "in heads": ({"q": (2, 5, WIDTH), "k": (2, HEADS, 7, ELEMENTS), "v": (2, HEADS, 7, ELEMENTS)}, {}, {}),
    "bias": ({"q": (2, 5, WIDTH), "k": (2, 5, WIDTH), "v": (2, 5, WIDTH), "b": (3 * WIDTH,)}, {"b": 3}, {}),
    "added": (
        {"q": (2, 5, WIDTH), "k": (2, 7, WIDTH), "v": (2, 7, WIDTH), "a": (1, HEADS, 5, 7)}, {"a": 5}, {}),
    "past": (
        {"q": (2, 1, WIDTH), "k": (2, 1, WIDTH), "v": (2, 1, WIDTH),
         "pk": (2, HEADS, 6, ELEMENTS), "pv": (2, HEADS, 6, ELEMENTS)}, {"pk": 6, "pv": 7}, {}),
}  # fmt: skip


def multi_head(name: str) -> Any:
    inputs, places, attributes = MULTI_HEAD[name]
    names = [each for each in inputs if each not in places] + [""] * 8
    for each, index in places.items():
        names[index] = each
    outputs = ["y", "nk", "nv"] if name == "past" else ["y"]
    nodes = [node("MultiHeadAttention", names[:8], outputs, domain=DOMAIN, num_heads=HEADS, **attributes)]
    return model_of(nodes, inputs, outputs, domains=[DOMAIN])


@pytest.mark.parametrize("name", MULTI_HEAD)
def test_import_onnx_converts_multi_head_attention(tmp_path: Path, name: str) -> None:
    call = {each: normal(*shape, seed=at) for at, (each, shape) in enumerate(MULTI_HEAD[name][0].items())}
    assert_equal(saved(multi_head(name), tmp_path), call)


@pytest.mark.parametrize("parts", [2, 3])
def test_import_onnx_splits_packed_heads(tmp_path: Path, parts: int) -> None:
    """onnxruntime runs packed heads on GPUs only: the same numbers apart give the same."""
    names, shape = "qkv", (2, 5, HEADS, ELEMENTS)
    apart = {name: normal(*shape, seed=at) for at, name in enumerate(names)}
    packed = np.stack([apart[name] for name in names[3 - parts :]], axis=3)
    call = {"p": packed} if parts == 3 else {"q": apart["q"].reshape(2, 5, WIDTH), "p": packed}
    nodes = [node("MultiHeadAttention", list(call), ["y"], domain=DOMAIN, num_heads=HEADS)]
    model = model_of(nodes, {name: array.shape for name, array in call.items()}, ["y"], domains=[DOMAIN])
    found = by_tvm(read_onnx(saved(model, tmp_path), {}), list(call.values()))
    reference = saved(multi_head("self"), tmp_path, "apart.onnx")
    expected = by_onnxruntime(reference, {name: array.reshape(2, 5, WIDTH) for name, array in apart.items()})
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6)


MASKS = {
    "of keys": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32),
    "of lengths": np.array([3, 5], np.int32),
    "of tokens": (np.arange(50).reshape(2, 5, 5) % 3 > 0).astype(np.int32),
}


@pytest.mark.parametrize("operator", ["MultiHeadAttention", "Attention"])
@pytest.mark.parametrize("name", MASKS)
def test_import_onnx_hides_padding(tmp_path: Path, operator: str, name: str) -> None:
    mask = MASKS[name]
    if operator == "Attention":
        held, inputs = constants(w=normal(24, 3 * WIDTH, seed=1), b=normal(3 * WIDTH, seed=2)), {"x": (2, 5, 24)}
        names = ["x", "w", "b", "mask"]
    else:
        held, inputs = {}, dict.fromkeys("qkv", (2, 5, WIDTH))
        names = ["q", "k", "v", "", "mask"]
    nodes = [node(operator, names, ["y"], domain=DOMAIN, num_heads=HEADS)]
    types = {"mask": TensorProto.INT32}
    model = model_of(nodes, inputs | {"mask": mask.shape}, ["y"], held, types=types, domains=[DOMAIN])
    call = {each: normal(*shape, seed=5 + at) for at, (each, shape) in enumerate(inputs.items())}
    assert_equal(saved(model, tmp_path), call | {"mask": mask})


@pytest.mark.parametrize("attributes", [{"unidirectional": 1}, {"scale": 0.2}, {"qkv_hidden_sizes": [64, 64, 32]}])
def test_import_onnx_converts_attention(tmp_path: Path, attributes: dict[str, Any]) -> None:
    columns = sum(attributes.get("qkv_hidden_sizes", [WIDTH] * 3))
    held = constants(w=normal(24, columns, seed=1), b=normal(columns, seed=2))
    nodes = [node("Attention", ["x", "w", "b"], ["y"], domain=DOMAIN, num_heads=HEADS, **attributes)]
    model = model_of(nodes, {"x": (2, 5, 24)}, ["y"], held, domains=[DOMAIN])
    assert_equal(saved(model, tmp_path), {"x": normal(2, 5, 24)})


def test_import_onnx_continues_attention(tmp_path: Path) -> None:
    held = constants(w=normal(24, 3 * WIDTH, seed=1), b=normal(3 * WIDTH, seed=2))
    nodes = [node("Attention", ["x", "w", "b", "", "past"], ["y", "present"], domain=DOMAIN, num_heads=HEADS,
                  unidirectional=1)]  # fmt: skip
    inputs = {"x": (1, 3, 24), "past": (2, 1, HEADS, 4, ELEMENTS)}
    model = model_of(nodes, inputs, ["y", "present"], held, domains=[DOMAIN])
    call = {"x": normal(1, 3, 24), "past": normal(2, 1, HEADS, 4, ELEMENTS, seed=3)}
    assert_equal(saved(model, tmp_path), call)


@pytest.mark.parametrize("shape", [(2, 3, WIDTH), (2, HEADS, 3, ELEMENTS)], ids=["rows", "heads"])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("places", [[[4, 5, 6], [0, 1, 2]], [7]], ids=["each", "first"])
def test_import_onnx_converts_rotary_embedding(
    tmp_path: Path, shape: tuple[int, ...], interleaved: int, places: list[Any]
) -> None:
    held = tables() | {"places": np.array(places, np.int64)}
    nodes = [node("RotaryEmbedding", ["x", "places", "cos", "sin"], ["y"], domain=DOMAIN, interleaved=interleaved)]
    model = model_of(nodes, {"x": shape}, ["y"], held, domains=[DOMAIN])
    assert_equal(saved(model, tmp_path), {"x": normal(*shape)})
