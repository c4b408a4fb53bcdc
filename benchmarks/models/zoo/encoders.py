"""Encoders: BERT (Devlin et al. 2018), ViT (Dosovitskiy et al. 2020), Whisper (Radford et al. 2022)."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.models.zoo.transformer import PostNormLayer, PreNormLayer


class TextEncoder(nn.Module):
    """BERT's encoder with its pooler, for one segment."""

    def __init__(self, *, vocabulary: int, tokens: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList(PostNormLayer(width, heads) for _ in range(layers))
        self.pooler = nn.Linear(width, width)
        self.register_buffer("numbers", torch.arange(tokens).reshape(1, tokens))

    def forward(self, token_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """States [batch, tokens, width] and the pooled first state, of ids and a mask of ones, [batch, tokens]."""
        mask = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * -1e9
        x = self.words(token_ids) + self.positions(self.numbers) + self.segments.weight[0]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class ImageEncoder(nn.Module):
    """ViT: patches, a class token, pre-norm layers and a classifier."""

    def __init__(self, *, size: int, patch: int, width: int, heads: int, layers: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(0.5 * torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.5 * torch.randn(1, 1 + (size // patch) ** 2, width))
        self.layers = nn.Sequential(*(PreNormLayer(width, heads, epsilon=1e-6) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, 1e-6)
        self.classifier = nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        """Scores of the classes, [batch, classes], of images [batch, 3, size, size]."""
        patches = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(image.shape[0], -1, -1), patches], 1) + self.positions
        return self.classifier(self.norm(self.layers(x))[:, 0])


class AudioEncoder(nn.Module):
    """Whisper's encoder: two convolutions over time, sinusoidal positions and pre-norm layers."""

    def __init__(self, *, mels: int, frames: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(mels, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.register_buffer("positions", _sinusoids(frames // 2, width))
        self.layers = nn.Sequential(*(PreNormLayer(width, heads, key_bias=False) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, mel: Tensor) -> Tensor:
        """States [batch, frames / 2, width] of a spectrogram [batch, mels, frames]."""
        x = functional.gelu(self.second(functional.gelu(self.first(mel))))
        return self.norm(self.layers(x.transpose(1, 2) + self.positions))


def _sinusoids(length: int, width: int) -> Tensor:
    """Sines, then cosines, of wavelengths up to 10,000 frames: shape [length, width]."""
    step = math.log(10_000) / (width // 2 - 1)
    angles = torch.arange(length)[:, None] * torch.exp(-step * torch.arange(width // 2))[None]
    return torch.cat([angles.sin(), angles.cos()], 1)
