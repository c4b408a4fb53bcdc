"""Attributes and element types that TVM's importer ignores have the effect that they have in torch."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.client.pytorch.running import Of, imported, require_as_torch
from tunefarm_schemas.bad_input import BadInput

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")]
PARTS = 2
GROUPS = 2


def test_factors_of_sums_and_differences_count() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.add(x, y, alpha=2),
            torch.add(x, x, alpha=3),
            x.sub(y, alpha=0.5),
            torch.rsub(x, y, alpha=3),
            torch.rsub(n, 2.5),
            n.add(4, alpha=2),
        )

    require_as_torch(Of(function), (torch.randn(2, 3), torch.randn(2, 3), torch.arange(3)))


def test_truth_values_are_added_and_compared() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        left, right = x > 0, y > 0
        return (
            left + right,
            left * right,
            torch.maximum(left, right),
            torch.minimum(left, right),
            left.max(),
            left.sum(1),
            left.cumsum(-1),
            left.any(),
            torch.any(x, 1),
            (left & right).any(1, keepdim=True),
            left.all(0),
        )

    require_as_torch(Of(function), (torch.randn(3, 7), torch.tensor([[-1.0] + 6 * [0.0], 7 * [0.0], 7 * [2.0]])))


def test_integers_are_bounded_multiplied_and_raised_in_their_type() -> None:
    def function(n: torch.Tensor, most: torch.Tensor, bytes_: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.clamp(n, max=most),
            torch.clamp(n, min=most),
            torch.clamp(n.float(), -most, most),
            bytes_.prod(-1),
            bytes_.cumprod(-1),
            bytes_.cumsum(-1),
            2**n,
            n**most,
            n ** (1 - most),
            (1 - n) ** (1 - most),
            n.max(),
        )

    require_as_torch(Of(function), (torch.arange(6), torch.full((6,), 3), torch.full((2, 4), 7, dtype=torch.int8)))


def test_images_are_resized_by_the_given_scale() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            functional.interpolate(x, scale_factor=1.5, mode="bilinear"),
            functional.interpolate(x, scale_factor=0.5, mode="bilinear"),
            functional.interpolate(x, scale_factor=(2.0, 1.3), mode="bilinear"),
            functional.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=True),
            functional.interpolate(x, scale_factor=1.5, mode="bilinear", recompute_scale_factor=True),
        )

    require_as_torch(Of(function), (torch.randn(2, 3, 5, 7),))


def test_values_are_scattered_by_fewer_positions_than_there_are_elements() -> None:
    def function(x: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, ...]:
        last, first = torch.tensor([[[0, 1], [3, 3], [2, 0]]]).repeat(2, 1, 1), torch.zeros(1, 3, 2, dtype=torch.int64)
        return (
            x.scatter_add(2, last, s),
            x.scatter(2, last[:, :, :1], s),
            x.scatter(0, first, 1.5),
            x.scatter(1, first, s, reduce="add"),
            x.scatter_reduce(2, last, s, "amax"),
        )

    require_as_torch(Of(function), (torch.randn(2, 4, 5), torch.randn(2, 3, 2)))


def test_volumes_are_pooled_and_convolved() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            functional.max_pool3d(x, 2),
            *functional.max_pool3d(x, 3, 2, 1, return_indices=True),
            *functional.max_pool3d(x[0], 2, (1, 2, 1), return_indices=True),
            functional.avg_pool3d(x, 2, divisor_override=3),
            functional.avg_pool3d(x, 3, 2, 1),
            functional.avg_pool2d(x[0], 2, divisor_override=3),
            *functional.max_pool2d(x[0], 3, 2, 1, return_indices=True),
        )

    require_as_torch(Of(function), (torch.randn(1, 2, 5, 6, 4),))


def test_means_of_integers_are_truncated() -> None:
    def function(n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            functional.avg_pool3d(n, 2, divisor_override=3),
            functional.avg_pool2d(n[0], 3, 1, 1, divisor_override=-2),
            functional.avg_pool2d(n[0], 2),
        )

    require_as_torch(Of(function), (torch.randint(-9, 10, (1, 2, 5, 6, 4)),))


@pytest.mark.parametrize(
    "layer",
    [
        nn.ConvTranspose3d(4, 3, 2, stride=2),
        nn.ConvTranspose3d(4, 6, 3, stride=(1, 2, 2), padding=1, output_padding=(0, 1, 0), groups=2, bias=False),
    ],
)
def test_transposed_convolutions_of_volumes_are_converted(layer: nn.Module) -> None:
    require_as_torch(layer.eval(), (torch.randn(2, 4, 3, 4, 5),))


def test_elements_are_ordered_and_searched() -> None:
    def function(x: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, places = torch.topk(x, 3, sorted=False)
        return (
            values.sum(-1),
            places.float().mean(-1),
            *torch.sort(x, stable=True),
            torch.argsort(x, dim=0, stable=True),
            *x.kthvalue(2, 0),
            *x.kthvalue(3, keepdim=True),
            torch.searchsorted(row, x),
            torch.searchsorted(row, x, right=True),
            torch.searchsorted((row * 2).long(), 0.5),
            torch.searchsorted(x.cumsum(-1).abs().sort(-1)[0], x[:, :3].contiguous(), right=True),
            x.logcumsumexp(1),
            (100 * x).logcumsumexp(0),
        )

    require_as_torch(Of(function), (torch.randn(4, 8), torch.tensor([-1.0, 0.0, 0.0, 1.5])))


def test_signs_are_copied_from_zeros_too() -> None:
    def function(x: torch.Tensor, sign: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.copysign(x, sign), torch.copysign(x, -2.0), torch.copysign(x, 0.0), torch.copysign(x, -0.0)

    require_as_torch(Of(function), (torch.randn(4), torch.tensor([-0.0, 0.0, -3.0, 3.0])))


@pytest.mark.skipif(hasattr(torch.ops.torchvision, "roi_align"), reason="torchvision has the operator")
def test_regions_are_aligned_to_half_a_pixel_of_the_feature_map() -> None:
    """On an image of its own coordinates, a region has the coordinates of the centres of its parts."""

    @torch.library.custom_op("torchvision::roi_align", mutates_args=())
    def roi_align(
        image: torch.Tensor,
        rois: torch.Tensor,
        scale: float,
        height: int,
        width: int,
        sampling_ratio: int,
        aligned: bool,
    ) -> torch.Tensor:
        del sampling_ratio, aligned
        left, right = (rois[:, each] * scale - 0.5 for each in (1, 3))
        columns = left[:, None] + (right - left)[:, None] * (torch.arange(width) + 0.5) / width
        return columns[:, None, None, :].expand(-1, image.shape[1], height, -1).contiguous()

    @roi_align.register_fake
    def _(image: torch.Tensor, rois: torch.Tensor, _scale: float, height: int, width: int, *_: object) -> torch.Tensor:
        return image.new_empty(rois.shape[0], image.shape[1], height, width)

    def function(image: torch.Tensor, rois: torch.Tensor) -> torch.Tensor:
        return torch.ops.torchvision.roi_align(image, rois, 0.25, 3, 4, 2, True)

    image = torch.arange(16.0).expand(1, 2, 16, 16).contiguous()
    require_as_torch(Of(function), (image, torch.tensor([[0, 8.0, 8.0, 40.0, 44.0]])))


def convolved_between_pixels(
    x: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """By strides of 2 and 1, with a pixel of padding, and windows of every second column."""
    (count, channels, height, width), (filters, _, _, columns) = x.shape, weight.shape
    places = weight[0, 0].numel()
    rows_of_result, columns_of_result = (torch.arange(extent) for extent in offset.shape[2:])
    samples = x.new_empty(count, channels, places, *offset.shape[2:])
    for channel in range(channels):
        for place in range(places):
            moved = channel // (channels // PARTS) * places + place
            y = 2 * rows_of_result[:, None] - 1 + place // columns + offset[:, 2 * moved]
            z = columns_of_result - 1 + 2 * (place % columns) + offset[:, 2 * moved + 1]
            grid = torch.stack([(z + 0.5) * 2 / width - 1, (y + 0.5) * 2 / height - 1], -1)
            read = functional.grid_sample(x[:, channel : channel + 1], grid, align_corners=False)
            samples[:, channel, place] = read[:, 0] * mask[:, moved]
    of_groups = samples.reshape(count, GROUPS, -1, offset[0, 0].numel())
    product = weight.reshape(1, GROUPS, filters // GROUPS, -1) @ of_groups
    return product.reshape(count, filters, *offset.shape[2:])


@pytest.mark.skipif(hasattr(torch.ops.torchvision, "deform_conv2d"), reason="torchvision has the operator")
def test_windows_are_moved_and_masked() -> None:
    @torch.library.custom_op("torchvision::deform_conv2d", mutates_args=())
    def deform_conv2d(
        x: torch.Tensor,
        weight: torch.Tensor,
        offset: torch.Tensor,
        mask: torch.Tensor,
        bias: torch.Tensor,
        stride_h: int,
        stride_w: int,
        pad_h: int,
        pad_w: int,
        dilation_h: int,
        dilation_w: int,
        groups: int,
        parts: int,
        is_masked: bool,
    ) -> torch.Tensor:
        assert (stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w) == (2, 1, 1, 1, 1, 2)
        assert (groups, parts) == (GROUPS, PARTS)
        return convolved_between_pixels(x, weight, offset, mask if is_masked else torch.ones_like(mask)) + bias.reshape(
            1, -1, 1, 1
        )

    @deform_conv2d.register_fake
    def _(x: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, *_: object) -> torch.Tensor:
        return x.new_empty(x.shape[0], weight.shape[0], *offset.shape[2:])

    def function(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        numbers = (2, 1, 1, 1, 1, 2, GROUPS, PARTS)
        return tuple(torch.ops.torchvision.deform_conv2d(*tensors, *numbers, masked) for masked in (False, True))

    shapes = ((2, 4, 9, 8), (6, 2, 3, 3), (2, 36, 5, 6), (2, 18, 5, 6), (6,))
    require_as_torch(Of(function), tuple(torch.randn(shape) for shape in shapes))


def test_norms_of_any_order_and_type_are_converted() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.linalg.vector_norm(x, 0, 1),
            torch.linalg.vector_norm(x, 3, -1, keepdim=True),
            torch.linalg.vector_norm(x, float("inf")),
            (300 * x.half()).norm(dim=1),
        )

    require_as_torch(Of(function), (torch.randn(3, 50).relu(),), 1e-3)


def test_operands_of_two_floating_types_are_computed_in_the_wider_one() -> None:
    def function(x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.where(x > 0, h, x), h + x, torch.hypot(h, x), torch.fmod(x, h + 3)

    require_as_torch(Of(function), (torch.randn(8), torch.randn(8).half()))


def test_numbers_are_compared_with_floats_in_their_own_type() -> None:
    def function(h: torch.Tensor, d: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return h < 0.1, h == 0.1, d > 0.1, d == 0.1

    halves, doubles = torch.tensor([0.1, 0.2]).half(), torch.tensor([0.1, 0.1 + 1e-12], dtype=torch.float64)
    require_as_torch(Of(function), (halves, doubles))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_multiplied_and_divided_by_numbers_that_they_do_not_hold(dtype: torch.dtype) -> None:
    lowest = torch.finfo(torch.float32).min

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        products = x * lowest, x * 1e5, 3e-9 * x, x * float("inf"), x / 1e6, x / 1e-9, 1e9 / (x + 3)
        return tuple(torch.nan_to_num(each.float(), nan=7.0) for each in products)

    require_as_torch(Of(function), (torch.tensor([0.0, 1, -2]).to(dtype),), tolerance=8e-3)


def test_axes_of_one_element_are_removed_and_one_part_is_a_part() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.squeeze(), x.squeeze(1), x.squeeze(2), *x.split(4, 3), *x.chunk(1)

    require_as_torch(Of(function), (torch.randn(2, 3, 1, 4),))


def test_numbers_among_the_results_are_refused_by_name() -> None:
    with pytest.raises(BadInput, match="returns 4, which is not a tensor"):
        imported(Of(lambda x: (x * 2, x.shape[0])), (torch.randn(4),))
