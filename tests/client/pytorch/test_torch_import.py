"""Models of torch, read from files in a real confined child."""

import io
import pickle
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.client.pytorch.running import Of, imported
from tunefarm.frontend.model_import import ImportedModel, import_model
from tunefarm.frontend.model_source import parse_model_source
from tunefarm.frontend.pytorch.torch_model import import_torch
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_search.tvm.serialization import load_json

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")]

NET = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense = nn.Linear(8, 4)
            torch.nn.init.constant_(self.dense.weight, 0.5)

        def forward(self, x):
            return self.dense(x).relu()

    net = Net().eval()
    example_inputs = (torch.zeros(2, 8),)
    program = torch.export.export(net, example_inputs)

    def made():
        return Net().eval(), (torch.zeros(3, 8),)

    def lacking(x):
        return Net()

    class Unsupported(nn.Module):
        def forward(self, x):
            return torch.fft.rfft(x).tanh().abs(), x + torch.rand_like(x)

    unsupported = Unsupported().eval()

    class Masking(nn.Module):
        def forward(self, x):
            return x[x > 0]

    masking = Masking().eval()

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls.add_(1)
            return x.mul_(2) + self.calls

    counting = Counting().eval()

    class Keeping(nn.Module):
        def __init__(self):
            super().__init__()
            self.total = torch.zeros(8)

        def forward(self, x):
            return self.total.add_(x.sum(0)) * 2

    keeping = Keeping().eval()

    class Turning(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("phase", torch.ones(2, 8, dtype=torch.complex64))

        def forward(self, x):
            self.phase.mul_(torch.complex(x, x))
            return self.phase.real * 2

    turning = Turning().eval()

    class Deciding(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x

    deciding = Deciding().eval()
    on_meta = Net().eval().to("meta")
    number = 3

    class Extending(nn.Module):
        def forward(self, x):
            return x @ x.T

    dynamic = torch.export.export(
        Extending(), (torch.zeros(3, 8),), dynamic_shapes={"x": {0: torch.export.Dim("n", min=2, max=64)}}
    )
"""

Read = Callable[..., ImportedModel]


@pytest.fixture
def read(fork_server: ForkServer, tmp_path: Path) -> Read:
    (tmp_path / "net.py").write_text(textwrap.dedent(NET))

    def reading(text: str, **sizes: tuple[int, ...]) -> ImportedModel:
        return import_model(fork_server, parse_model_source(str(tmp_path / text)), sizes)

    return reading


def shapes_of(model: ImportedModel) -> list[tuple[int, ...]]:
    return [tuple(map(int, each.ty.shape)) for each in load_json(model.module_json)["main"].params]


@pytest.mark.parametrize(("name", "batch"), [("net", 2), ("program", 2), ("made", 3)])
def test_python_files_give_modules_programs_and_functions(read: Read, name: str, batch: int) -> None:
    model = read(f"net.py:{name}")

    assert shapes_of(model) == [(batch, 8), (4, 8), (4,)]
    np.testing.assert_array_equal(model.weights["main"][0], np.full((4, 8), 0.5, np.float32))
    assert model.framework.startswith("torch 2.")


def test_references_hold_what_torch_computes_for_three_inputs(read: Read) -> None:
    model = read("net.py:net")

    weight, bias = model.weights["main"]
    assert len({each.inputs[0].tobytes() for each in model.references}) == 3
    for reference in model.references:
        expected = np.maximum(reference.inputs[0] @ weight.T + bias, 0)
        np.testing.assert_allclose(reference.outputs[0], expected, atol=1e-5)


def test_sizes_replace_those_of_example_inputs(read: Read) -> None:
    assert shapes_of(read("net.py:net", x=(5, 8)))[0] == (5, 8)


def test_dynamic_dimensions_take_the_given_size(read: Read) -> None:
    model = read("net.py:dynamic", x=(7, 8))

    assert shapes_of(model) == [(7, 8)]
    assert model.notes == ("x was fixed at (7, 8).",)


def test_changed_buffers_and_inputs_are_inputs_and_results(read: Read) -> None:
    model = read("net.py:counting")

    assert shapes_of(model) == [(2, 8), (1,)]
    assert model.weights["main"] == ()
    assert "further results: b_calls (calls)." in model.notes[0]
    assert "changes its inputs. Their new values are further results: x." in model.notes[1]
    for reference in model.references:
        x, calls = reference.inputs
        np.testing.assert_allclose(reference.outputs[0], x * 2 + calls + 1, rtol=1e-6)
        np.testing.assert_allclose(reference.outputs[1], calls + 1)
        np.testing.assert_allclose(reference.outputs[2], x * 2)


def saved(path: Path) -> Path:
    torch.manual_seed(0)
    torch.export.save(torch.export.export(nn.Linear(8, 4).eval(), (torch.zeros(2, 8),)), path)
    return path


def test_pt2_file_gives_its_weights(read: Read, tmp_path: Path) -> None:
    path = saved(tmp_path / "model.pt2")

    model = read("model.pt2")

    weight = torch.export.load(path).state_dict["weight"].detach()
    np.testing.assert_array_equal(model.weights["main"][0], weight.numpy())


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("unsupported", "2 nodes have no conversion to Relax"),
        ("masking", "1 node has no conversion to Relax: aten::"),
        ("keeping", "changes a tensor that is not a buffer: .* total is mutated"),
        ("turning", "changes phase, which has complex numbers"),
        ("deciding", "Could not guard on data-dependent expression"),
        ("on_meta", "have no contents: dense.weight, dense.bias"),
        ("dynamic", "inputs have dynamic dimensions: x "),
        ("lacking", "requires the arguments x"),
        ("number", "is a int, which is not a model"),
    ],
)
def test_modules_that_cannot_be_converted_are_rejected(read: Read, name: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem) as refused:
        read(f"net.py:{name}")

    assert refused.value.fix


def test_unsupported_operators_are_named_with_node_shape_and_advice(read: Read) -> None:
    with pytest.raises(BadInput) as refused:
        read("net.py:unsupported")

    assert "aten::tanh.default at tanh (complex64[2, 5])" in refused.value.problem
    assert "rand_like" in refused.value.problem
    assert "real and the imaginary parts" in refused.value.fix


@pytest.mark.parametrize(
    ("name", "sizes", "problem"),
    [
        ("dynamic", {"x": (7, 9)}, "does not fit"),
        ("dynamic", {"x": (0, 8)}, "does not fit"),
        ("dynamic", {"x": (100, 8)}, "cannot have these sizes"),
        ("dynamic", {"y": (7, 8)}, "no input y"),
        ("net", {"y": (7, 8)}, "no input y"),
        ("program", {"x": (3, 8)}, "does not fit"),
    ],
)
def test_sizes_that_a_model_cannot_have_are_rejected(
    read: Read, name: str, sizes: dict[str, tuple[int, ...]], problem: str
) -> None:
    with pytest.raises(BadInput, match=problem):
        read(f"net.py:{name}", **sizes)


def test_truncated_pt2_file_is_rejected(read: Read, tmp_path: Path) -> None:
    path = saved(tmp_path / "model.pt2")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    with pytest.raises(BadInput, match="truncated"):
        read("model.pt2")


def replaced(path: Path, suffix: str, content: bytes | None) -> None:
    """Write the archive again with other content of one member, or without it."""
    with zipfile.ZipFile(path) as archive:
        members = {each.filename: archive.read(each) for each in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, held in members.items():
            if not name.endswith(suffix):
                archive.writestr(name, held)
            elif content is not None:
                archive.writestr(name, content)


def test_pt2_file_without_weights_is_rejected(read: Read, tmp_path: Path) -> None:
    replaced(saved(tmp_path / "model.pt2"), "weights/weight_0", None)

    with pytest.raises(BadInput, match=r"cannot load model\.pt2"):
        read("model.pt2")


class Executed:
    def __reduce__(self) -> tuple[object, ...]:
        return print, ("the pickle was executed",)


def test_pickle_in_the_sample_inputs_is_not_executed(read: Read, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(((Executed(),), {}), buffer)
    replaced(saved(tmp_path / "model.pt2"), "sample_inputs/model.pt", buffer.getvalue())

    with pytest.raises(BadInput, match="cannot load") as refused:
        read("model.pt2")

    assert "the pickle was executed" not in str(refused.value)


def test_bare_pickle_is_rejected(read: Read, tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_bytes(pickle.dumps(Executed()))

    with pytest.raises(BadInput, match=r"not a \.pt2 archive"):
        read("model.pt2")


def test_references_repeat_the_examples_where_sizes_are_given() -> None:
    """Zeros would test one row of a table only, and mask everything."""

    class Embedding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(50, 4)

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.table(ids).masked_fill(~mask[..., None], -1.0)

    ids, mask = torch.tensor([[7, 49, 3]]), torch.tensor([[True, True, False]])
    dynamic = {"ids": {1: torch.export.Dim("length", max=64)}, "mask": {1: torch.export.Dim("length", max=64)}}
    program = torch.export.export(Embedding(), (ids, mask), dynamic_shapes=dynamic)
    model = import_torch(program, None, {"ids": (1, 8), "mask": (1, 8)}, {}, traced=False)
    assert max(int(each.inputs[0].max()) for each in model.references) > 7
    assert all(each.inputs[1].any() for each in model.references)


def test_references_are_of_the_examples_where_torch_refuses_other_inputs() -> None:
    class Heights(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(8, 4)

        def forward(self, boxes: torch.Tensor) -> torch.Tensor:
            return self.table(boxes[:, 1] - boxes[:, 0])

    boxes = torch.tensor([[0, 7], [3, 5], [1, 2]])

    [reference] = imported(Heights().eval(), (boxes,)).references

    np.testing.assert_array_equal(reference.inputs[0], boxes.numpy())


class Cache:
    """What a module may return that is no tensor."""


@pytest.mark.parametrize(
    ("function", "fix"),
    [
        (lambda x: (x, Cache()), "use_cache = False"),
        (lambda x: x if x.sum() > 0 else -x, "torch.where"),
        (lambda x: x.undefined, "have it traced"),
    ],
    ids=["another type", "a condition", "an error"],
)
def test_module_that_cannot_be_exported_is_refused_with_what_helps(function: Any, fix: str) -> None:
    with pytest.raises(BadInput, match=r"torch\.export cannot export the module") as refused:
        import_torch(Of(function), (torch.randn(3),), {}, {}, traced=False)
    assert fix in refused.value.fix
