"""``deform_conv2d`` of torchvision gives in TVM what sampling and a product give in torch."""

import pytest
import torch
from torch.nn import functional

from tests.client.pytorch.running import Of, require_as_torch

pytestmark = pytest.mark.models
PARTS = 2
GROUPS = 2


def convolved(x: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
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
        return convolved(x, weight, offset, mask if is_masked else torch.ones_like(mask)) + bias.reshape(1, -1, 1, 1)

    @deform_conv2d.register_fake
    def _(x: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, *_: object) -> torch.Tensor:
        return x.new_empty(x.shape[0], weight.shape[0], *offset.shape[2:])

    def function(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        numbers = (2, 1, 1, 1, 1, 2, GROUPS, PARTS)
        return tuple(torch.ops.torchvision.deform_conv2d(*tensors, *numbers, masked) for masked in (False, True))

    shapes = ((2, 4, 9, 8), (6, 2, 3, 3), (2, 36, 5, 6), (2, 18, 5, 6), (6,))
    require_as_torch(Of(function), tuple(torch.randn(shape) for shape in shapes))
