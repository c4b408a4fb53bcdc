"""Calls of any size reach the smallest bucket that holds them; manifests that contradict themselves are refused."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tunefarm.model.dynamic.dimension_places import output_places
from tunefarm.model.sizes.numpy_arrays import NumpyArray, NumpyOperations
from tunefarm.model.sizes.size_dispatch import SizeDispatch, refusal_of_dynamic
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.dynamic_shape import DimensionPlace, DynamicDimension, DynamicShape, SizeBucket
from tunefarm_schemas.tuning.model import ModelEntry, ModelManifest
from tunefarm_schemas.tuning.workload import TensorArgument

BATCHES, LENGTHS = (1, 4), (2, 8)


def _entry(batch: int, length: int) -> ModelEntry:
    data = TensorArgument(name="data", shape=(batch, length, 3), dtype="float32", is_output=False)
    mask = TensorArgument(name="mask", shape=(batch, length), dtype="int64", is_output=False)
    flat = TensorArgument(name="output0", shape=(batch, length * 3), dtype="float32", is_output=True)
    return ModelEntry(name=f"main@{batch}x{length}", inputs=(data, mask), outputs=(flat,), is_tuple=False)


def _manifest(**changes: Any) -> ModelManifest:
    batch = DynamicDimension(
        name="batch",
        sizes=BATCHES,
        inputs=(DimensionPlace(tensor=0, axis=0), DimensionPlace(tensor=1, axis=0)),
        outputs=(DimensionPlace(tensor=0, axis=0),),
        is_splittable=True,
    )
    length = DynamicDimension(
        name="length",
        sizes=LENGTHS,
        inputs=(DimensionPlace(tensor=0, axis=1), DimensionPlace(tensor=1, axis=1)),
        outputs=(DimensionPlace(tensor=0, axis=1, factor=3),),
    )
    sizes = [(b, s) for b in BATCHES for s in LENGTHS]
    dynamic = DynamicShape(
        dimensions=(batch, length),
        buckets=tuple(SizeBucket(sizes=each, entry=f"main@{each[0]}x{each[1]}") for each in sizes),
        padding={"mask": 7.0},
    )
    return ModelManifest(
        format=1,
        name="model",
        framework="test",
        tunefarm_version="0",
        tvm_version="0",
        code_generator="test",
        target="{}",
        num_cores=1,
        entries=tuple(_entry(*each) for each in sizes),
        entry_weights=(),
        functions=(),
        library="",
        program="",
        weights="",
        dynamic=dynamic.model_copy(update=changes),
        created_at="2026-01-01T00:00:00+00:00",
    )


class _Calls:
    """Doubles its first input, and keeps the calls."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[NumpyArray]]] = []

    def run(self, entry: str, arrays: list[NumpyArray]) -> list[NumpyArray]:
        self.seen.append((entry, arrays))
        return [np.asarray(arrays[0].astype("float32") * np.float32(2)).reshape(len(arrays[0]), -1)]


def _inputs(batch: int, length: int) -> list[NumpyArray]:
    data = np.arange(1, batch * length * 3 + 1, dtype="float32").reshape(batch, length, 3)
    return [data, np.ones((batch, length), "int64")]


def _serve(manifest: ModelManifest, inputs: Sequence[NumpyArray]) -> tuple[list[NumpyArray], _Calls]:
    assert manifest.dynamic is not None
    calls = _Calls()
    return SizeDispatch(manifest, manifest.dynamic).serve(inputs, NumpyOperations(), calls.run), calls


