"""Parts of well-known networks, compiled without a trial, give what torch gives."""

import math
from pathlib import Path
from typing import Any

import pytest

import tunefarm
from tunefarm_services.settings import Settings

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")]
nn, functional = torch.nn, torch.nn.functional


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("home"))


class RotaryStep(nn.Module):  # type: ignore[misc, name-defined]
    """A step of a decoder: a rotated query and key, and caches that move by one."""

    def __init__(self) -> None:
        super().__init__()
        self.projections = nn.Linear(64, 192)
        self.register_buffer("frequencies", 10000 ** (-torch.arange(0, 16, 2) / 16))

    def forward(self, x: Any, position: Any, keys: Any, values: Any) -> Any:
        angles = position[:, None] * self.frequencies
        cosine, sine = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)

        def rotated(heads: Any) -> Any:
            first, second = heads.chunk(2, -1)
            return heads * cosine + torch.cat([-second, first], -1) * sine

        query, key, value = self.projections(x).view(1, 1, 3, 4, 16).permute(2, 0, 3, 1, 4)
        keys = torch.cat([keys[:, :, 1:], rotated(key)], 2)
        values = torch.cat([values[:, :, 1:], value], 2)
        return functional.scaled_dot_product_attention(rotated(query), keys, values), keys, values


class MaskedByInfinities(nn.Module):  # type: ignore[misc, name-defined]
    """Causal attention by hand, and an embedding of the position as of diffusion models."""

    def forward(self, x: Any, step: Any) -> Any:
        mask = torch.full((12, 12), -math.inf).triu(1)
        frequencies = torch.exp(torch.arange(8) * (-math.log(10000) / 8))
        angles = step[:, None] * frequencies
        return (x @ x.mT / 4 + mask).softmax(-1) @ x + torch.cat([angles.cos(), angles.sin()], 1)


class ShuffledUnit(nn.Module):  # type: ignore[misc, name-defined]
    """ShuffleNet's unit, whose 58 channels fill no vectors."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Conv2d(58, 58, 1), nn.ReLU(), nn.Conv2d(58, 58, 3, 1, 1, groups=58), nn.Conv2d(58, 58, 1)]
        self.branch = nn.Sequential(*layers, nn.ReLU())

    def forward(self, x: Any) -> Any:
        kept, changed = x.chunk(2, 1)
        joined = torch.cat([kept, self.branch(changed)], 1)
        return joined.unflatten(1, (2, 58)).transpose(1, 2).flatten(1, 2)


class BestBoxes(nn.Module):  # type: ignore[misc, name-defined]
    """The head of a detector, and its boxes in the order of their scores."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(16, 3 * 17, 1)

    def forward(self, x: Any) -> Any:
        boxes = self.head(x).unflatten(1, (3, 17)).permute(0, 1, 3, 4, 2).flatten(1, 3)
        scores = (boxes[..., 4:5].sigmoid() * boxes[..., 5:].sigmoid()).amax(-1)
        best, places = scores.topk(10, 1)
        return torch.gather(boxes, 1, places[..., None].expand(-1, -1, 17)), best


class ReadBehindACondition(nn.Module):  # type: ignore[misc, name-defined]
    """Products, a convolution with a norm, and slices before a condition of the input, which are read behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(16, 16)
        self.convolution, self.norm = nn.Conv2d(2, 16, 3, padding=1), nn.BatchNorm2d(16)

    def forward(self, x: Any) -> Any:
        y = self.dense(x)
        image = self.convolution(x[:2].reshape(1, 2, 4, 4))
        quarters = x[0:2] + x[2:4] * 2 + x[4:6] * 3 + x[6:8] * 4
        z = torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))
        return functional.relu(y) + z, self.norm(image).relu(), quarters, sum(x[each] * each for each in range(8))


class OddOperands(nn.Module):  # type: ignore[misc, name-defined]
    """Operands that are smaller than the product or the convolution before, and parts without elements."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.convolution = nn.Linear(16, 32), nn.Conv2d(8, 8, 1)

    def forward(self, row: Any, x: Any, image: Any) -> Any:
        pooled = self.convolution(functional.adaptive_avg_pool2d(image, 1))
        with_one = torch.cat([pooled, torch.ones(1, 1, 1, 1)], 1)
        return self.dense(row).view(-1) * x, with_one, pooled * torch.ones(1, 1, 1, 1) * 2, x[None, :, :0].mT


BLOCKS = {
    "layer of an encoder": lambda: (nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), (torch.randn(3, 10, 32),)),
    "rotary step": lambda: (
        RotaryStep(),
        (torch.randn(1, 1, 64), torch.tensor([5]), torch.randn(1, 4, 9, 16), torch.randn(1, 4, 9, 16)),
    ),
    "mask of infinities": lambda: (MaskedByInfinities(), (torch.randn(12, 16), torch.tensor([10.0]))),
    "shuffled unit": lambda: (ShuffledUnit(), (torch.randn(1, 116, 14, 14),)),
    "read behind a condition": lambda: (ReadBehindACondition(), (torch.randn(8, 16),)),
    "odd operands": lambda: (OddOperands(), (torch.randn(1, 16), torch.randn(4, 32), torch.randn(1, 8, 4, 4))),
    "best boxes": lambda: (BestBoxes(), (torch.randn(1, 16, 8, 8),)),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_compiled_block_gives_what_torch_gives(name: str, settings: Settings) -> None:
    torch.manual_seed(0)
    module, inputs = BLOCKS[name]()
    module.eval()

    compiled = tunefarm.torch.compile(module, inputs, target="host:1", settings=settings)

    with torch.no_grad():
        torch.testing.assert_close(compiled(*inputs), module(*inputs), rtol=1e-4, atol=1e-5)


def test_weights_are_not_repeated_for_each_token(settings: Settings, tmp_path: Path) -> None:
    """``nn.MultiheadAttention`` takes its tokens first, and torch's export repeats the weights for each of them."""
    module = nn.MultiheadAttention(64, 4, batch_first=True).eval()
    x = torch.randn(2, 50, 64)

    tunefarm.compile(module, (x, x, x), "host:1", output=tmp_path / "model", settings=settings)

    given = sum(each.numel() * each.element_size() for each in module.parameters())
    written = sum(file.stat().st_size for file in (tmp_path / "model").glob("*.safetensors"))
    assert given < written < 1.5 * given
