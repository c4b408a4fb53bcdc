"""Modules of torch whose weights are quantized alone: the compiled model keeps them in as many bits."""

from pathlib import Path
from typing import Any

import pytest

import tunefarm.torch
from tunefarm_services.settings import Settings

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.models

WIDTH, GROUP = 768, 32


class Bytes(torch.nn.Module):  # type: ignore[misc]
    """A dense layer with a scale for each output, as torchao's ``Int8WeightOnlyConfig`` has."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randint(-128, 128, (WIDTH, WIDTH), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(WIDTH) * 0.001 + 0.0005)

    def forward(self, data: Any) -> Any:
        return (data @ self.codes.t().to(data.dtype)) * self.scales.to(data.dtype)


class Halves(torch.nn.Module):  # type: ignore[misc]
    """A dense layer with two weights in a byte, and scales and zero points for groups of inputs."""

    def __init__(self) -> None:
        super().__init__()
        groups = (WIDTH, WIDTH // GROUP, 1)
        self.register_buffer("codes", torch.randint(0, 256, (WIDTH, WIDTH // 2), dtype=torch.uint8))
        self.register_buffer("scales", torch.rand(groups) * 0.01 + 0.005)
        self.register_buffer("zero_points", torch.randint(0, 16, groups, dtype=torch.uint8))

    def forward(self, data: Any) -> Any:
        codes = torch.stack([self.codes & 15, self.codes >> 4], -1).reshape(WIDTH, WIDTH // GROUP, GROUP)
        weights = (codes.to(data.dtype) - self.zero_points.to(data.dtype)) * self.scales.to(data.dtype)
        return torch.nn.functional.linear(data, weights.reshape(WIDTH, WIDTH))


class Words(Halves):
    """The same with eight weights in 32 bits, as GPTQ packs them."""

    def __init__(self) -> None:
        super().__init__()
        self.codes = torch.randint(-(1 << 31), (1 << 31) - 1, (WIDTH, WIDTH // 8), dtype=torch.int32)
        self.register_buffer("shifts", torch.arange(0, 32, 4, dtype=torch.int32))

    def forward(self, data: Any) -> Any:
        codes = torch.bitwise_right_shift(self.codes[:, :, None], self.shifts) & 15
        codes = codes.reshape(WIDTH, WIDTH // GROUP, GROUP).to(data.dtype)
        weights = (codes - self.zero_points.to(data.dtype)) * self.scales.to(data.dtype)
        return data @ weights.reshape(WIDTH, WIDTH).t()


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize(
    ("kind", "dtype", "bits"),
    [
        (Bytes, "float32", 8.1),
        (Halves, "float32", 6.1),
        (Words, "float32", 6.1),
        (Bytes, "bfloat16", 8.1),
        (Halves, "bfloat16", 6.1),
        (torch.nn.Linear, "bfloat16", 16.1),
        (torch.nn.Linear, "float16", 16.1),
    ],
)
def test_compiled_model_keeps_weights_in_their_bits(
    kind: type[Any], dtype: str, bits: float, settings: Settings, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    kept = getattr(torch, dtype)
    module = kind(WIDTH, WIDTH, bias=False).to(kept) if kind is torch.nn.Linear else kind()
    data = torch.randn(2, WIDTH).to(kept)
    compiled = tunefarm.torch.compile(module.eval(), (data,), output=tmp_path / "compiled", settings=settings)
    found = compiled(data).float()
    with torch.no_grad():
        expected = module(data).float()
    assert (found - expected).abs().max() <= (1e-4 if dtype == "float32" else 0.02) * expected.abs().max()
    stored = sum(each.stat().st_size for each in (tmp_path / "compiled").rglob("*") if each.suffix != ".so")
    assert stored * 8 < bits * WIDTH * WIDTH * 1.1
