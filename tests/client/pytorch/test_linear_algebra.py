"""Inverses, determinants and factors of small matrices are those of torch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.client.pytorch.running import Of, by_tvm, imported, require_as_torch
from tunefarm_schemas.bad_input import BadInput

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")]

SHAPES = [(1, 1), (3, 3), (2, 3, 4, 4), (7, 7)]


def matrices(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Whose diagonals are small, so that rows must be exchanged."""
    found = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)
    return found * (1 - torch.eye(shape[-1], dtype=dtype) * 0.999) if shape[-1] > 1 else found


@pytest.mark.parametrize("shape", SHAPES)
def test_inverses_and_determinants(shape: tuple[int, ...]) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logarithm = torch.linalg.slogdet(x)
        return (
            torch.inverse(x),
            torch.linalg.inv(x),
            torch.det(x),
            torch.linalg.det(-x),
            *logarithm,
            torch.logdet(x @ x.mT),
        )

    require_as_torch(Of(function), (matrices(*shape),), tolerance=1e-3)


def test_numbers_of_64_bits_are_as_accurate_as_in_torch() -> None:
    x = matrices(12, 12, dtype=torch.float64)
    require_as_torch(Of(lambda x: (torch.inverse(x), torch.linalg.cholesky(x @ x.mT), torch.det(x))), (x,), 1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_systems_are_solved(shape: tuple[int, ...]) -> None:
    def function(x: torch.Tensor, y: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from_the_right = torch.linalg.solve(x, y.mT, left=False)
        return torch.linalg.solve(x, y), torch.linalg.solve(x, v), torch.linalg.solve(x, y[..., :1]), from_the_right

    *batch, rows, _ = shape
    require_as_torch(Of(function), (matrices(*shape), torch.randn(*batch, rows, 2), torch.randn(*batch, rows)), 1e-3)


def test_one_matrix_serves_several_right_sides() -> None:
    inputs = (matrices(4, 4), torch.randn(3, 4, 2))
    require_as_torch(Of(torch.linalg.solve), inputs, 1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_factors_of_cholesky(shape: tuple[int, ...]) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        positive = x @ x.mT + torch.eye(x.shape[-1])
        return torch.linalg.cholesky(positive), torch.linalg.cholesky(positive.triu(), upper=True)

    require_as_torch(Of(function), (matrices(*shape),), 1e-4)


@pytest.mark.parametrize("has_ones", [False, True])
@pytest.mark.parametrize("is_upper", [False, True])
def test_triangles_are_solved_from_both_sides(is_upper: bool, has_ones: bool) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        solve: Callable[..., Any] = torch.linalg.solve_triangular
        options = {"upper": is_upper, "unitriangular": has_ones}
        triangle = x.triu() if is_upper else x.tril()
        return (
            solve(triangle, y, **options),
            solve(triangle, y.mT, left=False, **options),
            solve(triangle[0], y, **options),
        )

    x = torch.randn(2, 5, 5) + 3 * torch.eye(5)
    require_as_torch(Of(function), (x, torch.randn(2, 5, 3)), 1e-4)


def test_a_singular_matrix_has_the_determinant_zero_and_no_finite_inverse() -> None:
    module = Of(lambda x: (torch.det(x), torch.inverse(x)))
    x = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    found, inverse = by_tvm(imported(module, (torch.randn(3, 3),)), (x,))
    assert found == 0
    assert not torch.isfinite(torch.from_numpy(inverse)).all()


def test_a_large_matrix_is_refused() -> None:
    with pytest.raises(BadInput, match="matrices of 33 rows are larger than 32"):
        imported(Of(torch.inverse), (torch.randn(33, 33),))
