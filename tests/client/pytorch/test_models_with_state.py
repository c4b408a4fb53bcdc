"""Modules of torch that change buffers and inputs: each call continues where the last one ended, as in torch."""

import copy
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tunefarm
from tunefarm.artifact.aligned_memory import aligned_copy
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.models

LENGTH, WIDTH = 8, 4


class Decoder(torch.nn.Module):  # type: ignore[misc]
    """Writes a row of a cache at each call, and counts calls. Halves an input in place."""

    def __init__(self) -> None:
        super().__init__()
        self.row = torch.nn.Linear(WIDTH, WIDTH)
        self.register_buffer("cache", torch.zeros(1, LENGTH, WIDTH))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64), persistent=False)
        self.sums = torch.nn.Module()
        self.sums.register_buffer("inputs", torch.ones(WIDTH))

    def forward(self, token: Any, scale: Any) -> Any:
        self.cache.index_copy_(1, self.position[None], self.row(token)[:, None])
        self.position += 1
        self.sums.inputs.add_(token[0])
        scale.mul_(0.5)
        return {"sum": (self.cache * self.sums.inputs).sum(1) * scale, "next": self.position + 1}


class Streaming(torch.nn.Module):  # type: ignore[misc]
    """Keeps the last samples in a list, whose one tensor is a buffer too."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = torch.nn.Conv1d(1, 2, 3)
        self.histories = [torch.zeros(1, 1, 2)]
        self.register_buffer("history", self.histories[0], persistent=False)

    def forward(self, samples: Any) -> Any:
        joined = torch.cat([self.histories[0], samples], 2)
        self.histories[0].copy_(joined[:, :, -2:])
        return self.filter(joined)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("home"))


def seeded(kind: type[Any]) -> Any:
    torch.manual_seed(0)
    return kind().eval()


def test_calls_change_buffers_and_inputs_as_in_torch(settings: Settings) -> None:
    model, scale = seeded(Decoder), torch.full((WIDTH,), 8.0)
    compiled = tunefarm.torch.compile(model, (torch.rand(1, WIDTH), scale), target="host:1", settings=settings)
    manifest = compiled.compiled.manifest
    assert manifest.verified is not None
    assert manifest.verified.reference == "framework"
    assert torch.equal(scale, torch.full((WIDTH,), 8.0))
    reference, same_scale = copy.deepcopy(model), scale.clone()
    with torch.no_grad():
        for _ in range(4):
            token = torch.rand(1, WIDTH)
            torch.testing.assert_close(compiled(token, scale), reference(token, same_scale), rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(scale, same_scale)
            torch.testing.assert_close(compiled.buffers, dict(reference.named_buffers()), rtol=1e-5, atol=1e-6)
    assert int(model.position) == 0
    assert [each.inputs for each in manifest.updated_inputs] == [("b_cache",)]
    cache = compiled.buffers["cache"]
    compiled(token, scale)
    assert compiled.buffers["cache"] is cache

    compiled.reset()

    torch.testing.assert_close(compiled.buffers, dict(model.named_buffers()))
    with torch.no_grad():
        expected = copy.deepcopy(model)(token, scale.clone())
    torch.testing.assert_close(compiled(token, scale), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("halves", [False, True])
def test_buffer_that_the_module_writes_under_another_name_is_one_buffer(settings: Settings, halves: bool) -> None:
    model, samples = seeded(Streaming), torch.rand(1, 1, 12)
    if halves:
        model, samples = seeded(Streaming).half(), samples.half()
        model.histories[0] = model.history  # .half() replaced it
    compiled = tunefarm.torch.compile(model, (samples[:, :, :4],), target="host:1", settings=settings)

    found = torch.cat([compiled(part) for part in samples.split(4, 2)], 2)

    assert list(compiled.buffers) == ["history"]
    with torch.no_grad():
        expected = model.filter(torch.nn.functional.pad(samples, (2, 0)))
    torch.testing.assert_close(found, expected, rtol=1e-2 if halves else 1e-5, atol=1e-3 if halves else 1e-6)


def test_file_has_its_state_as_further_inputs_and_results(settings: Settings, tmp_path: Path) -> None:
    model, path = seeded(Decoder), tmp_path / "decoder.pt2"
    token, scale = torch.rand(1, WIDTH), torch.full((WIDTH,), 8.0)
    with torch.no_grad():
        torch.export.save(torch.export.export(model, (token, scale.clone())), path)
    compiled = tunefarm.compile(path, target="host:1", settings=settings)
    entry = compiled.entry()
    assert [each.name for each in entry.inputs] == ["token", "scale", "b_cache", "b_position", "b_sums_inputs"]
    buffers = dict(model.named_buffers())
    given = (token, scale, *(buffers[name] for name in ("cache", "position", "sums.inputs")))
    results = compiled(*(each.numpy().copy() for each in given))

    with torch.no_grad():
        expected = list(model(token, scale).values())
    for found, wanted in zip(results, [*expected, *given[2:], scale], strict=True):
        torch.testing.assert_close(torch.from_numpy(found.copy()), wanted, rtol=1e-5, atol=1e-6)


class Remembering(torch.nn.Module):  # type: ignore[misc]
    """Averages the rows that were given so far, weighted by likeness."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(1, 64, 16))

    def forward(self, rows: Any, positions: Any) -> Any:
        self.rows.index_copy_(1, positions, rows)
        is_known = torch.arange(64)[None, None] <= positions[None, :, None]
        scores = torch.where(is_known, rows @ self.rows.transpose(1, 2), torch.finfo(torch.float32).min)
        return scores.softmax(-1) @ self.rows


