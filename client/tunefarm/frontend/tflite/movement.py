"""Converters of TFLite operators that move elements, which TVM converts wrongly, refuses or lacks."""

import math
from typing import Any, Literal

import numpy as np
import tflite
from tvm import relax, te
from tvm.relax.frontend.tflite import tflite_frontend

from tunefarm.frontend.expressions.slices import clamped, updated


class MovementConverters(tflite_frontend.OperatorConverter):  # type: ignore[misc]
    """TVM's table of converters, with ours in place of some."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.convert_map |= {"DYNAMIC_UPDATE_SLICE": self.convert_dynamic_update_slice}

    def convert_gather(self, op: Any) -> Any:
        """With batches, which TVM's converter ignores, and any indices."""
        options = options_of(op, tflite.GatherOptions)
        given = self.get_input_tensors(op)
        data, indices = map(self.get_tensor_expr, given)
        axis = options.Axis() % data.ty.ndim
        if not self.has_expr(given[1].tensor_idx):
            places = self.get_tensor_value(given[1])
            if ((places < 0) | (places >= int(data.ty.shape[axis]))).any():
                raise ValueError("its indices are outside of the tensor")
        batches = options.BatchDims() + (indices.ty.ndim if options.BatchDims() < 0 else 0)
        if batches == 0:
            return relax.op.take(data, indices, axis)
        count = indices.ty.ndim - batches

        def compute(values: te.Tensor, places: te.Tensor) -> te.Tensor:
            shape = [*values.shape[:axis], *places.shape[batches:], *values.shape[axis + 1 :]]

            def element(*index: Any) -> Any:
                place = places(*index[:batches], *index[axis : axis + count])
                return values(*index[:axis], place, *index[axis + count :])

            return te.compute(shape, element, name="gather")

        return self.bb.emit_te(compute, data, indices, primfunc_name_hint="gather")

    def convert_gather_nd(self, op: Any) -> Any:
        """TVM's converter transposes the positions, which Relax expects as they are."""
        data, positions = (self.get_tensor_expr(each) for each in self.get_input_tensors(op))
        return relax.op.gather_nd(data, self._emit(relax.op.astype(positions, "int64")))

    def convert_embedding_lookup(self, op: Any) -> Any:
        """The positions come first, which TVM's converter takes for the table."""
        positions, table = (self.get_tensor_expr(each) for each in self.get_input_tensors(op))
        return relax.op.take(table, positions, 0)

    def convert_scatter_nd(self, op: Any) -> Any:
        """As ``convert_gather_nd``; values of one position are added."""
        given = self.get_input_tensors(op)
        positions, values = (self.get_tensor_expr(each) for each in given[:2])
        shape = tuple(int(extent) for extent in self.get_tensor_value(given[2]))
        nothing = self._emit(relax.op.zeros(shape, str(values.ty.dtype)))
        return relax.op.scatter_nd(nothing, self._emit(relax.op.astype(positions, "int64")), values, "add")

    def convert_dynamic_update_slice(self, op: Any) -> Any:
        """A slice that sticks out is moved inside."""
        data, part, starts = (self.get_tensor_expr(each) for each in self.get_input_tensors(op))

        def compute(values: te.Tensor, new: te.Tensor, at: te.Tensor) -> te.Tensor:
            free = [int(whole) - int(taken) for whole, taken in zip(values.shape, new.shape, strict=True)]
            return updated(values, new, [clamped(at(axis), most) for axis, most in enumerate(free)])

        return self.bb.emit_te(compute, data, part, starts, primfunc_name_hint="dynamic_update_slice")

    def convert_fill(self, op: Any) -> Any:
        """With a constant, too."""
        number = self.get_input_tensors(op)[1]
        self.exp_tab.set_expr(str(number.tensor.Name().decode()), self.get_tensor_expr(number))
        return super().convert_fill(op)

    def convert_expand_dims(self, op: Any) -> Any:
        """TVM's converter calls the operator with a number of axes, which it does not take."""
        given = self.get_input_tensors(op)
        return relax.op.expand_dims(self.get_tensor_expr(given[0]), self._integers(given[1])[0])

    def convert_squeeze(self, op: Any) -> Any:
        """Without dimensions, of all that have one element; TVM's converter returns its operand."""
        options, data = options_of(op, tflite.SqueezeOptions), self.get_tensor_expr(self.get_input_tensors(op)[0])
        axes = [int(each) for each in options.SqueezeDimsAsNumpy()] if options.SqueezeDimsLength() else None
        return relax.op.squeeze(data, axes)

    def convert_reverse_v2(self, op: Any) -> Any:
        """Along several axes."""
        data, axes = self.get_input_tensors(op)
        value = self.get_tensor_expr(data)
        for axis in self._integers(axes):
            value = self._emit(relax.op.flip(value, axis))
        return value

    def convert_split_v(self, op: Any) -> Any:
        """A size of -1 is the rest."""
        data, sizes, axis = self.get_input_tensors(op)
        value, along = self.get_tensor_expr(data), self._integers(axis)[0]
        counts = self._integers(sizes)
        extent = int(value.ty.shape[along])
        counts = [extent - sum(counts) - 1 if each < 0 else each for each in counts]
        ends = [sum(counts[: place + 1]) for place in range(len(counts))]
        if len(counts) == 1:
            return value
        return relax.op.split(value, ends[:-1], along)

    def convert_mirror_pad(self, op: Any) -> Any:
        """With the outermost elements repeated or not; TVM's converter repeats none."""
        data, padding = self.get_input_tensors(op)
        options, value = options_of(op, tflite.MirrorPadOptions), self.get_tensor_expr(data)
        mode: Literal["symmetric", "reflect"] = (
            "symmetric" if options.Mode() == tflite.MirrorPadMode.SYMMETRIC else "reflect"
        )
        for axis, (before, after) in enumerate(self.get_tensor_value(padding).reshape(-1, 2).tolist()):
            if before or after:
                places = np.pad(np.arange(int(value.ty.shape[axis])), (before, after), mode)
                value = self._taken(value, places, axis)
        return value

    def convert_resize_nearest_neighbor(self, op: Any) -> Any:
        """With aligned corners, places between two elements belong to the second one; TVM's converter takes another."""
        options, (data, size) = options_of(op, tflite.ResizeNearestNeighborOptions), self.get_input_tensors(op)
        if not options.AlignCorners() or options.HalfPixelCenters():
            return super().convert_resize_nearest_neighbor(op)
        value = self.get_tensor_expr(data)
        for axis, wanted in zip((1, 2), self._integers(size), strict=True):
            extent = int(value.ty.shape[axis])
            step = np.float32(extent - 1) / np.float32(max(wanted - 1, 1))
            places = np.floor(np.arange(wanted, dtype=np.float32) * step + np.float32(0.5)).astype(np.int64)
            value = self._taken(value, np.minimum(places, extent - 1), axis)
        return value

    def convert_select(self, op: Any) -> Any:
        """A condition of one axis chooses whole rows, where no operand is broadcast."""
        given = self.get_input_tensors(op)
        if len(given) == 1:
            raise ValueError("the shape of its result depends on its contents")
        condition, chosen, other = (self.get_tensor_expr(each) for each in given)
        is_of_rows = self.get_op_code_str(op) == "SELECT" and condition.ty.ndim == 1 < chosen.ty.ndim
        if is_of_rows:
            condition = self._emit(relax.op.reshape(condition, [-1, *(1,) * (chosen.ty.ndim - 1)]))
        return relax.op.where(condition, chosen, other)

    def convert_matrix_diag(self, op: Any) -> Any:
        """Matrices of zeros with these diagonals; what TVM's converter emits cannot be built."""
        diagonal = self.get_tensor_expr(self.get_input_tensors(op)[0])
        zero = relax.const(0, str(diagonal.ty.dtype))
        extent = int(diagonal.ty.shape[-1])
        return self._with_diagonal(zero, diagonal, extent, extent)

    def convert_matrix_set_diag(self, op: Any) -> Any:
        """As ``convert_matrix_diag``, in other matrices."""
        data, diagonal = (self.get_tensor_expr(each) for each in self.get_input_tensors(op))
        rows, columns = (int(extent) for extent in list(data.ty.shape)[-2:])
        if columns > rows:
            rest = [*(0,) * (2 * diagonal.ty.ndim - 1), columns - rows]
            diagonal = self._emit(relax.op.nn.pad(diagonal, rest))
        return self._with_diagonal(data, diagonal, rows, columns)

    def convert_space_to_batch_nd(self, op: Any) -> Any:
        """TVM's converter calls a function of its compiler."""
        given = self.get_input_tensors(op)
        blocks, pads = (self.get_tensor_value(each) for each in given[1:3])
        count = len(blocks)
        data = self.get_tensor_expr(given[0])
        around = [(0, 0), *((int(low), int(high)) for low, high in pads)]
        around += [(0, 0)] * (len(data.ty.shape) - len(around))
        nothing = int(given[0].qnn_params["zero_point"].value.numpy().reshape(-1)[0]) if given[0].qnn_params else 0
        data = self._emit(relax.op.nn.pad(data, [each for pair in around for each in pair], pad_value=nothing))
        batch, *extents = (int(extent) for extent in data.ty.shape)
        rest = extents[count:]
        split = [each for extent, block in zip(extents, blocks, strict=False) for each in (extent // block, block)]
        parts = self._emit(relax.op.reshape(data, [batch, *map(int, split), *rest]))
        within, outside = [2 * axis + 2 for axis in range(count)], [2 * axis + 1 for axis in range(count)]
        last = range(2 * count + 1, 2 * count + 1 + len(rest))
        moved = self._emit(relax.op.permute_dims(parts, [*within, 0, *outside, *last]))
        return relax.op.reshape(moved, [batch * math.prod(map(int, blocks)), *map(int, split[::2]), *rest])

    def convert_batch_to_space_nd(self, op: Any) -> Any:
        """TVM's converter calls a function of its compiler."""
        given = self.get_input_tensors(op)
        blocks, crops = (self._integers(each) for each in given[1:3])
        count, data = len(blocks), self.get_tensor_expr(given[0])
        batch, *extents = (int(extent) for extent in data.ty.shape)
        kept, rest = batch // math.prod(blocks), extents[count:]
        parts = self._emit(relax.op.reshape(data, [*blocks, kept, *extents]))
        pairs = [each for axis in range(count) for each in (count + 1 + axis, axis)]
        last = range(2 * count + 1, 2 * count + 1 + len(rest))
        moved = self._emit(relax.op.permute_dims(parts, [count, *pairs, *last]))
        whole = [extent * block for extent, block in zip(extents, blocks, strict=False)]
        joined = self._emit(relax.op.reshape(moved, [kept, *whole, *rest]))
        axes = list(range(1, count + 1))
        ends = [extent - high for extent, high in zip(whole, crops[1::2], strict=True)]
        return relax.op.strided_slice(joined, axes, crops[::2], ends)

    def convert_sparse_to_dense(self, op: Any) -> Any:
        """TVM's converter calls a function of its compiler."""
        del op
        raise ValueError("it has no conversion: use SCATTER_ND")

    def convert_unique(self, op: Any) -> Any:
        """TVM's converter emits what cannot be built."""
        del op
        raise ValueError("the shape of its result depends on its contents")

    def _with_diagonal(self, data: Any, diagonal: Any, rows: int, columns: int) -> Any:
        is_diagonal = relax.const(np.eye(rows, columns, dtype=bool))
        return relax.op.where(is_diagonal, self._emit(relax.op.expand_dims(diagonal, -2)), data)

    def _taken(self, value: Any, places: Any, axis: int) -> Any:
        return self._emit(relax.op.take(value, relax.const(places.astype(np.int64)), axis))

    def _integers(self, tensor: Any) -> list[int]:
        """The contents of a constant."""
        return [int(each) for each in np.ravel(self.get_tensor_value(tensor))]

    def _emit(self, value: Any) -> Any:
        return self.bb.emit(self.bb.normalize(value))


def options_of(operator: Any, kind: Any) -> Any:
    """The options of an operator; None if the file has none."""
    table = operator.BuiltinOptions()
    if table is None:
        return None
    options = kind()
    options.Init(table.Bytes, table.Pos)
    return options
