"""TFLite_Detection_PostProcess gives what LiteRT gives, up to the number of detections; zeros follow."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

import tunefarm
from tests.client.frontend.untuned import by_tvm
from tests.client.tflite.model_builder import ModelBuilder
from tests.client.tflite.running import Arrays, by_litert
from tunefarm.frontend.tflite.reading import import_tflite
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models
BOXES = 60
FOUND = 3
"""The place of the number of detections among the results."""
USUAL = {
    "num_classes": 3, "max_detections": 10, "max_classes_per_detection": 1, "detections_per_class": 5,
    "use_regular_nms": False, "nms_iou_threshold": 0.5, "nms_score_threshold": 0.1, "x_scale": 10.0, "y_scale": 10.0,
    "w_scale": 5.0, "h_scale": 5.0,
}  # fmt: skip


def written(options: dict[str, Any]) -> bytes:
    builder = flexbuffers.Builder()
    with builder.Map():
        for name in sorted(options):
            value = options[name]
            add = {bool: builder.Bool, int: builder.Int, float: builder.Float}[type(value)]
            add(name, value)
    return bytes(builder.Finish())


def saved(folder: Path, content: bytes, *, boxes: int = BOXES, scores: int = 4, of_bytes: bool = False) -> Path:
    random = np.random.default_rng(0)
    sides = [random.uniform(0.2, 0.8, (boxes, 2)), random.uniform(0.1, 0.4, (boxes, 2))]
    anchors = np.concatenate(sides, 1).astype(np.float32)
    model, dtype = ModelBuilder(), "uint8" if of_bytes else "float32"
    ranges = [{"scale": 0.05, "zero": 128}, {"scale": 1 / 256}, {"scale": 1 / 250}] if of_bytes else [{}, {}, {}]
    operands = [model.input((1, boxes, size), dtype, **each) for size, each in zip((4, scores), ranges, strict=False)]
    anchors = np.round(anchors * 250).astype(np.uint8) if of_bytes else anchors
    operands.append(model.weight(anchors, **ranges[2]))
    results = [model.tensor(shape) for shape in ((1, 10, 4), (1, 10), (1, 10), (1,))]
    model.operator("CUSTOM", operands, results, custom="TFLite_Detection_PostProcess")
    model.graph.operators[0].customOptions = np.frombuffer(content, np.uint8)
    return model.save(folder, *results)


def inputs(boxes: int = BOXES, scores: int = 4) -> Arrays:
    random = np.random.default_rng(1)
    encodings = random.normal(0, 1, (1, boxes, 4)).astype(np.float32)
    return [encodings, random.uniform(0, 1, (1, boxes, scores)).astype(np.float32)]


def require_equal(found: Arrays, expected: Arrays) -> int:
    """Returns the number of detections."""
    (count,) = expected[FOUND].astype(int)
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    for mine, theirs in zip(found[:FOUND], expected[:FOUND], strict=True):
        np.testing.assert_allclose(mine[:, :count], theirs[:, :count], atol=1e-6)
        assert not mine[:, count:].any()
    assert found[FOUND] == expected[FOUND]
    return int(count)


@pytest.mark.parametrize(
    ("changed", "boxes", "scores", "count"),
    [
        ({}, BOXES, 4, 10),
        ({}, BOXES, 3, 10),
        ({"use_regular_nms": True}, BOXES, 4, 10),
        ({"use_regular_nms": True, "detections_per_class": 2}, BOXES, 4, 6),
        ({"nms_score_threshold": 0.97}, BOXES, 4, None),
        ({"nms_iou_threshold": 1e-3}, BOXES, 4, None),
        ({"nms_iou_threshold": 1.0}, 6, 4, 6),
    ],
    ids=["usual", "no background", "by class", "two of each class", "few", "little overlap", "few boxes"],
)
def test_import_tflite_selects_boxes_as_litert_does(
    tmp_path: Path, changed: dict[str, Any], boxes: int, scores: int, count: int | None
) -> None:
    path, given = saved(tmp_path, written(USUAL | changed), boxes=boxes, scores=scores), inputs(boxes, scores)
    found = require_equal(by_tvm(import_tflite(path, {}), given), by_litert(path, given))
    assert found == count if count is not None else 0 < found < USUAL["max_detections"]


def test_import_tflite_selects_among_equal_scores_as_litert_does(tmp_path: Path) -> None:
    path = saved(tmp_path, written(USUAL), of_bytes=True)
    random = np.random.default_rng(1)
    encodings = random.integers(90, 170, (1, BOXES, 4)).astype(np.uint8)
    given = [encodings, random.integers(0, 32, (1, BOXES, 4)).astype(np.uint8) * 8]
    require_equal(by_tvm(import_tflite(path, {}), given), by_litert(path, given))


def test_compiled_detector_selects_boxes_as_litert_does(tmp_path: Path) -> None:
    path, given = saved(tmp_path, written(USUAL | {"nms_score_threshold": 0.97})), inputs()
    compiled = tunefarm.compile(str(path))
    assert require_equal([np.asarray(each) for each in compiled(*given)], by_litert(path, given))


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (b"", "damaged"),
        (b"\xff" * 40, "damaged"),
        (written(USUAL)[:-20], "its options are"),
        (
            written({name: value for name, value in USUAL.items() if name != "num_classes"}),
            "num_classes: Field required",
        ),
        (written(USUAL | {"x_scale": 0.0}), "x_scale: Input should be greater than 0"),
        (written(USUAL | {"nms_iou_threshold": 0.0}), "nms_iou_threshold: Input should be greater than 0"),
        (written(USUAL | {"max_classes_per_detection": 2}), "max_classes_per_detection: Input should be 1"),
        (written(USUAL | {"max_detections": 1000}), "more than 256 boxes"),
        (written(USUAL | {"num_classes": 9}), "with or without the background"),
    ],
    ids=["none", "bytes", "cut", "no classes", "scale", "overlap", "several classes", "many", "other classes"],
)
def test_import_tflite_refuses_options_of_a_detector(tmp_path: Path, content: bytes, advice: str) -> None:
    with pytest.raises(BadInput, match="DETECTION_POSTPROCESS at operator 0") as error:
        import_tflite(saved(tmp_path, content), {})
    assert advice in error.value.fix
