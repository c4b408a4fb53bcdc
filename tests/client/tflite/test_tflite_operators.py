"""Single TFLite operators give in TVM what they give in LiteRT, which also says the shapes of their results."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client.frontend.untuned import by_tvm
from tests.client.tflite.model_builder import NONE, RELU, ModelBuilder, options, schema
from tests.client.tflite.running import Arrays, by_litert
from tunefarm.frontend.tflite.reading import import_tflite
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models
SCALE, ZERO = 0.05, 3


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def quantised(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-100, 100, shape).astype(np.int8)


def whole(*numbers: Any) -> Any:
    return np.array(numbers, np.int32)


def truths(*shape: int) -> Any:
    return np.random.default_rng(0).random(shape) > 0.5


@dataclass(frozen=True)
class Case:
    """An operator: arrays in ``given`` are inputs of the model, the others constants."""

    code: str
    operands: Sequence[Any]
    given: Sequence[int] = (0,)
    chosen: Any = None
    results: Sequence[str] = ("float32",)
    scales: Sequence[tuple[float, int] | None] = (None,)

    def model(self, shapes: Sequence[tuple[int, ...]]) -> tuple[ModelBuilder, list[int]]:
        """With results of these shapes."""
        model, operands = ModelBuilder(), []
        for place, array in enumerate(self.operands):
            kept = {"scale": SCALE, "zero": ZERO} if array.dtype == np.int8 else {}
            is_input = place in self.given
            operands.append(
                model.input(array.shape, str(array.dtype), **kept) if is_input else model.weight(array, **kept)
            )
        results = [
            model.tensor(shape, dtype, **({} if scale is None else {"scale": scale[0], "zero": scale[1]}))
            for shape, dtype, scale in zip(shapes, self.results, self.scales, strict=True)
        ]
        model.operator(self.code, operands, results, self.chosen)
        return model, results

    def file(self, folder: Path) -> tuple[Path, Arrays]:
        """The model, with the shapes that LiteRT finds, and its inputs."""
        inputs = [self.operands[place] for place in self.given]
        model, results = self.model([(1,) for _ in self.results])
        shapes = [each.shape for each in by_litert(model.save(folder, *results), inputs)]
        model, results = self.model(shapes)
        return model.save(folder, *results), inputs


X, IMAGE = normal(2, 4, 6), normal(1, 7, 9, 4)
CASES = {
    "running sum backwards": Case("CUMSUM", (X, whole(1)), chosen=options("CumsumOptions", reverse=True)),
    "exclusive running sum backwards": Case(
        "CUMSUM", (X, whole(-1)), chosen=options("CumsumOptions", reverse=True, exclusive=True)
    ),
    "split with a rest": Case(
        "SPLIT_V", (X, whole(1, -1, 3), np.array(-1, np.int32)), chosen=options("SplitVOptions", numSplits=3),
        results=("float32",) * 3, scales=(None,) * 3,
    ),
    "symmetric padding": Case(
        "MIRROR_PAD", (X, whole([0, 0], [1, 3], [2, 4])), chosen=options("MirrorPadOptions", mode=1)
    ),
    "reflecting padding": Case(
        "MIRROR_PAD", (X, whole([0, 1], [3, 0], [2, 5])), chosen=options("MirrorPadOptions", mode=0)
    ),
    "squeezing all": Case("SQUEEZE", (normal(1, 4, 1, 6),), chosen=options("SqueezeOptions", squeezeDims=[])),
    "squeezing one": Case("SQUEEZE", (normal(1, 4, 1, 6),), chosen=options("SqueezeOptions", squeezeDims=[-2])),
    "reversing two axes": Case("REVERSE_V2", (X, whole(2, 1)), chosen=options("ReverseV2Options")),
    "gathering in batches": Case(
        "GATHER", (X, whole([1, 0, 3], [3, 3, 2])), chosen=options("GatherOptions", axis=1, batchDims=1)
    ),
    "gathering matrices of the last axis": Case(
        "GATHER", (X, whole([1, 0], [5, 2])), chosen=options("GatherOptions", axis=-1)
    ),
    "gathering at inputs": Case("GATHER", (normal(5, 3), whole([3, 1])), (1,), options("GatherOptions", axis=0)),
    "looking up embeddings": Case("EMBEDDING_LOOKUP", (whole(3, 1), normal(5, 3))),
    "selecting rows": Case(
        "SELECT", (np.array([True, False]), X, normal(2, 4, 6, seed=1)), (0, 1), options("SelectOptions")
    ),
    "selecting broadcast elements": Case(
        "SELECT_V2", (truths(4, 1), X, normal(6, seed=1)), (0, 1), options("SelectV2Options")
    ),
    "diagonal matrices": Case("MATRIX_DIAG", (normal(2, 3),), chosen=options("MatrixDiagOptions")),
    "diagonals of wide matrices": Case(
        "MATRIX_SET_DIAG", (normal(2, 3, 5), normal(2, 3)), chosen=options("MatrixSetDiagOptions")
    ),
    "diagonals of tall matrices": Case(
        "MATRIX_SET_DIAG", (normal(2, 5, 3), normal(2, 3)), chosen=options("MatrixSetDiagOptions")
    ),
    "updating a slice": Case("DYNAMIC_UPDATE_SLICE", (X, normal(1, 2, 6), whole(1, 1, 0)), (0, 1, 2)),
    "updating a slice that sticks out": Case("DYNAMIC_UPDATE_SLICE", (X, normal(1, 2, 2), whole(3, -1, 5)), (0, 2)),
    "activating exponentially": Case("ELU", (X,)),
    "slopes of channels": Case("PRELU", (IMAGE, normal(1, 1, 4))),
    **{
        f"nearest to {size} with {'aligned corners' if aligned else 'half pixels'}": Case(
            "RESIZE_NEAREST_NEIGHBOR", (IMAGE, whole(*size)),
            chosen=options("ResizeNearestNeighborOptions", alignCorners=aligned, halfPixelCenters=not aligned),
        )
        for size in ((14, 18), (5, 4), (10, 5), (1, 1))
        for aligned in (True, False)
    },
}  # fmt: skip


def of_integers(
    code: str,
    operands: Sequence[Any],
    given: Sequence[int] = (0,),
    chosen: Any = None,
    scale: tuple[float, int] = (SCALE, ZERO),
) -> Case:
    """An operator whose result is quantised."""
    return Case(code, operands, given, chosen, ("int8",), (scale,))


def windows(extent: int, padding: int, activation: int = NONE) -> Any:
    return options(
        "Pool2DOptions", padding=padding, strideW=2, strideH=2, filterWidth=extent, filterHeight=extent,
        fusedActivationFunction=activation,
    )  # fmt: skip


Q, QUANTISED_IMAGE = quantised(2, 4, 6), quantised(1, 4, 6, 8)
QUANTISED = {
    "depth to space": of_integers(
        "DEPTH_TO_SPACE", (QUANTISED_IMAGE,), chosen=options("DepthToSpaceOptions", blockSize=2)
    ),
    "space to batch": of_integers("SPACE_TO_BATCH_ND", (QUANTISED_IMAGE, whole(2, 3), whole([1, 1], [0, 3]))),
    "batch to space": of_integers("BATCH_TO_SPACE_ND", (quantised(6, 2, 2, 2), whole(2, 3), whole([0, 1], [1, 0]))),
    "reversing": of_integers("REVERSE_V2", (Q, whole(1)), chosen=options("ReverseV2Options")),
    "mirror padding": of_integers(
        "MIRROR_PAD", (Q, whole([0, 0], [1, 3], [2, 4])), chosen=options("MirrorPadOptions", mode=1)
    ),
    "padding by a value": of_integers("PADV2", (Q, whole([0, 0], [1, 2], [0, 3]), np.array([9], np.int8))),
    "selecting": of_integers("SELECT_V2", (truths(4, 1), Q, quantised(6, seed=1)), (0, 1), options("SelectV2Options")),
    "rounded means": of_integers("AVERAGE_POOL_2D", (QUANTISED_IMAGE,), chosen=windows(2, schema.Padding.VALID)),
    "rounded means of borders": of_integers(
        "AVERAGE_POOL_2D", (QUANTISED_IMAGE,), chosen=windows(3, schema.Padding.SAME)
    ),
    "rounded positive means": of_integers(
        "AVERAGE_POOL_2D", (QUANTISED_IMAGE,), chosen=windows(2, schema.Padding.SAME, RELU)
    ),
    "slopes": of_integers("PRELU", (QUANTISED_IMAGE, quantised(1, 1, 8, seed=1))),
    "product of matrices": of_integers(
        "BATCH_MATMUL", (quantised(2, 4, 5), quantised(2, 5, 3, seed=1)), (0, 1), options("BatchMatMulOptions"),
        scale=(0.7, -2),
    ),
    "gelu": of_integers("GELU", (Q,), chosen=options("GeluOptions"), scale=(0.04, -60)),
    "elu": of_integers("ELU", (Q,), scale=(0.04, -30)),
    "normalizing": of_integers("L2_NORMALIZATION", (Q,), chosen=options("L2NormOptions"), scale=(1 / 128, 0)),
    "greatest places": Case(
        "ARG_MAX", (Q, whole(1)), chosen=options("ArgMaxOptions", outputType=2), results=("int32",)
    ),
    "greatest elements": Case(
        "TOPK_V2", (Q, np.array(3, np.int32)), chosen=options("TopKV2Options"), results=("int8", "int32"),
        scales=((SCALE, ZERO), None),
    ),
    "casting": Case("CAST", (Q,), chosen=options("CastOptions", inDataType=9, outDataType=0), results=("float32",)),
}  # fmt: skip


ROUNDED = {"BATCH_MATMUL", "ELU", "GELU", "L2_NORMALIZATION", "PRELU"}
"""Operators whose results may differ by a step."""


@pytest.mark.parametrize("name", CASES)
def test_operator_equals_litert(tmp_path: Path, name: str) -> None:
    path, inputs = CASES[name].file(tmp_path)
    for mine, theirs in zip(by_tvm(import_tflite(path, {}), inputs), by_litert(path, inputs), strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_operator_equals_litert_within_a_step(tmp_path: Path, name: str) -> None:
    case = QUANTISED[name]
    path, inputs = case.file(tmp_path)
    for mine, theirs in zip(by_tvm(import_tflite(path, {}), inputs), by_litert(path, inputs), strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        assert np.abs(mine.astype(np.int64) - theirs.astype(np.int64)).max() <= (case.code in ROUNDED)


@pytest.mark.parametrize(
    ("case", "advice"),
    [
        (Case("WHERE", (truths(2, 3),), chosen=options("WhereOptions"), results=("int64",)), "depends on its contents"),
        (
            Case(
                "UNIQUE", (whole(3, 1, 3),), chosen=options("UniqueOptions"), results=("int32", "int32"),
                scales=(None, None),
            ),
            "depends on its contents",
        ),
        (
            of_integers("REVERSE_V2", (Q, whole(1)), chosen=options("ReverseV2Options"), scale=(0.1, 0)),
            "different scales",
        ),
        (Case("GATHER", (X, whole(4)), chosen=options("GatherOptions", axis=1)), "outside of the tensor"),
    ],
    ids=["places of truths", "unique elements", "scales", "indices"],
)  # fmt: skip
def test_operator_is_refused_with_a_reason(tmp_path: Path, case: Case, advice: str) -> None:
    model, results = case.model([(2, 1, 6) for _ in case.results])
    with pytest.raises(BadInput, match=f"{case.code} at operator 0") as error:
        import_tflite(model.save(tmp_path, *results), {})
    assert advice in error.value.fix