def test_pieces_of_several_sizes_share_their_state(settings: Settings) -> None:
    model, sizes = seeded(Remembering), {"rows": {1: [1, 4]}, "positions": {0: [1, 4]}}
    example = (torch.rand(1, 4, 16), torch.arange(4))
    compiled = tunefarm.torch.compile(
        model, example, target="host:1", dynamic=sizes, exact_buckets=True, settings=settings
    )
    updates = {each.entry: each.inputs for each in compiled.compiled.manifest.updated_inputs}
    assert updates == dict.fromkeys(compiled.compiled.entries, ("b_rows",))
    reference, given = copy.deepcopy(model), torch.rand(1, 10, 16)
    for places in torch.arange(10).split([4, 1, 1, 4]):
        rows = given[:, places]
        torch.testing.assert_close(compiled(rows, places), reference(rows, places), rtol=1e-5, atol=1e-6)
    with pytest.raises(BadInput, match="size"):
        compiled(given[:, :3], torch.arange(3))


def test_bfloat16_state_in_arrays_is_updated_in_place(settings: Settings, tmp_path: Path) -> None:
    model, path = seeded(Remembering).bfloat16(), tmp_path / "remembering.pt2"
    rows, places = torch.rand(1, 1, 16).bfloat16(), torch.tensor([3])
    torch.export.save(torch.export.export(model, (rows, places)), path)
    compiled = tunefarm.compile(path, target="host:1", update_in_place=True, settings=settings)
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    given = rows.view(torch.uint16).numpy().view(bfloat16)
    state = aligned_copy(np.zeros((1, 64, 16), bfloat16))

    found, updated = compiled(given, places.numpy(), state)

    assert updated is state
    np.testing.assert_array_equal(state[:, 3], given[:, 0])
    with torch.no_grad():
        expected = model(rows, places)
    np.testing.assert_allclose(found.astype(np.float32), expected.float().numpy(), rtol=1e-2, atol=1e-3)
    assert found.dtype == bfloat16


def test_state_does_not_depend_on_the_number_of_rows(settings: Settings) -> None:
    class Totals(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(WIDTH))

        def forward(self, rows: Any) -> Any:
            self.total.add_(1)
            return rows * self.total

    model = Totals().eval()
    sizes = {"rows": {0: [2, 8]}}
    compiled = tunefarm.torch.compile(model, (torch.rand(8, WIDTH),), target="host:1", dynamic=sizes, settings=settings)
    for count in (2, 5, 8):
        rows = torch.rand(count, WIDTH)
        torch.testing.assert_close(compiled(rows), model(rows), rtol=1e-5, atol=1e-6)
