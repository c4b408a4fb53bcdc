"""Complex numbers and Fourier transforms inside of torch modules give what they give in torch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.client.pytorch.running import Of, imported, require_as_torch
from tunefarm_schemas.bad_input import BadInput

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")]


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def complex_noise(*shape: int) -> torch.Tensor:
    return torch.view_as_complex(noise(*shape, 2))


def arithmetic(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    number = torch.view_as_complex(x)
    other = torch.complex(x[..., 1], x[..., 0].cos())
    results = [
        number + 2 * other - x[..., 0],
        x[..., 1] - number,
        (1 + 2j) * number,
        number * x[..., 0],
        number / x[..., 0],
        3.0 / (other * other.conj() + 1),
        number / (other + 4),
        number.pow(3),
        number.exp(),
        number.log(),
        number.sqrt(),
        torch.polar(x[..., 0].abs(), x[..., 1]),
        number @ other.mT,
        torch.sgn(number),
        torch.where(x[..., 0] > 0, number, other),
    ]
    return (*map(torch.view_as_real, results), number.abs(), number.angle(), number.real * other.imag)


def movement(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    number = torch.view_as_complex(x)
    first, second = number.chunk(2, -1)
    filled = torch.zeros(5, 6, dtype=torch.complex64)
    filled[1:, 2:] = second[:4].repeat(1, 2)[:, :4]
    results = [
        torch.cat([first.roll(1, -1), second.flip(0)], 0),
        number[..., None].permute(2, 1, 0)[:, 1:3],
        torch.stack([number, number.conj()]).flatten(1),
        nn.functional.pad(number, (1, 0, 0, 2)),
        number[torch.tensor([3, 0, 3])],
        number.mean(-1, keepdim=True) + number.sum(0),
        filled,
    ]
    return tuple(map(torch.view_as_real, results))


@pytest.mark.parametrize(
    ("function", "shape"),
    [(arithmetic, (5, 4, 2)), (movement, (5, 4, 2))],
    ids=["arithmetic", "movement"],
)
def test_complex_numbers_are_computed_as_in_torch(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    require_as_torch(Of(function), (noise(*shape),))


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_fourier_transforms_are_those_of_torch(norm: str) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        half = torch.fft.rfft2(x, norm=norm)
        whole = torch.fft.fftn(x, dim=(0, 2), norm=norm)
        results = [
            half,
            whole,
            torch.fft.ifft2(whole, norm=norm),
            torch.fft.ihfft(x, norm=norm).resolve_conj(),
            torch.fft.fftshift(half),
        ]
        inverse = torch.fft.irfft2(half * half.abs(), s=x.shape[1:], norm=norm)
        return (*map(torch.view_as_real, results), inverse, torch.fft.hfft(half, norm=norm))

    require_as_torch(Of(function), (noise(3, 6, 9),))


def test_audio_is_filtered_over_its_spectrogram() -> None:
    window = torch.hann_window(64)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        spectrogram = torch.stft(x, 64, 16, window=window, return_complex=True)
        mask = (spectrogram.abs() ** 2).log1p().sigmoid()
        return mask, torch.istft(spectrogram * mask, 64, 16, window=window, length=x.shape[-1])

    require_as_torch(Of(function), (noise(2, 500),))


def test_complex_weights_are_two_weights() -> None:
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turns", torch.polar(torch.ones(7, 4), noise(7, 4)))
            self.weight = nn.Parameter(complex_noise(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            number = torch.view_as_complex(x.reshape(7, 4, 2)) * self.turns
            return torch.view_as_real(torch.einsum("ti,oi->to", number, self.weight)).flatten(1)

    model, inputs = Rotary().eval(), (noise(7, 8),)
    require_as_torch(model, inputs)
    names = {str(each) for each in imported(model, inputs).module["main"].params}
    assert {"turns_real", "turns_imag", "weight_real", "weight_imag"} <= names


@pytest.mark.parametrize(
    ("function", "inputs", "problem", "fix"),
    [
        (lambda x: x.abs(), (complex_noise(3),), "its input .* has complex numbers", "view_as_complex"),
        (torch.fft.rfft, (noise(8),), "it returns _fft_r2c, complex numbers", "view_as_real"),
        (
            lambda x: torch.fft.rfft(x).tanh().abs(),
            (noise(8),),
            r"aten::tanh.default at tanh \(complex64\[5\]\)",
            "parts",
        ),
        (lambda x: (torch.fft.rfft(x) ** 0.5).abs(), (noise(8),), "to the power of 0.5", ""),
        (
            lambda x: nn.functional.pad(torch.fft.rfft(x), (0, 1), value=1.0).abs(),
            (noise(8),),
            "by others than zero",
            "",
        ),
        (lambda x: torch.fft.rfft(x).abs(), (noise(8209),), "a prime above 1024; pad it", ""),
    ],
    ids=["input", "result", "operator", "exponent", "padding", "length"],
)
def test_what_has_no_conversion_is_refused_with_a_way_around(
    function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], problem: str, fix: str
) -> None:
    with pytest.raises(BadInput, match=problem) as refused:
        imported(Of(function), inputs)
    assert fix in refused.value.fix
