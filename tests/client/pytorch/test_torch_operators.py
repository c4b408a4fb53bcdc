"""Operators of torch that TVM converts wrongly, or not at all, give what they give in torch."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.client.pytorch.running import Of, imported, require_as_torch
from tunefarm_schemas.bad_input import BadInput

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")]


def test_operators_that_tvm_converts_wrongly_are_converted_as_torch_computes_them() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            functional.selu(x),
            functional.celu(x, 0.7),
            functional.group_norm(x, 2),
            x.amax((1, 2)),
            x.amin(-1, keepdim=True),
            x.min(1)[0],
            x.max(1)[1],
            x.prod(-1),
            x.logsumexp(-1),
            x.unfold(1, 3, 1),
            x.unfold(-1, 2, 3),
            (x * 3).long() @ (x * 3).long().mT,
            x.scatter_add(-1, torch.zeros(2, 4, 2, dtype=torch.int64), x[..., :2]),
            functional.interpolate(x[None], size=(7, 3)),
            functional.interpolate(x[None], scale_factor=1.7),
        )

    require_as_torch(Of(function), (torch.randn(2, 4, 5),))


def test_bytes_are_negated_around_their_range() -> None:
    require_as_torch(Of(lambda x, y: (-x, -y)), (torch.tensor([0, 1, 200], dtype=torch.uint8), torch.randn(3)))


def test_truth_values_are_compared_and_counted() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a == b, a != b, a < b, a >= b, a.eq(1), a.ne(0), a > 0.5, a.count_nonzero(1)

    require_as_torch(Of(function), (torch.randn(3, 4) > 0, torch.randn(3, 4) > 0))


def test_signs_and_numbers_beside_nan_are_those_of_torch() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        largest, smallest = torch.fmax(x, y).nan_to_num(7.0), torch.fmin(x, y).nan_to_num(7.0)
        return (
            largest,
            smallest,
            torch.signbit(x),
            torch.signbit(n),
            torch.erfc(x.nan_to_num(0.0)),
            torch.dist(y[3:], y[:1]),
        )

    nan = float("nan")
    x, y = torch.tensor([nan, 1.0, nan, -0.0, 0.0, -2.0]), torch.tensor([3.0, nan, nan, 1.0, -1.0, -0.5])
    require_as_torch(Of(function), (x, y, torch.tensor([-2, 0, 5])))


@pytest.mark.parametrize("includes", [True, False], ids=["with the elements", "without the elements"])
@pytest.mark.parametrize("reduction", ["sum", "prod", "amax", "amin", "mean"])
def test_scattered_values_are_combined_as_in_torch(reduction: str, includes: bool) -> None:
    def function(x: torch.Tensor, places: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x.scatter_reduce(1, places, x, reduction, include_self=includes),
            x.scatter_reduce(0, places[:2] % 2, 3 * x, reduction, include_self=includes),
            n.scatter_reduce(1, places, n + 1, reduction, include_self=includes),
        )

    places = torch.randint(0, 3, (3, 5))
    require_as_torch(Of(function), (torch.randn(3, 5), places, torch.randint(-5, 5, (3, 5))))


def test_values_are_written_through_views() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x.clone().fill_diagonal_(5.0),
            x.diagonal_scatter(x[0, 1:], 1),
            x.as_strided((3, 2, 2), (1, 0, 5), 2),
            x.as_strided_scatter(x[:2, :2], (2, 2), (6, 2), 1),
            x.new_full((2, 3), 1.5),
        )

    require_as_torch(Of(function), (torch.randn(4, 4),))


def test_bits_are_shifted_by_tensors() -> None:
    def function(n: torch.Tensor, by: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return n << by, n >> by, torch.bitwise_left_shift(n, 2), torch.bitwise_right_shift(n, by)

    require_as_torch(Of(function), (torch.randint(0, 1000, (3, 4)), torch.randint(0, 5, (3, 4))))
    numbers = torch.tensor([[1], [-5], [7], [-(2**31)], [2**31 - 1]], dtype=torch.int32)
    widths = torch.tensor([0, 1, 31, 32, 33, 70, -1], dtype=torch.int32)
    require_as_torch(Of(lambda n, by: (n << by, n >> by, n << 32, n >> 40)), (numbers, widths))


def test_special_functions_are_as_in_torch() -> None:
    numbers = torch.linspace(-3.97, 30, 341)

    def gammas(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ends = torch.lgamma((1e3 + x).exp()).isinf(), torch.lgamma(x.round().clamp(max=0)).isinf()
        return torch.lgamma(x), torch.digamma(x), torch.special.multigammaln(x.abs() + 2, 2), torch.lgamma(n), *ends

    require_as_torch(Of(gammas), (numbers, torch.arange(1, 9)))
    inside = torch.cat([torch.linspace(-0.999, 0.999, 401), 1 - torch.logspace(-6, -1, 30)])
    require_as_torch(Of(lambda x: (torch.erfinv(x), torch.erfinv(x.sign()).isinf())), (inside,))


def test_maxima_of_a_volume_cover_it_evenly() -> None:
    require_as_torch(nn.AdaptiveMaxPool3d((2, 3, 1)).eval(), (torch.randn(1, 2, 5, 7, 4),))


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_points_of_a_grid_are_sampled_as_in_torch(mode: str, padding: str, align_corners: bool) -> None:
    def function(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return functional.grid_sample(x, grid, mode, padding, align_corners)

    # Some points are outside of the image.
    inputs = torch.randn(2, 3, 5, 6), 3 * torch.rand(2, 4, 7, 2) - 1.5
    require_as_torch(Of(function), inputs)
    if mode == "bilinear":
        halves = tuple((each * 8).round().div(8).half() for each in inputs)  # between pixels, not next to them
        require_as_torch(Of(function), halves, 2e-3)
    volumes = torch.randn(2, 3, 4, 5, 6), 3 * torch.rand(2, 2, 3, 4, 3) - 1.5
    require_as_torch(Of(function), volumes)


def test_integers_are_converted_where_torch_computes_in_floats() -> None:
    def function(n: torch.Tensor, is_even: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            n * 0.5,
            1.5 - n,
            n > 0.5,
            n / 2,
            n.cos(),
            n**0.5,
            n.clamp(min=0.5),
            torch.where(is_even, n, 1.5),
            torch.where(n > 0.5, x, 0.0),
            x.masked_fill(is_even, 0.5),
            torch.maximum(x, n),
            is_even * 2.5,
            is_even + 1,
        )

    require_as_torch(Of(function), (torch.arange(8), torch.arange(8) % 2 == 0, torch.randn(8)))


def test_checks_of_values_are_left_out() -> None:
    def function(n: torch.Tensor) -> torch.Tensor:
        return functional.one_hot(n, 7).float().mean(1)

    program = torch.export.export(Of(function), (torch.tensor([[1, 0, 6], [2, 2, 3]]),))
    assert "assert" in str(program.run_decompositions().graph)
    require_as_torch(Of(function), (torch.tensor([[1, 0, 6], [2, 2, 3]]),))


def test_quotients_are_rounded_as_in_torch() -> None:
    def function(n: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            n // 3,
            torch.div(n, 3, rounding_mode="trunc"),
            torch.div(x, 0.3, rounding_mode="floor"),
            torch.div(x, n * n + 1, rounding_mode="trunc"),
        )

    require_as_torch(Of(function), (torch.arange(-7, 7), 4 * torch.randn(14)))


def test_pools_are_those_of_torch() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            functional.max_pool2d(x, 2),
            functional.max_pool2d(x[0], 3, 2, 1),
            functional.max_pool2d(x, 2, ceil_mode=True),
            *functional.max_pool2d(x, (3, 2), (2, 1), 1, (1, 2), return_indices=True),
            functional.adaptive_max_pool2d(x, (3, 4)),
            functional.adaptive_max_pool2d(x, 1),
            functional.adaptive_avg_pool2d(x, (3, 4)),
            functional.adaptive_avg_pool1d(x[0, 0], 3),
            x[0, 0, 0, 0].cumsum(0),
            functional.avg_pool2d(x, 3, 2, 1, divisor_override=5),
            functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=5),
        )

    require_as_torch(Of(function), (torch.randn(2, 3, 13, 10),))


def test_maxima_are_put_back_where_they_were() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return functional.max_unpool2d(*functional.max_pool2d(x, 2, return_indices=True), 2)

    require_as_torch(Of(function), (torch.randn(2, 3, 12, 10),))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_positions_of_maxima_in_halves_are_those_of_torch(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(functional.max_pool2d(x, 3, 2, 1, return_indices=True))

    require_as_torch(Of(function), (torch.randn(2, 3, 12, 13).to(dtype),))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(6, 5), (20, 17)])
def test_images_are_resized_with_antialiasing(mode: str, size: tuple[int, int]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return functional.interpolate(x, size, mode=mode, antialias=True)

    require_as_torch(Of(function), (torch.randn(2, 3, 13, 10),))


def test_operators_that_tvm_lacks_are_converted() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.addmv(x[0], x, x[1]),
            *torch.std_mean(x, 1),
            torch.hypot(x, y),
            x.exp2(),
            functional.rrelu(x),
            (n << 2) + (n >> 1),
            n.clamp(min=3),
            n.clamp(max=6),
            functional.interpolate(x[None], scale_factor=2, mode="linear"),
            x.scatter_reduce(0, n[:6].reshape(1, 6) % 6, y[:1], "amax"),
            x[*torch.tril_indices(6, 6, -1)],
            x[*torch.triu_indices(6, 6, 1)],
        )

    require_as_torch(Of(function), (torch.randn(6, 6), torch.randn(6, 6), torch.arange(1, 9)))


@pytest.mark.parametrize("power", [1, 2, 3, float("inf")])
def test_distances_are_those_of_all_pairs(power: float) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cdist(x, y, power)

    require_as_torch(Of(function), (torch.randn(2, 5, 7), torch.randn(2, 4, 7)))


def test_bilinear_layers_are_products_of_two_inputs() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Bilinear(6, 5, 3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.layer(x, y)

    require_as_torch(Both().eval(), (torch.randn(4, 6), torch.randn(4, 5)))


@pytest.mark.parametrize(
    ("kind", "tolerance"), [(torch.float16, 1e-2), (torch.bfloat16, 5e-2), (torch.float64, 1e-9)], ids=str
)
def test_norms_have_the_element_type_of_the_model(kind: torch.dtype, tolerance: float) -> None:
    class Norms(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(3, 8, 3, padding=1)
            self.batch_norm = nn.BatchNorm2d(8)
            self.layer_norm = nn.LayerNorm(8)
            self.group_norm = nn.GroupNorm(2, 8)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            convolved = self.batch_norm(self.convolution(x))
            return self.layer_norm(convolved.relu().mean((2, 3))), self.group_norm(convolved)

    require_as_torch(Norms().eval().to(kind), (torch.randn(2, 3, 9, 9).to(kind),), tolerance)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_rows_are_summed(mode: str) -> None:
    def function(indices: torch.Tensor, table: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            functional.embedding_bag(indices, table, mode=mode),
            functional.embedding_bag(indices.flatten(), table, torch.tensor([0, 1, 1, 4]), mode=mode),
        )

    require_as_torch(Of(function), (torch.tensor([[0, 2, 1], [3, 4, 0]]), torch.randn(5, 8)))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_leave_the_padding_out(mode: str) -> None:
    def function(indices: torch.Tensor, table: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            functional.embedding_bag(indices, table, mode=mode, padding_idx=0),
            functional.embedding_bag(indices.flatten(), table, torch.tensor([0, 1, 1, 4]), mode=mode, padding_idx=-5),
        )

    # One bag has nothing but padding.
    require_as_torch(Of(function), (torch.tensor([[0, 0, 0], [3, 4, 0]]), -torch.rand(5, 8)))


def test_a_single_number_has_extremes() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.argmax(), x.argmin(0), x.amax(-1), x.prod(0)

    require_as_torch(Of(function), (torch.tensor(3.5),))


def test_truth_values_and_integers_are_finite_and_have_extremes() -> None:
    def function(x: torch.Tensor, n: torch.Tensor, is_set: torch.Tensor) -> tuple[torch.Tensor, ...]:
        checks = (check(each) for check in (torch.isnan, torch.isinf, torch.isfinite) for each in (x, n, is_set))
        return *checks, *is_set.max(1), *is_set.min(0, keepdim=True)

    numbers = torch.tensor([[1.0, torch.nan, torch.inf], [0, -torch.inf, 3]])
    require_as_torch(Of(function), (numbers, torch.tensor([1, -4]), torch.tensor([[False, True, True], [False] * 3])))


def test_extremes_up_to_each_element_have_their_last_positions() -> None:
    def function(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return *x.cummax(1), *x.cummin(-1), *n.cummax(0), *n.cummin(1), *x[:, :1].cummax(1)

    require_as_torch(Of(function), (torch.randn(3, 11, 4), torch.randint(5, (9, 7))))


def test_most_frequent_elements_are_those_of_torch() -> None:
    def function(n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return n.mode()[0], n.float().mode(0, keepdim=True)[0], n.gather(1, n.mode(1, keepdim=True)[1])

    require_as_torch(Of(function), (torch.randint(3, (5, 9)),))


def test_numbers_are_counted_upwards_and_downwards() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x + torch.arange(3),
            torch.arange(64, -64, -2),
            torch.arange(10, 0, -3),
            torch.arange(7, 7),
            torch.arange(0, 1, 0.1),
            torch.arange(1, 0, -0.25, dtype=torch.bfloat16),
        )

    require_as_torch(Of(function), (torch.randn(3),))


def test_elements_of_a_source_are_scattered_by_a_mask() -> None:
    def function(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.masked_scatter(mask, source), x.masked_scatter(mask[:, :1], source)

    mask = torch.tensor([[False, True, True, False], [True, False, True, True], [False, False, True, False]])
    require_as_torch(Of(function), (torch.randn(3, 4), mask, torch.randn(2, 6)))


def test_joined_tensors_have_the_type_of_the_result_and_may_be_empty() -> None:
    def function(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        nothing = torch.zeros(0)
        return (
            torch.cat([x, n], -1),
            torch.cat([n, x > 0]),
            torch.cat([x, x.double(), n]),
            torch.cat([nothing, x, x[:, :0]], 1),
            torch.cat([nothing, x]),
            torch.stack([n, x], 1),
            torch.cat([nothing, n.float().flatten()]),
        )

    require_as_torch(Of(function), (torch.randn(2, 3), torch.randint(-5, 5, (2, 3))))


def test_operators_whose_sizes_are_values_are_named() -> None:
    with pytest.raises(BadInput, match=r"aten::slice\.Tensor at"):
        imported(Of(torch.tensor_split), (torch.randn(6, 2), torch.tensor([1, 3])))
