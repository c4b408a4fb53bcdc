"""Attention and TensorScatter of ONNX give what ONNX's reference implementation gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import tunefarm
from tests.client.frontend.untuned import by_tvm
from tests.client.onnx.graphs import TensorProto, assert_equal, model_of, node, normal, saved
from tunefarm.frontend.onnx.reading import read_onnx
from tunefarm_services.settings import Settings

pytestmark = pytest.mark.models
BATCH, HEADS, OF_KEYS, ELEMENTS, KEYS = 2, 4, 2, 8, 12


def heads(count: int, tokens: int, seed: int) -> Any:
    return normal(BATCH, count, tokens, ELEMENTS, seed=seed)


def attention(
    tokens: int,
    *,
    keys: int = KEYS,
    past: int = 0,
    flat: bool = False,
    mask: Any = None,
    lengths: Any = None,
    opset: int = 24,
    outputs: int = 1,
    **attributes: Any,
) -> tuple[Any, dict[str, Any]]:
    """A model of one Attention, and its inputs."""
    given = {"q": heads(HEADS, tokens, 1), "k": heads(OF_KEYS, keys, 2), "v": heads(OF_KEYS, keys, 3)}
    if flat:
        given = {name: each.transpose(0, 2, 1, 3).reshape(BATCH, each.shape[2], -1) for name, each in given.items()}
        attributes |= {"q_num_heads": HEADS, "kv_num_heads": OF_KEYS}
    names = [*given, "mask" if mask is not None else ""]
    names += ["past_key", "past_value"] if past else ["", ""]
    names += ["lengths"] if lengths is not None else []
    given |= {} if mask is None else {"mask": mask}
    given |= {"past_key": heads(OF_KEYS, past, 4), "past_value": heads(OF_KEYS, past, 5)} if past else {}
    given |= {} if lengths is None else {"lengths": np.array(lengths, np.int64)}
    results = ["y", "present_key", "present_value", "scores"][:outputs]
    shapes = {name: each.shape for name, each in given.items()}
    types = {"lengths": TensorProto.INT64}
    if mask is not None and mask.dtype == bool:
        types["mask"] = TensorProto.BOOL
    nodes = [node("Attention", names, results, **attributes)]
    return model_of(nodes, shapes, results, types=types, opset=opset), given


def assert_as_defined(model: Any, given: dict[str, Any], folder: Path) -> None:
    expected = ReferenceEvaluator(model).run(None, given)
    path = saved(model, folder)
    found = by_tvm(read_onnx(path, {name: each.shape for name, each in given.items()}), list(given.values()))
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=2e-6)


def visible(*shape: int) -> Any:
    """A mask that hides all keys of one row."""
    mask = np.random.default_rng(7).random(shape) < 0.6
    mask[..., 0, :] = False
    return mask


CASES: dict[str, dict[str, Any]] = {
    "plain": {"tokens": 5},
    "heads in columns": {"tokens": 5, "flat": True},
    "causal": {"tokens": 5, "keys": 5, "is_causal": 1},
    "causal behind a past": {"tokens": 3, "keys": 3, "past": 6, "is_causal": 1, "flat": True, "outputs": 3},
    "one token behind a past": {"tokens": 1, "keys": 1, "past": 7, "is_causal": 1, "outputs": 3},
    "cache with lengths": {"tokens": 1, "lengths": (4, 12), "is_causal": 1},
    "piece with lengths": {"tokens": 3, "lengths": (2, 9), "is_causal": 1},
    "lengths without order": {"tokens": 3, "lengths": (2, 9)},
    "softcap": {"tokens": 5, "softcap": 0.4, "scale": 0.7},
    "windows": {"tokens": 5, "keys": 9, "opset": 25, "left_window_size": 2, "right_window_size": 1},
    "window of a cache": {"tokens": 1, "lengths": (5, 12), "is_causal": 1, "opset": 25, "left_window_size": 3},
    "mask of tokens": {"tokens": 5, "mask": visible(5, KEYS)},
    "mask of heads": {"tokens": 5, "mask": visible(BATCH, HEADS, 5, KEYS), "is_causal": 1},
    "mask of one row": {"tokens": 5, "mask": visible(BATCH, 1, 1, KEYS)},
    "short mask": {"tokens": 2, "mask": visible(2, 9)},
    "added mask": {"tokens": 5, "mask": normal(HEADS, 5, KEYS, seed=8)},
    "short added mask": {"tokens": 5, "mask": normal(BATCH, 1, 5, 9, seed=8), "is_causal": 1},
    "precise softmax": {"tokens": 2, "softmax_precision": TensorProto.DOUBLE},
}


@pytest.mark.parametrize("case", CASES)
def test_import_onnx_converts_attention(tmp_path: Path, case: str) -> None:
    assert_as_defined(*attention(**CASES[case]), tmp_path)


@pytest.mark.parametrize("mode", range(4))
def test_import_onnx_returns_scores_of_attention(tmp_path: Path, mode: int) -> None:
    given = {"tokens": 3, "keys": 3, "past": 4, "mask": visible(3, 7), "outputs": 4}
    cap = 0.5 if mode else 0.0  # the reference implementation caps the product of mode 0, too
    assert_as_defined(*attention(**given, softcap=cap, qk_matmul_output_mode=mode), tmp_path)


@pytest.mark.parametrize("case", ["plain", "causal", "one token behind a past", "softcap", "added mask"])
def test_attention_is_that_of_onnxruntime(tmp_path: Path, case: str) -> None:
    model, given = attention(**{**CASES[case], "opset": 23})

    assert_equal(saved(model, tmp_path), given)


def scatter(tokens: int, places: tuple[int, ...] | None, **attributes: Any) -> tuple[Any, dict[str, Any]]:
    given = {"past": heads(OF_KEYS, KEYS, 1), "update": heads(OF_KEYS, tokens, 2)}
    given |= {} if places is None else {"places": np.array(places, np.int64)}
    nodes = [node("TensorScatter", list(given), ["present"], **attributes)]
    shapes, types = {name: each.shape for name, each in given.items()}, {"places": TensorProto.INT64}
    return model_of(nodes, shapes, ["present"], types=types, opset=24), given


@pytest.mark.parametrize(
    ("tokens", "places", "attributes"),
    [
        (1, (3, 11), {}),
        (4, (0, 8), {}),
        (4, None, {"axis": 2}),
        (4, (10, 3), {"mode": "circular"}),
    ],
    ids=["one token", "several tokens", "no places", "circular"],
)
def test_import_onnx_converts_updates_of_caches(
    tmp_path: Path, tokens: int, places: tuple[int, ...] | None, attributes: dict[str, Any]
) -> None:
    assert_as_defined(*scatter(tokens, places, **attributes), tmp_path)


def test_decoder_with_caches_of_onnx_updates_them_in_place(tmp_path: Path) -> None:
    given = {"q": heads(HEADS, 1, 1), "k": heads(OF_KEYS, 1, 2), "v": heads(OF_KEYS, 1, 3)}
    given |= {"keys": heads(OF_KEYS, KEYS, 4), "values": heads(OF_KEYS, KEYS, 5)}
    given |= {"places": np.array([3, 11], np.int64), "lengths": np.array([4, 12], np.int64)}
    nodes = [
        node("TensorScatter", ["keys", "k", "places"], ["new_keys"]),
        node("TensorScatter", ["values", "v", "places"], ["new_values"]),
        node("Attention", ["q", "new_keys", "new_values", "", "", "", "lengths"], ["y"], is_causal=1),
    ]
    shapes, types = {name: each.shape for name, each in given.items()}, dict.fromkeys(("places", "lengths"), 7)
    model = model_of(nodes, shapes, ["y", "new_keys", "new_values"], types=types, opset=24)
    expected = ReferenceEvaluator(model).run(None, given)
    settings = Settings(home=tmp_path / "home")

    compiled = tunefarm.compile(
        saved(model, tmp_path), target="host:1", update_in_place=True, verify=False, settings=settings
    )

    assert [each.inputs for each in compiled.manifest.updated_inputs] == [("keys", "values")]
    _, *caches = compiled(**given)
    output, *again = compiled(**{**given, "keys": caches[0], "values": caches[1]})
    assert [one is other for one, other in zip(again, caches, strict=True)] == [True, True]
    for one, other in zip((output, *caches), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)
