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

DETECTION: Final = b"TFLite_Detection_PostProcess"
"""The custom code of the operator."""
_MAX_STEPS: Final = 256
"""Boxes that are chosen one after another: the loop is unrolled."""
_COORDINATES: Final = 4
_REMOVED: Final = -1e30
"""The score of a box that is chosen or overlaps one. It is above the lowest number, which TVM takes for no element."""
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
    """The lowest score of a chosen box."""
    nms_iou_threshold: Annotated[float, Field(gt=0, le=1)]
    """Shares of intersection in union above which a box is removed."""

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
            raise ValueError(f"it chooses more than {_MAX_STEPS} boxes")
        return options

    @property
    def steps(self) -> int:
        """Boxes that are chosen, of each class where they may overlap: no class has more in the result."""
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
    """Emits the operator, as arithmetic on all boxes at once and a reduction for each chosen box."""

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
        lines = self._reshaped(scores, (count, given))
        if background:
            lines = self._emit(relax.op.strided_slice(lines, [1], [1], [given]))
        places, values, kinds = (
            self._by_class(boxes, lines) if self._options.use_regular_nms else self._of_all(boxes, lines)
        )
        is_there = self._emit(relax.op.greater(values, _number(_REMOVED / 2)))
        corners = self._emit(relax.op.stack(boxes, 1))
        chosen = self._emit(relax.op.take(corners, places, 0))
        nothing = _number(0.0)
        parts = [
            relax.op.where(self._emit(relax.op.expand_dims(is_there, 1)), chosen, nothing),
            relax.op.where(is_there, self._emit(relax.op.astype(kinds, "float32")), nothing),
            relax.op.where(is_there, values, nothing),
        ]
        number = relax.op.sum(self._emit(relax.op.astype(is_there, "float32")), 0, keepdims=True)
        return [*(self._widened(self._emit(part)) for part in parts), self._emit(number)]

    def _decoded(self, encodings: Any, anchors: Any, count: int) -> _Boxes:
        """The corners, each of shape (boxes,)."""
        wanted = self._emit(relax.op.strided_slice(encodings, [2], [0], [_COORDINATES]))
        moves, ways = (self._columns(each, count) for each in (wanted, anchors))
        moves = [
            self._emit(relax.op.divide(move, _number(scale)))
            for move, scale in zip(moves, self._options.scales, strict=True)
        ]
        middles = [
            self._emit(relax.op.add(self._emit(relax.op.multiply(moves[axis], ways[axis + 2])), ways[axis]))
            for axis in range(2)
        ]
        halves = [self._half(moves[axis], ways[axis]) for axis in (2, 3)]
        first = [self._emit(relax.op.subtract(*pair)) for pair in zip(middles, halves, strict=True)]
        last = [self._emit(relax.op.add(*pair)) for pair in zip(middles, halves, strict=True)]
        return _Boxes(*first, *last)

    def _half(self, move: Any, extent: Any) -> Any:
        factor = self._emit(relax.op.multiply(self._emit(relax.op.exp(move)), _number(0.5)))
        return self._emit(relax.op.multiply(factor, extent))

    def _columns(self, table: Any, count: int) -> list[Any]:
        whole = self._emit(relax.op.split(self._reshaped(table, (count, _COORDINATES)), _COORDINATES, axis=1))
        columns = (self._emit(relax.TupleGetItem(whole, each)) for each in range(_COORDINATES))
        return [self._reshaped(column, (count,)) for column in columns]

    def _of_all(self, boxes: _Boxes, scores: Any) -> tuple[Any, Any, Any]:
        """Places, scores and classes, where each box has its best class."""
        best, kinds = (self._emit(of(scores, 1)) for of in (relax.op.max, relax.op.argmax))
        places, values = self._chosen(boxes, self._emit(relax.op.expand_dims(best, 0)))
        places, values = (self._reshaped(each, (-1,)) for each in (places, values))
        return places, values, self._emit(relax.op.take(kinds, places, 0))

    def _by_class(self, boxes: _Boxes, scores: Any) -> tuple[Any, Any, Any]:
        """Places, scores and classes, where each class has boxes of its own."""
        places, values = self._chosen(boxes, self._emit(relax.op.permute_dims(scores, [1, 0])))
        steps = int(values.ty.shape[1])
        count = min(self._options.max_detections, steps * self._options.num_classes)
        flat = self._reshaped(values, (-1,))
        best = self._emit(relax.op.topk(flat, count, 0, "both", largest=True, dtype="int64"))
        values, numbers = (self._emit(relax.TupleGetItem(best, part)) for part in range(2))
        kinds = self._emit(relax.op.floor_divide(numbers, relax.const(steps, "int64")))
        return self._emit(relax.op.take(self._reshaped(places, (-1,)), numbers, 0)), values, kinds

    def _chosen(self, boxes: _Boxes, scores: Any) -> tuple[Any, Any]:
        """The places and scores of the boxes that are chosen, of shape (classes, steps), by scores (classes, boxes)."""
        classes, count = (int(size) for size in scores.ty.shape)
        numbers = relax.const(np.arange(count), "int64")
        wide = _Boxes(*(self._emit(relax.op.expand_dims(each, 0)) for each in boxes))
        is_high = self._emit(relax.op.greater_equal(scores, _number(self._options.nms_score_threshold)))
        left = self._emit(relax.op.where(is_high, scores, _number(_REMOVED)))
        places, values = [], []
        for _ in range(min(self._options.steps, count)):
            values.append(self._emit(relax.op.max(left, 1, keepdims=True)))
            places.append(self._emit(relax.op.argmax(left, 1, keepdims=True)))
            place = self._reshaped(places[-1], (classes,))
            best = _Boxes(*(self._reshaped(self._emit(relax.op.take(each, place, 0)), (classes, 1)) for each in boxes))
            overlaps = self._emit(relax.op.greater(self._overlap(best, wide), _number(self._options.nms_iou_threshold)))
            is_gone = self._emit(relax.op.logical_or(overlaps, self._emit(relax.op.equal(numbers, places[-1]))))
            left = self._emit(relax.op.where(is_gone, _number(_REMOVED), left))
        return self._joined(places), self._joined(values)

    def _overlap(self, one: _Boxes, other: _Boxes) -> Any:
        """The intersection's share in the union; 0 for boxes without an area."""
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

    def _joined(self, columns: list[Any]) -> Any:
        return columns[0] if len(columns) == 1 else self._emit(relax.op.concat(columns, 1))

    def _widened(self, part: Any) -> Any:
        """Zeros after the boxes that were found, for one image."""
        missing = self._options.max_detections - int(part.ty.shape[0])
        if missing:
            part = self._emit(relax.op.nn.pad(part, [0, missing, *[0, 0] * (part.ty.ndim - 1)]))
        return self._emit(relax.op.expand_dims(part, 0))

    def _reshaped(self, value: Any, shape: tuple[int, ...]) -> Any:
        return self._emit(relax.op.reshape(value, shape))


def _number(value: float) -> Any:
    return relax.const(value, "float32")
