"""Blocks of common networks in torch, whose functions the benchmark of schedules without a trial compiles."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def model_blocks() -> Iterator[tuple[str, nn.Module, tuple[Any, ...]]]:
    """A name, a module with random weights and its inputs, for each block."""
    torch.manual_seed(0)
    yield "resnet_stem", _ResnetStem(), (torch.randn(1, 3, 224, 224),)
    for channels, size in ((64, 56), (128, 28), (256, 14), (512, 7)):
        yield f"basic_{channels}", _Basic(channels, channels, 1), (torch.randn(1, channels, size, size),)
    yield "basic_down", _Basic(64, 128, 2), (torch.randn(1, 64, 56, 56),)
    yield "bottleneck_256", _Bottleneck(256, 64, 1), (torch.randn(1, 256, 56, 56),)
    yield "bottleneck_1024", _Bottleneck(1024, 256, 1), (torch.randn(1, 1024, 14, 14),)
    for channels, size, stride, kernel in ((32, 112, 1, 3), (96, 56, 2, 3), (192, 28, 1, 3), (576, 14, 1, 5)):
        inverted = _InvertedResidual(channels, stride, kernel)
        yield f"inverted_{channels}", inverted, (torch.randn(1, channels, size, size),)
    yield "grouped", nn.Conv2d(128, 128, 3, padding=1, groups=8, bias=False), (torch.randn(1, 128, 28, 28),)
    yield "dilated", nn.Conv2d(64, 64, 3, padding=2, dilation=2), (torch.randn(1, 64, 28, 28),)
    yield "head", _Head(512), (torch.randn(1, 512, 7, 7),)
    yield "encoder_256", _Encoder(256, 4), (torch.randn(1, 128, 256),)
    yield "encoder_192", _Encoder(192, 3), (torch.randn(1, 197, 192),)
    yield "patches", nn.Conv2d(3, 192, 16, stride=16), (torch.randn(1, 3, 224, 224),)
    yield "decoder_step", _DecoderStep(512, 8), (torch.randn(1, 1, 512), *(torch.randn(1, 8, 127, 64) for _ in "kv"))
    yield "embedding", _Embedding(), (torch.randint(0, 1000, (1, 128)),)
    yield "lstm_cell", _LstmCell(), (torch.randn(1, 128), torch.randn(1, 256), torch.randn(1, 256))
    yield "up", _Up(), (torch.randn(1, 128, 28, 28), torch.randn(1, 64, 56, 56))
    yield "resize", _Resize(), (torch.randn(1, 32, 40, 40),)
    yield "pools", _Pools(), (torch.randn(1, 64, 56, 56),)
    yield "detector", _Detector(), (torch.randn(1, 64, 20, 20),)
    yield "norms", _Norms(), (torch.randn(1, 64, 28, 28),)
    yield "audio", nn.Sequential(nn.Conv1d(80, 384, 3, padding=1), nn.GELU()), (torch.randn(1, 80, 300),)
    yield "mlp", nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), (torch.randn(1, 784),)
    yield "reductions", _Reductions(), (torch.randn(64, 1000),)
    yield "int8_linear", _Int8Linear(), (torch.randint(-128, 127, (64, 256), dtype=torch.int8),)


class _ResnetStem(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(3, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(F.relu(self.norm(self.conv(x))))


class _Basic(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _conv_norm(inputs, outputs, 3, stride)
        self.second = _conv_norm(outputs, outputs, 3)
        self.shortcut = _conv_norm(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class _Bottleneck(nn.Module):
    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            _conv_norm(channels, inner, 1), nn.ReLU(), _conv_norm(inner, inner, 3, stride), nn.ReLU(),
            _conv_norm(inner, channels, 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.layers(x) + x)


class _InvertedResidual(nn.Module):
    """As in MobileNetV3 and EfficientNet: expansion, depthwise convolution, squeeze and excitation, projection."""

    def __init__(self, channels: int, stride: int, kernel: int) -> None:
        super().__init__()
        inner = 4 * channels
        self.expand = _conv_norm(channels, inner, 1)
        self.depthwise = _conv_norm(inner, inner, kernel, stride, groups=inner)
        self.squeeze, self.excite = nn.Conv2d(inner, channels // 4, 1), nn.Conv2d(channels // 4, inner, 1)
        self.project = _conv_norm(inner, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.silu(self.depthwise(F.relu6(self.expand(x))))
        scale = torch.sigmoid(self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        y = self.project(y * scale)
        return y + x if y.shape == x.shape else y


def _conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class _Head(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dense = nn.Linear(channels, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.softmax(self.dense(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)), dim=-1)


class _Encoder(nn.Module):
    """A layer of BERT or ViT, with attention spelt out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (self._split(part) for part in self.joint(self.first(x)).chunk(3, dim=-1))
        scores = torch.matmul(q, k.transpose(-1, -2)) * (self.width // self.heads) ** -0.5
        mixed = torch.matmul(F.softmax(scores, dim=-1), v).transpose(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.second(x))))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)


class _DecoderStep(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.joint, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        q, k, v = (
            part.reshape(1, 1, self.heads, -1).transpose(1, 2) for part in self.joint(self._rms(x)).chunk(3, dim=-1)
        )
        keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
        scores = torch.matmul(q, keys.transpose(-1, -2)) * 0.125
        mixed = torch.matmul(F.softmax(scores, dim=-1), values).transpose(1, 2).reshape(1, 1, self.width)
        x = x + self.out(mixed)
        y = self._rms(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), keys, values

    def _rms(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class _Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(1000, 256), nn.Embedding(128, 256), nn.LayerNorm(256)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.norm(self.words(tokens) + self.places.weight)


class _LstmCell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.hidden = nn.Linear(128, 1024), nn.Linear(256, 1024)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        i, f, g, o = (self.inputs(x) + self.hidden(h)).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class _Up(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.conv = nn.ConvTranspose2d(128, 64, 2, stride=2), nn.Conv2d(128, 64, 3, padding=1)
        self.wide = nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1)

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        return self.wide(F.relu(self.conv(torch.cat([self.up(x), skip], dim=1))))


class _Resize(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        smooth = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return smooth, F.interpolate(x, scale_factor=2, mode="nearest")


class _Pools(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.max_pool2d(x, 5, 1, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1), F.pad(x, (1, 1, 1, 1))


class _Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(64, 255, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(F.silu(x)).reshape(1, 3, 85, 20, 20).permute(0, 1, 3, 4, 2)
        centres, sizes, rest = torch.sigmoid(y[..., :2]) * 2, torch.exp(y[..., 2:4]), torch.sigmoid(y[..., 4:])
        return torch.cat([centres, sizes, rest], dim=-1).reshape(1, -1, 85)


class _Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.groups, self.batch = nn.GroupNorm(8, 64), nn.BatchNorm2d(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardswish(self.batch(F.relu(self.groups(x))))


class _Reductions(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sum(dim=0), x.mean(dim=1), F.log_softmax(x, dim=-1), x.argmax(dim=-1), x.max(), x.transpose(0, 1) + 1


class _Int8Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randint(-128, 127, (256, 256), dtype=torch.int8), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sums = torch.matmul(x.to(torch.int32), self.weight.to(torch.int32))
        return torch.clamp(torch.round(sums.to(torch.float32) * 0.001), -128, 127).to(torch.int8)
