"""TFLite_Detection_PostProcess: the boxes of a detector, without those that overlap better ones.

tensorflow/lite/kernels/detection_postprocess.cc. TVM's converter sorts by a function that kernels may not call.
"""

import struct
from collections.abc import Callable
from itertools import starmap
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

import numpy as np
from flatbuffers import flexbuffers
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PositiveFloat, PositiveInt, ValidationError
from tvm import relax

from tunefarm.frontend.expressions.along_axis import joined, pieces

DETECTION: Final = b"TFLite_Detection_PostProcess"
"""The custom code of the operator."""
_MAX_STEPS: Final = 256
"""Boxes that are selected one after another: the loop is unrolled."""
_COORDINATES: Final = 4
_REMOVED: Final = -1e30
"""The score of a box that is selected or overlaps one; above the lowest number, which TVM takes for no element."""
_DAMAGED: Final = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError, struct.error)
"""What the reader of FlexBuffers raises for bytes that are not one."""


class DetectionOptions(BaseModel):
    """Options of the operator, by the names that the file has them under."""

    model_config = ConfigDict(frozen=True)

    y_scale: PositiveFloat
    x_scale: PositiveFloat
    h_scale: PositiveFloat
    w_scale: PositiveFloat
    num_classes: PositiveInt
    """Without the background."""
    max_detections: PositiveInt
    max_classes_per_detection: Literal[1] = 1
    use_regular_nms: bool = False
    """Whether boxes of different classes may overlap."""
    detections_per_class: PositiveInt = 100
    nms_score_threshold: FiniteFloat
    """The lowest score of a selected box."""
    nms_iou_threshold: Annotated[float, Field(gt=0, le=1)]
    """Intersection over union above which a box is removed."""

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Read a FlexBuffer.

        Raises:
            ValueError: it is damaged, or has options that are not supported.
        """
        try:
            given = flexbuffers.Loads(content)
        except _DAMAGED as error:
            raise ValueError("its options are damaged") from error
        try:
            options = cls.model_validate(given)
        except ValidationError as error:
            (first, *_) = error.errors()
            name = ".".join(map(str, first["loc"])) or "all"
            raise ValueError(f"its options are refused: {name}: {first['msg']}") from error
        if options.steps > _MAX_STEPS:
            raise ValueError(f"it selects more than {_MAX_STEPS} boxes")
        return options

    @property
    def steps(self) -> int:
        """Boxes that are selected, of each class where they may overlap: no class has more in the result."""
        return min(self.max_detections, self.detections_per_class) if self.use_regular_nms else self.max_detections

    @property
    def scales(self) -> tuple[float, ...]:
        """Of the predicted y, x, height and width."""
        return self.y_scale, self.x_scale, self.h_scale, self.w_scale


class _Boxes(NamedTuple):
    """Corners of boxes, each of the same shape."""

    top: Any
    left: Any
    bottom: Any
    right: Any


class Detection:
    """Emits the operator: greedy non-maximum suppression, unrolled, as arithmetic on all boxes at once."""

    def __init__(self, options: DetectionOptions, emit: Callable[[Any], Any]) -> None:
        self._options = options
        self._emit = emit

    def results(self, encodings: Any, scores: Any, anchors: Any) -> list[Any]:
        """Boxes of shape (1, detections, 4), classes and scores of shape (1, detections), and their number.

        Args:
            encodings: float32 of shape (1, boxes, at least 4): y, x, height and width relative to the anchors.
            scores: float32 of shape (1, boxes, classes, or one more with the background first).
            anchors: float32 of shape (boxes, 4).

        Raises:
            ValueError: there are several images, or the classes are not those of the options.
        """
        (images, count, _), given = (int(size) for size in encodings.ty.shape), int(scores.ty.shape[2])
        background = given - self._options.num_classes
        if images != 1 or background not in (0, 1):
            raise ValueError("it takes one image, and the scores of its classes with or without the background")
        boxes = self._decoded(encodings, anchors, count)
        scores = self._reshaped(scores, (count, given))
        if background:
            scores = self._emit(relax.op.strided_slice(scores, [1], [1], [given]))
        by_class = self._options.use_regular_nms
        indices, found, classes = self._of_each_class(boxes, scores) if by_class else self._of_all(boxes, scores)
        is_there = self._emit(relax.op.greater(found, _number(_REMOVED / 2)))
        corners = self._emit(relax.op.take(self._emit(relax.op.stack(boxes, 1)), indices, 0))
        nothing = _number(0.0)
        parts = [
            relax.op.where(self._emit(relax.op.expand_dims(is_there, 1)), corners, nothing),
            relax.op.where(is_there, self._emit(relax.op.astype(classes, "float32")), nothing),
            relax.op.where(is_there, found, nothing),
        ]
        number = relax.op.sum(self._emit(relax.op.astype(is_there, "float32")), 0, keepdims=True)
        return [*(self._padded(self._emit(part)) for part in parts), self._emit(number)]

    def _decoded(self, encodings: Any, anchors: Any, count: int) -> _Boxes:
        """The corners, each of shape (boxes,)."""
        encodings = self._emit(relax.op.strided_slice(encodings, [2], [0], [_COORDINATES]))
        offsets, anchor = (self._columns(each, count) for each in (encodings, anchors))
        offsets = [
            self._emit(relax.op.divide(offset, _number(scale)))
            for offset, scale in zip(offsets, self._options.scales, strict=True)
        ]
        centers = [
            self._emit(relax.op.add(self._emit(relax.op.multiply(offsets[axis], anchor[axis + 2])), anchor[axis]))
            for axis in range(2)
        ]
        halves = [self._half_extent(offsets[axis], anchor[axis]) for axis in (2, 3)]
        first = [self._emit(relax.op.subtract(*pair)) for pair in zip(centers, halves, strict=True)]
        last = [self._emit(relax.op.add(*pair)) for pair in zip(centers, halves, strict=True)]
        return _Boxes(*first, *last)

    def _half_extent(self, offset: Any, extent: Any) -> Any:
        factor = self._emit(relax.op.multiply(self._emit(relax.op.exp(offset)), _number(0.5)))
        return self._emit(relax.op.multiply(factor, extent))

    def _columns(self, table: Any, count: int) -> list[Any]:
        columns = pieces(self._reshaped(table, (count, _COORDINATES)), _COORDINATES, 1, self._emit)
        return [self._reshaped(column, (count,)) for column in columns]

    def _of_all(self, boxes: _Boxes, scores: Any) -> tuple[Any, Any, Any]:
        """Indices, scores and classes of boxes, each of which has its best class."""
        best, classes = (self._emit(of(scores, 1)) for of in (relax.op.max, relax.op.argmax))
        selected = self._suppressed(boxes, self._emit(relax.op.expand_dims(best, 0)))
        indices, found = (self._reshaped(each, (-1,)) for each in selected)
        return indices, found, self._emit(relax.op.take(classes, indices, 0))

    def _of_each_class(self, boxes: _Boxes, scores: Any) -> tuple[Any, Any, Any]:
        """Indices, scores and classes of the best boxes, of which each class has its own."""
        indices, found = self._suppressed(boxes, self._emit(relax.op.permute_dims(scores, [1, 0])))
        steps = int(found.ty.shape[1])
        count = min(self._options.max_detections, steps * self._options.num_classes)
        best = self._emit(relax.op.topk(self._reshaped(found, (-1,)), count, 0, "both", largest=True, dtype="int64"))
        found, positions = (self._emit(relax.TupleGetItem(best, part)) for part in range(2))
        classes = self._emit(relax.op.floor_divide(positions, relax.const(steps, "int64")))
        return self._emit(relax.op.take(self._reshaped(indices, (-1,)), positions, 0)), found, classes

    def _suppressed(self, boxes: _Boxes, scores: Any) -> tuple[Any, Any]:
        """Non-maximum suppression in each row of scores (classes, boxes).

        Each step selects the best box that remains, and removes those that overlap it.

        Returns:
            The indices and scores of the selected boxes, of shape (classes, steps).
        """
        classes, count = (int(size) for size in scores.ty.shape)
        positions = relax.const(np.arange(count), "int64")
        all_boxes = _Boxes(*(self._emit(relax.op.expand_dims(each, 0)) for each in boxes))
        is_high = self._emit(relax.op.greater_equal(scores, _number(self._options.nms_score_threshold)))
        remaining = self._emit(relax.op.where(is_high, scores, _number(_REMOVED)))
        indices, found = [], []
        for _ in range(min(self._options.steps, count)):
            found.append(self._emit(relax.op.max(remaining, 1, keepdims=True)))
            indices.append(self._emit(relax.op.argmax(remaining, 1, keepdims=True)))
            index = self._reshaped(indices[-1], (classes,))
            best = _Boxes(*(self._reshaped(self._emit(relax.op.take(each, index, 0)), (classes, 1)) for each in boxes))
            overlap = self._overlap(best, all_boxes)
            is_covered = self._emit(relax.op.greater(overlap, _number(self._options.nms_iou_threshold)))
            is_best = self._emit(relax.op.equal(positions, indices[-1]))
            is_removed = self._emit(relax.op.logical_or(is_covered, is_best))
            remaining = self._emit(relax.op.where(is_removed, _number(_REMOVED), remaining))
        return joined(indices, 1, self._emit), joined(found, 1, self._emit)

    def _overlap(self, one: _Boxes, other: _Boxes) -> Any:
        """Intersection over union; 0 for boxes without an area."""
        emit = self._emit
        inner = _Boxes(
            *(emit(relax.op.maximum(one[side], other[side])) for side in (0, 1)),
            *(emit(relax.op.minimum(one[side], other[side])) for side in (2, 3)),
        )
        sides = [emit(relax.op.maximum(side, _number(0.0))) for side in self._sides(inner)]
        intersection = emit(relax.op.multiply(*sides))
        areas = [emit(relax.op.multiply(*self._sides(boxes))) for boxes in (one, other)]
        union = emit(relax.op.subtract(emit(relax.op.add(*areas)), intersection))
        are_areas = emit(relax.op.logical_and(*(emit(relax.op.greater(area, _number(0.0))) for area in areas)))
        return emit(relax.op.where(are_areas, emit(relax.op.divide(intersection, union)), _number(0.0)))

    def _sides(self, boxes: _Boxes) -> list[Any]:
        pairs = ((boxes.bottom, boxes.top), (boxes.right, boxes.left))
        return [self._emit(each) for each in starmap(relax.op.subtract, pairs)]

    def _padded(self, part: Any) -> Any:
        """Zeros after the boxes that were found, for one image."""
        missing = self._options.max_detections - int(part.ty.shape[0])
        if missing:
            part = self._emit(relax.op.nn.pad(part, [0, missing, *[0, 0] * (part.ty.ndim - 1)]))
        return self._emit(relax.op.expand_dims(part, 0))

    def _reshaped(self, value: Any, shape: tuple[int, ...]) -> Any:
        return self._emit(relax.op.reshape(value, shape))


def _number(value: float) -> Any:
    return relax.const(value, "float32")
