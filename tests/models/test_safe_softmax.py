from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytestmark = [
    pytest.mark.models,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from benchmarks.library_regions.overhead import before_legalization  # noqa: E402
from tests.models.library.regions import Array, bindings, by_tvm  # noqa: E402

TOKENS = 6
LOWEST = torch.finfo(torch.float32).min
CAUSAL = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
Mask = Callable[[torch.Tensor], torch.Tensor | None]


class Attention(torch.nn.Module):
    """Self-attention of two heads, with what ``mask`` makes of a second input."""

    def __init__(self, mask: Mask, *, is_causal: bool = False) -> None:
        super().__init__()
        self.projection = torch.nn.Linear(8, 24)
        self.mask, self.is_causal = mask, is_causal
        self.register_buffer("causal", torch.zeros(TOKENS, TOKENS).masked_fill(~CAUSAL, float("-inf")))

    def forward(self, x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        query, key, value = self.projection(x).unflatten(2, (2, 12)).transpose(1, 2).chunk(3, -1)
        mask = self.mask(given)
        if isinstance(mask, str):
            mask = self.causal[:TOKENS, :TOKENS]
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=self.is_causal)
        return mixed + 0 * given.sum()


def exported(model: torch.nn.Module, given: torch.Tensor, path: Path) -> tuple[list[str], list[Array], Array]:
    """The operators that are left of the model, what they compute, and what torch does."""
    torch.manual_seed(3)
    x = torch.randn(1, TOKENS, 8)
    model = model.eval()
    torch.export.save(torch.export.export(model, (x, given)), path)
    module = before_legalization(path, "pt2")
    operators = [str(getattr(getattr(each.value, "op", None), "name", "")) for each in bindings(module)]
    with torch.no_grad():
        return operators, by_tvm(module, [x.numpy(), given.numpy()]), model(x, given).numpy()


def keeps_its_guard(operators: list[str]) -> bool:
    return "relax.max" in operators


ONES = torch.ones(1, TOKENS, dtype=torch.int64)
PADDED = torch.tensor([[1, 1, 1, 1, 0, 0]])


@pytest.mark.parametrize(
    ("mask", "given"),
    [
        (lambda _: None, ONES),
        (lambda _: CAUSAL, ONES),
        (lambda _: torch.where(CAUSAL, 0.0, float("-inf")), ONES),
        (lambda _: "the buffer", ONES),
        (lambda given: torch.where(given[:, None, None] > 0, 0.0, LOWEST), PADDED),
        (lambda given: (1.0 - given[:, None, None].float()) * -1e9, PADDED),
    ],
    ids=["none", "causal", "added", "buffer", "padding", "product"],
)
def test_attention_becomes_plain_softmax_where_each_row_has_a_number(
    mask: Mask, given: torch.Tensor, tmp_path: Path
) -> None:
    operators, found, expected = exported(Attention(mask), given, tmp_path / "model.pt2")
    assert not keeps_its_guard(operators)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-6)


def test_causal_attention_becomes_plain_softmax(tmp_path: Path) -> None:
    operators, found, expected = exported(Attention(lambda _: None, is_causal=True), ONES, tmp_path / "model.pt2")
    assert not keeps_its_guard(operators)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("mask", "given"),
    [
        (lambda _: CAUSAL.logical_and(torch.arange(TOKENS)[:, None] != 2), ONES),
        (lambda given: given[:, None, None] > 0, 0 * ONES),
        (lambda given: torch.where(given[:, None, None] > 0, 0.0, float("-inf")), 0 * ONES),
        (lambda given: given[:, None, None].log(), torch.zeros(1, TOKENS)),
        (lambda given: 2 * torch.where(given[:, None, None] > 0, 0.0, LOWEST), 0 * ONES),
    ],
    ids=["row-without-a-number", "bool", "added", "input", "overflow"],
)
def test_attention_keeps_its_guard_where_a_row_may_have_no_number(
    mask: Mask, given: torch.Tensor, tmp_path: Path
) -> None:
    operators, found, expected = exported(Attention(mask), given, tmp_path / "model.pt2")
    assert keeps_its_guard(operators)
    assert not np.isnan(expected).any()
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-6)
