"""What the transformers share: attention and feed-forward layers."""

from torch import Tensor, nn
from torch.nn import functional


class SelfAttention(nn.Module):
    """Self-attention of several heads over [batch, tokens, width]."""

    def __init__(self, width: int, heads: int, *, key_bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.value = nn.Linear(width, width), nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=key_bias)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend; ``mask`` is added to the scores."""
        query, key, value = (self._split(layer(x)) for layer in (self.query, self.key, self.value))
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


def feed_forward(width: int, hidden: int) -> nn.Sequential:
    """Two linear layers with GELU between them."""
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))


class PreNormLayer(nn.Module):
    """A transformer layer with its norms before attention and feed-forward."""

    def __init__(self, width: int, heads: int, *, key_bias: bool = True, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, epsilon)
        self.attention = SelfAttention(width, heads, key_bias=key_bias)
        self.feed_norm = nn.LayerNorm(width, epsilon)
        self.feed = feed_forward(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        """The layer."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed(self.feed_norm(x))


class PostNormLayer(nn.Module):
    """A transformer layer with its norms after attention and feed-forward."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.attention_norm = nn.LayerNorm(width, 1e-12)
        self.feed = feed_forward(width, 4 * width)
        self.feed_norm = nn.LayerNorm(width, 1e-12)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The layer; ``mask`` is added to the scores of attention."""
        x = self.attention_norm(x + self.attention(x, mask))
        return self.feed_norm(x + self.feed(x))
