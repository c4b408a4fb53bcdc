"""Scales that torch chooses at run time are those that TVM chooses."""

from collections.abc import Callable

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines the operators

from tests.client.pytorch.running import Of, require_as_torch

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")]
OPERATORS = torch.ops.quantized_decomposed
SMALLEST = 1.1920928955078125e-07
Results = tuple[torch.Tensor, ...]


def of_range(x: torch.Tensor) -> Results:
    scale, zero = OPERATORS.choose_qparams.tensor(x, -128, 127, SMALLEST, torch.int8)
    integers = OPERATORS.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
    return integers, scale, zero, OPERATORS.dequantize_per_tensor.tensor(integers, scale, zero, -128, 127, torch.int8)


def of_symmetric_range(x: torch.Tensor) -> Results:
    return (
        *OPERATORS.choose_qparams_symmetric.tensor(x, -127, 127, SMALLEST, torch.int8),
        *OPERATORS.choose_qparams_symmetric.tensor(x, 0, 255, SMALLEST, torch.uint8),
    )


def of_rows(x: torch.Tensor) -> Results:
    scale, zero = OPERATORS.choose_qparams_per_token.default(x, torch.int8)
    integers = OPERATORS.quantize_per_token.default(x, scale, zero, -127, 127, torch.int8)
    return integers, OPERATORS.dequantize_per_token.default(integers, scale, zero, -127, 127, torch.int8, torch.float32)


def of_rows_and_zeros(x: torch.Tensor) -> Results:
    scale, zero = OPERATORS.choose_qparams_per_token_asymmetric.default(x, torch.int8)
    return scale, OPERATORS.quantize_per_token.default(x, scale, zero, -128, 127, torch.int8)


@pytest.mark.parametrize("function", [of_range, of_symmetric_range, of_rows, of_rows_and_zeros])
@pytest.mark.parametrize("shift", [0.0, 5.0, -5.0])
def test_scales_follow_from_the_data(function: Callable[[torch.Tensor], Results], shift: float) -> None:
    torch.manual_seed(0)
    require_as_torch(Of(function), (torch.randn(3, 8) + shift,))


def test_zeros_are_quantized_in_the_smallest_steps() -> None:
    require_as_torch(Of(of_range), (torch.zeros(3, 8),))
