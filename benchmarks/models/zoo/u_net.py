"""U-Net (Ronneberger et al. 2015) with batch norms and padded convolutions."""

import torch
from torch import Tensor, nn


def double_conv(channels_in: int, channels_out: int) -> nn.Sequential:
    """Two 3x3 convolutions with batch norms and ReLU."""
    layers: list[nn.Module] = []
    for channels in (channels_in, channels_out):
        layers += [nn.Conv2d(channels, channels_out, 3, padding=1, bias=False), nn.BatchNorm2d(channels_out), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Four levels down by pooling and up by transposed convolutions, with a shortcut at each level.

    Args:
        width: channels of the first level.
        classes: of each pixel.
    """

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        widths = [width << level for level in range(5)]
        self.down = nn.ModuleList(
            double_conv(before, after) for before, after in zip([3, *widths[:3]], widths[:4], strict=True)
        )
        self.pool = nn.MaxPool2d(2)
        self.bottom = double_conv(widths[3], widths[4])
        pairs = [(widths[level + 1], widths[level]) for level in (3, 2, 1, 0)]
        self.widen = nn.ModuleList(nn.ConvTranspose2d(below, here, 2, 2) for below, here in pairs)
        self.up = nn.ModuleList(double_conv(below, here) for below, here in pairs)
        self.classifier = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Scores [batch, classes, height, width] of each pixel of images [batch, 3, height, width]."""
        levels: list[Tensor] = []
        for level in self.down:
            levels.append(level(x))
            x = self.pool(levels[-1])
        x = self.bottom(x)
        for widen, up in zip(self.widen, self.up, strict=True):
            x = up(torch.cat([levels.pop(), widen(x)], 1))
        return self.classifier(x)
