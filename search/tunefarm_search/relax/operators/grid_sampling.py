"""Bilinear sampling of images at the points of a grid, with the channels last.

TVM computes the places and the weights of a point's neighbours again for each channel, and fills no vectors. Here they
are computed once for each point, and a vector holds channels of one pixel.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tvm import relax, te, tirx

from tunefarm_search.relax.expressions import extents_of, operator_of

_SAMPLING: Final = "relax.image.grid_sample"
_NEIGHBOURS: Final = 4
_MIN_CHANNELS: Final = 4


def can_sample_with_channels_last(call: Any) -> bool:
    """Whether ``call`` samples images in a way that ``sampled_with_channels_last`` knows, with channels for vectors."""
    if operator_of(call) != _SAMPLING or any(extents_of(each) is None for each in (call, *call.args)):
        return False
    is_known = str(call.attrs.layout) == "NCHW" and str(call.attrs.method) == "bilinear"
    is_float = {str(each.ty.dtype) for each in (call, *call.args)} == {"float32"}
    return is_known and is_float and int(call.args[0].ty.shape[1]) >= _MIN_CHANNELS


def sampled_with_channels_last(call: Any, images: Any, builder: Any) -> Any:
    """The result of ``image.grid_sample`` with the channels last, of ``images`` of shape [N, H, W, C]."""
    number, height, width, channels = extents_of(images) or ()
    points, grid = _Points(height, width, call.attrs), call.args[1]
    places = builder.emit_te(points.places, grid, primfunc_name_hint="places")
    weights = builder.emit_te(points.weights, grid, primfunc_name_hint="weights")
    pixels = builder.emit(relax.op.reshape(images, (number, height * width, channels)))
    return builder.call_te(_weighted_sums, pixels, places, weights, primfunc_name_hint="grid_sample")


def _weighted_sums(pixels: te.Tensor, places: te.Tensor, weights: te.Tensor) -> te.Tensor:
    """Of shape [N, height, width, C]."""
    _, *points = places.shape
    last = pixels.shape[1] - 1

    def value(n: Any, y: Any, x: Any, channel: Any) -> Any:
        found: Any = 0.0
        for each in range(_NEIGHBOURS):
            # Places are inside already, but a task of this function alone is called with any integers.
            place = tirx.max(0, tirx.min(last, places[each, n, y, x]))
            found = found + weights[each, n, y, x] * pixels[n, place, channel]
        return found

    return te.compute((*points, pixels.shape[-1]), value, name="sampled")


@dataclass(frozen=True)
class _Points:
    """The points of a grid in images of ``height`` times ``width`` pixels; coordinates -1 and 1 are their ends."""

    height: int
    width: int
    attributes: Any

    def places(self, grid: te.Tensor) -> te.Tensor:
        """The numbers of the pixels beside each point, as int32 of shape [4, N, height, width]."""

        def place(down: Any, right: Any, _y: Any, _x: Any) -> Any:
            row, column = _within(down, 0.0, self.height - 1.0), _within(right, 0.0, self.width - 1.0)
            return row.astype("int32") * self.width + column.astype("int32")

        return self._of_neighbours(grid, place, "places")

    def weights(self, grid: te.Tensor) -> te.Tensor:
        """Their weights, of the same shape: 0 for pixels outside of the image."""

        def weight(down: Any, right: Any, y: Any, x: Any) -> Any:
            is_inside = tirx.all(down >= 0.0, down <= self.height - 1.0, right >= 0.0, right <= self.width - 1.0)
            nearness = (1.0 - tirx.abs(y - down)) * (1.0 - tirx.abs(x - right))
            return tirx.Select(is_inside, nearness, 0.0)

        return self._of_neighbours(grid, weight, "weights")

    def _of_neighbours(self, grid: te.Tensor, function: Callable[[Any, Any, Any, Any], Any], name: str) -> te.Tensor:
        """``function`` of each neighbour of each point: its row and column, and the row and column of the point."""

        def of_neighbour(neighbour: Any, n: Any, row: Any, column: Any) -> Any:
            y = self._along(grid[n, 1, row, column], self.height)
            x = self._along(grid[n, 0, row, column], self.width)
            down = tirx.floor(y) + (neighbour // 2).astype("float32")
            return function(down, tirx.floor(x) + (neighbour % 2).astype("float32"), y, x)

        number, _, *points = grid.shape
        return te.compute((_NEIGHBOURS, number, *points), of_neighbour, name=name)

    def _along(self, coordinate: Any, size: int) -> Any:
        """A coordinate in pixels."""
        at_centres, padding = bool(self.attributes.align_corners), str(self.attributes.padding_mode)
        if at_centres:
            place = (coordinate + 1.0) * ((size - 1) / 2.0)
        else:
            place = ((coordinate + 1.0) * float(size) - 1.0) * 0.5
        if padding == "reflection":
            place = _reflected(place, *((0.0, size - 1.0) if at_centres else (-0.5, size - 0.5)))
        return place if padding == "zeros" else _within(place, 0.0, size - 1.0)


def _reflected(place: Any, lowest: float, highest: float) -> Any:
    """A place between mirrors at these two."""
    if highest <= lowest:
        return tirx.const(0.0, "float32")
    distance = tirx.abs(place - lowest)
    turns = tirx.floor(distance * (1.0 / (highest - lowest)))
    rest = distance - turns * (highest - lowest)
    is_even = turns - 2.0 * tirx.floor(turns * 0.5) < 0.5
    return tirx.Select(is_even, rest + lowest, highest - rest)


def _within(value: Any, lowest: float, highest: float) -> Any:
    """The nearest value between these two; the lowest one of NaN."""
    return tirx.min(tirx.max(value, lowest), highest)
