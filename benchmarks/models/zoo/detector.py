"""A detector in the manner of YOLOv5: CSP backbone, SPPF, a neck in both directions, three heads with decoded boxes."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.models.zoo.mobile_networks import conv_block

ANCHORS = (
    ((10, 13), (16, 30), (33, 23)),
    ((30, 61), (62, 45), (59, 119)),
    ((116, 90), (156, 198), (373, 326)),
)
STRIDES = (8, 16, 32)


def conv(channels_in: int, channels_out: int, kernel: int = 1, stride: int = 1) -> nn.Sequential:
    """A convolution with batch norm and SiLU."""
    return conv_block(channels_in, channels_out, kernel, stride, nn.SiLU)


class Residual(nn.Module):
    """A 1x1 and a 3x3 convolution, with an optional shortcut."""

    def __init__(self, channels: int, *, shortcut: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(conv(channels, channels), conv(channels, channels, 3))
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        """The block."""
        return x + self.layers(x) if self.shortcut else self.layers(x)


class CrossStage(nn.Module):
    """Half of the channels pass residual blocks, the other half passes by."""

    def __init__(self, channels_in: int, channels_out: int, blocks: int, *, shortcut: bool = True) -> None:
        super().__init__()
        half = channels_out // 2
        self.inner, self.beside = conv(channels_in, half), conv(channels_in, half)
        self.blocks = nn.Sequential(*(Residual(half, shortcut=shortcut) for _ in range(blocks)))
        self.join = conv(2 * half, channels_out)

    def forward(self, x: Tensor) -> Tensor:
        """The stage."""
        return self.join(torch.cat([self.blocks(self.inner(x)), self.beside(x)], 1))


class PooledPyramid(nn.Module):
    """SPPF: three 5x5 poolings in a row, joined."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce, self.join = conv(channels, channels // 2), conv(channels * 2, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """The pyramid."""
        x = self.reduce(x)
        once = self.pool(x)
        twice = self.pool(once)
        return self.join(torch.cat([x, once, twice, self.pool(twice)], 1))


class Head(nn.Module):
    """Boxes and scores of one level: three anchors at each point of the grid."""

    def __init__(self, channels: int, classes: int, size: int, level: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 3 * (5 + classes), 1)
        self.fields, self.stride = 5 + classes, STRIDES[level]
        side = size // self.stride
        row, column = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
        self.register_buffer("grid", torch.stack([column, row], -1).reshape(1, 1, side, side, 2).float() - 0.5)
        self.register_buffer("anchors", torch.tensor(ANCHORS[level]).reshape(1, 3, 1, 1, 2).float())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Boxes [batch, points, 4] as center and size in pixels, and scores [batch, points, 1 + classes]."""
        batch, _, height, width = x.shape
        fields = self.conv(x).reshape(batch, 3, self.fields, height, width).permute(0, 1, 3, 4, 2).sigmoid()
        center = (fields[..., 0:2] * 2 + self.grid) * self.stride
        extent = (fields[..., 2:4] * 2) ** 2 * self.anchors
        boxes = torch.cat([center, extent], -1)
        return boxes.reshape(batch, -1, 4), fields[..., 4:].reshape(batch, -1, self.fields - 4)


class Detector(nn.Module):
    """Boxes and scores of all levels.

    Args:
        width: channels of the first convolution; YOLOv5n has 16.
        classes: of the objects.
        size: pixels of each side of the image; a multiple of 32.
    """

    def __init__(self, width: int, classes: int, size: int) -> None:
        super().__init__()
        w2, w4, w8, w16 = width * 2, width * 4, width * 8, width * 16
        self.to_8 = nn.Sequential(
            conv(3, width, 5, 2), conv(width, w2, 3, 2), CrossStage(w2, w2, 1), conv(w2, w4, 3, 2),
            CrossStage(w4, w4, 2),
        )  # fmt: skip
        self.to_16 = nn.Sequential(conv(w4, w8, 3, 2), CrossStage(w8, w8, 3))
        self.to_32 = nn.Sequential(conv(w8, w16, 3, 2), CrossStage(w16, w16, 1), PooledPyramid(w16))
        self.lateral_32, self.lateral_16 = conv(w16, w8), conv(w8, w4)
        self.up_16 = CrossStage(w16, w8, 1, shortcut=False)
        self.up_8 = CrossStage(w8, w4, 1, shortcut=False)
        self.down_8, self.down_16 = conv(w4, w4, 3, 2), conv(w8, w8, 3, 2)
        self.out_16 = CrossStage(w8, w8, 1, shortcut=False)
        self.out_32 = CrossStage(w16, w16, 1, shortcut=False)
        self.heads = nn.ModuleList(Head(channels, classes, size, level) for level, channels in enumerate((w4, w8, w16)))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Boxes [batch, points, 4] and scores [batch, points, 1 + classes] of images [batch, 3, size, size]."""
        level_8 = self.to_8(image)
        level_16 = self.to_16(level_8)
        lateral_32 = self.lateral_32(self.to_32(level_16))
        lateral_16 = self.lateral_16(self.up_16(torch.cat([_doubled(lateral_32), level_16], 1)))
        out_8 = self.up_8(torch.cat([_doubled(lateral_16), level_8], 1))
        out_16 = self.out_16(torch.cat([self.down_8(out_8), lateral_16], 1))
        out_32 = self.out_32(torch.cat([self.down_16(out_16), lateral_32], 1))
        found = [head(level) for head, level in zip(self.heads, (out_8, out_16, out_32), strict=True)]
        return torch.cat([boxes for boxes, _ in found], 1), torch.cat([scores for _, scores in found], 1)


def _doubled(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")
