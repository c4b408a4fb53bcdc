"""One step of a decoder in the manner of Llama, with its key-value cache as inputs and outputs."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class RootMeanSquareNorm(nn.Module):
    """Scales each vector to a mean square of one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width).uniform_(0.5, 1.5))

    def forward(self, x: Tensor) -> Tensor:
        """The norm."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class CachedAttention(nn.Module):
    """Attention of one new token to all earlier ones, with fewer key heads than query heads."""

    def __init__(self, width: int, heads: int, key_heads: int) -> None:
        super().__init__()
        self.heads, self.key_heads, self.head_width = heads, key_heads, width // heads
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, key_heads * self.head_width, bias=False)
        self.value = nn.Linear(width, key_heads * self.head_width, bias=False)

    def forward(
        self, x: Tensor, position: Tensor, turn: tuple[Tensor, Tensor], keys: Tensor, values: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The output, [batch, 1, width], and the caches, [batch, key heads, tokens, head width], with the new token."""
        query = _turned(self._split(self.query(x), self.heads), turn)
        key = _turned(self._split(self.key(x), self.key_heads), turn)
        keys = keys.index_copy(2, position, key)
        values = values.index_copy(2, position, self._split(self.value(x), self.key_heads))
        query = query.reshape(x.shape[0], self.key_heads, self.heads // self.key_heads, self.head_width)
        scores = query @ keys.transpose(2, 3) * self.head_width**-0.5 + mask
        mixed = functional.softmax(scores, -1) @ values
        return self.out(mixed.reshape(x.shape)), keys, values

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.reshape(x.shape[0], 1, heads, self.head_width).transpose(1, 2)


class DecoderLayer(nn.Module):
    """Attention and a gated feed-forward layer, each after a norm."""

    def __init__(self, width: int, heads: int, key_heads: int, hidden: int) -> None:
        super().__init__()
        self.attention_norm, self.feed_norm = RootMeanSquareNorm(width), RootMeanSquareNorm(width)
        self.attention = CachedAttention(width, heads, key_heads)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(
        self, x: Tensor, position: Tensor, turn: tuple[Tensor, Tensor], keys: Tensor, values: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The output and both caches."""
        mixed, keys, values = self.attention(self.attention_norm(x), position, turn, keys, values, mask)
        x = x + mixed
        y = self.feed_norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y)), keys, values


class DecoderStep(nn.Module):
    """Logits of the next token, and the caches with the present one."""

    def __init__(
        self, *, vocabulary: int, tokens: int, width: int, heads: int, key_heads: int, hidden: int, layers: int
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, key_heads, hidden) for _ in range(layers))
        self.norm = RootMeanSquareNorm(width)
        self.logits = nn.Linear(width, vocabulary, bias=False)
        half = width // heads // 2
        angles = torch.arange(tokens)[:, None] * 10_000.0 ** (-torch.arange(half) / half)[None]
        self.register_buffer("cosines", angles.cos().repeat(1, 2))
        self.register_buffer("sines", angles.sin().repeat(1, 2))
        self.register_buffer("numbers", torch.arange(tokens))

    def forward(self, token: Tensor, position: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One step.

        Args:
            token: its id, [batch, 1].
            position: of the token, [1].
            keys: of all layers, [layers, batch, key heads, tokens, head width]; those from ``position`` on are ignored.
            values: the same shape.

        Returns:
            Logits [batch, vocabulary], keys and values.
        """
        mask = torch.where(self.numbers <= position, 0.0, -1e9)
        turn = (self.cosines[position], self.sines[position])
        x = self.words(token)
        new_keys, new_values = [], []
        for number, layer in enumerate(self.layers):
            x, layer_keys, layer_values = layer(x, position, turn, keys[number], values[number], mask)
            new_keys.append(layer_keys)
            new_values.append(layer_values)
        return self.logits(self.norm(x))[:, 0], torch.stack(new_keys), torch.stack(new_values)


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions (Su et al. 2021) by cosines and sines, [1, head width]."""
    first, second = x.chunk(2, -1)
    return x * turn[0] + torch.cat([-second, first], -1) * turn[1]