@pytest.mark.parametrize("batch", range(1, 12))
@pytest.mark.parametrize("length", range(1, 9))
def test_every_size_gives_the_results_of_its_own_rows(batch: int, length: int) -> None:
    inputs = _inputs(batch, length)
    found, calls = _serve(_manifest(), inputs)
    np.testing.assert_array_equal(found[0], (inputs[0] * 2).reshape(batch, length * 3))
    assert len(calls.seen) == -(-batch // 4)
    lengths = {entry.rpartition("x")[2] for entry, _ in calls.seen}
    assert lengths == {"2" if length <= 2 else "8"}


def test_inputs_are_padded_with_zeros_or_what_is_stated() -> None:
    _, calls = _serve(_manifest(), _inputs(3, 5))
    entry, (data, mask) = calls.seen[0]
    assert entry == "main@4x8"
    assert data.shape == (4, 8, 3)
    assert not data[3].any()
    assert not data[:, 5:].any()
    assert (mask[3] == 7).all()
    assert (mask[:3, :5] == 1).all()


def test_inputs_of_a_buckets_size_are_not_copied() -> None:
    inputs = _inputs(4, 8)
    _, calls = _serve(_manifest(), inputs)
    assert calls.seen[0][1][0] is inputs[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: _inputs(2, 9), "batch is 2, length is 9. The model serves batch: 1 to 4; length: 1 to 8"),
        (lambda given: [given[0].astype("float64"), given[1]], "Give float32.batch, length, 3."),
        (lambda given: [given[0][:, :, :2], given[1]], "data is float32.2, 4, 2."),
        (lambda given: [given[0][0], given[1]], "data is float32.4, 3."),
        (lambda given: [given[0], given[1][:1]], "batch has several sizes"),
        (lambda given: [given[0][:0], given[1][:0]], "batch has several sizes, or none"),
    ],
)
def test_other_inputs_are_refused(change: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        _serve(_manifest(), change(_inputs(2, 4)))


def test_exact_models_serve_the_sizes_of_their_buckets_only() -> None:
    manifest = _manifest(is_exact=True)
    found, _ = _serve(manifest, _inputs(4, 2))
    assert found[0].shape == (4, 6)
    for batch, length in ((3, 2), (4, 3), (8, 8)):
        with pytest.raises(BadInput, match="serves exact sizes only"):
            _serve(manifest, _inputs(batch, length))


def test_exact_models_have_extents_that_follow_from_their_sizes() -> None:
    """The mask of a decoder, say, covers the tokens before and those of the input."""
    manifest = _manifest(is_exact=True, dimensions=(_without_mask(0), _without_mask(1)))
    entries = [
        each.model_copy(update={"inputs": (each.inputs[0], each.inputs[1].model_copy(update={"shape": (1, 9 + n)}))})
        for n, each in enumerate(manifest.entries)
    ]
    manifest = manifest.model_copy(update={"entries": tuple(entries)})
    assert refusal_of_dynamic(manifest) is None
    data = np.ones((4, 2, 3), np.float32)
    at = [each.sizes for each in manifest.dynamic.buckets].index((4, 2))  # type: ignore[union-attr]
    found, _ = _serve(manifest, [data, np.ones((1, 9 + at), np.int64)])
    assert found[0].shape == (4, 6)
    with pytest.raises(BadInput, match=rf"mask is int64\[1, 4\]. Give int64\[1, {9 + at}\]"):
        _serve(manifest, [data, np.ones((1, 4), np.int64)])


def _without_mask(at: int) -> DynamicDimension:
    dynamic = _manifest().dynamic
    assert dynamic is not None
    return dynamic.dimensions[at].model_copy(update={"inputs": (DimensionPlace(tensor=0, axis=at),)})


def _changed(manifest: ModelManifest, at: int, **changes: Any) -> ModelManifest:
    assert manifest.dynamic is not None
    dimensions = list(manifest.dynamic.dimensions)
    dimensions[at] = dimensions[at].model_copy(update=changes)
    return _manifest(dimensions=tuple(dimensions))


def test_a_manifest_of_matching_entries_is_accepted() -> None:
    assert refusal_of_dynamic(_manifest()) is None
    assert refusal_of_dynamic(_manifest().model_copy(update={"dynamic": None})) is None


@pytest.mark.parametrize(
    "damaged",
    [
        _manifest(dimensions=()),
        _manifest(buckets=()),
        _manifest(buckets=(*_manifest().dynamic.buckets, SizeBucket(sizes=(1, 2), entry="main@1x8"))),  # type: ignore[union-attr]
        _manifest(padding={"other": 0.0}),
        _manifest(padding={"mask": float("nan")}),
        _changed(_manifest(), 0, sizes=(4, 1)),
        _changed(_manifest(), 0, sizes=(1, 5)),
        _changed(_manifest(), 0, sizes=(0, 4)),
        _changed(_manifest(), 0, inputs=()),
        _changed(_manifest(), 0, inputs=(DimensionPlace(tensor=2, axis=0),)),
        _changed(_manifest(), 0, inputs=(DimensionPlace(tensor=0, axis=2),)),
        _changed(_manifest(), 0, outputs=(DimensionPlace(tensor=0, axis=-1),)),
        _changed(_manifest(), 0, outputs=()),
        _changed(_manifest(), 1, outputs=(DimensionPlace(tensor=0, axis=1, factor=2),)),
        _manifest().model_copy(update={"entries": _manifest().entries[1:]}),
    ],
)
def test_a_manifest_that_contradicts_its_entries_is_refused(damaged: ModelManifest) -> None:
    assert refusal_of_dynamic(damaged) is not None


def test_axes_of_outputs_belong_to_the_dimension_that_they_grow_with() -> None:
    entries = {sizes: _entry(*sizes) for sizes in ((8, 8), (5, 8), (5, 5))}
    batch, length = output_places(entries, ["batch", "length"])
    assert batch == (DimensionPlace(tensor=0, axis=0),)
    assert length == (DimensionPlace(tensor=0, axis=1, factor=3),)
    del entries[5, 8]
    with pytest.raises(BadInput, match="may be of batch or length"):
        output_places(entries, ["batch", "length"])
