"""Modules of torch as compiled models: results equal torch's, tensors are not copied."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm
from tunefarm.artifact.aligned_memory import aligned_copy
from tunefarm.frontend.model_import import import_model
from tunefarm.frontend.model_source import parse_model_source
from tunefarm.model.compilation import ModelCompiler
from tunefarm.model.model_writing import copy_model
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings

torch = pytest.importorskip("torch")
pytree = pytest.importorskip("torch.utils._pytree")
pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("home"))


class Classifier(torch.nn.Module):  # type: ignore[misc]
    """An MLP for images of 28 by 28 in ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(784, 128)
        self.scores = torch.nn.Linear(128, 10)

    def forward(self, images: Any) -> Any:
        return self.scores(torch.relu(self.hidden(images.flatten(1))))


class Several(torch.nn.Module):  # type: ignore[misc]
    """A nested result."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)

    def forward(self, images: Any, factor: Any) -> Any:
        features = torch.relu(self.norm(self.convolution(images)))
        return {"features": features, "sums": (features.sum((2, 3)), factor * 2)}


def test_torch_compile_predicts_what_torch_predicts(settings: Settings) -> None:
    torch.manual_seed(0)
    model, images = Classifier(), torch.rand(64, 1, 28, 28)
    compiled = tunefarm.torch.compile(model, (images,), target="host:1", settings=settings)
    manifest = compiled.compiled.manifest
    assert manifest.verified is not None
    assert manifest.verified.reference == "framework"
    with torch.no_grad():
        for _ in range(3):
            images = torch.rand(64, 1, 28, 28)
            expected, found = model(images), compiled(images)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
            assert torch.equal(found.argmax(1), expected.argmax(1))


def test_torch_compile_keeps_the_nesting_of_results_and_the_mode(settings: Settings) -> None:
    torch.manual_seed(0)
    model, arguments = Several().train(), (torch.rand(1, 3, 16, 16), torch.rand(5))
    compiled = tunefarm.torch.compile(model, arguments, target="host:1", settings=settings)
    assert model.training
    with torch.no_grad():
        expected = model.eval()(*arguments)
    torch.testing.assert_close(compiled(*arguments), expected, rtol=1e-4, atol=1e-5)
    # A view that begins elsewhere, and a transposed one
    shifted = torch.rand(3 * 16 * 16 + 1)[1:].reshape(1, 3, 16, 16)
    transposed = torch.rand(1, 3, 16, 16).transpose(2, 3)
    for images in (shifted, transposed):
        with torch.no_grad():
            expected = model(images, arguments[1])
        torch.testing.assert_close(compiled(images, arguments[1]), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(BadInput, match=r"float32\[1, 3, 16, 16\]"):
        compiled(arguments[0].double(), arguments[1])
    with pytest.raises(BadInput, match="1 tensors were given"):
        compiled(arguments[0])


def peak_bytes() -> int:
    """The largest resident memory of this process since it was last reset."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def test_tensors_are_not_copied(settings: Settings) -> None:
    class Sum(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    numbers = torch.rand(16, 1024, 1024)
    tensor_bytes = numbers.numel() * numbers.element_size()
    compiled = tunefarm.torch.compile(Sum(), (numbers, numbers), target="host:1", settings=settings)
    compiled(numbers, numbers)  # loads the program
    before = numbers.data_ptr(), int(numbers.sum())
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    began_bytes = peak_bytes()
    result = compiled(numbers, numbers)
    assert torch.equal(result, numbers + numbers)
    assert before == (numbers.data_ptr(), int(numbers.sum()))
    # The result, and torch's sum of it to compare with: neither arguments nor the result exist twice.
    assert peak_bytes() - began_bytes < 2.5 * tensor_bytes


class Elementary(torch.nn.Module):  # type: ignore[misc]
    """Functions of single elements, of three types."""

    def forward(self, x: Any) -> Any:
        of_one = (torch.sinh, torch.cosh, torch.tan, torch.atan, torch.asinh, lambda y: torch.pow(y.abs(), 0.45))
        of_two = (torch.atan2, torch.pow)
        others = (torch.sinh(x.double()), torch.cosh(x.half()))
        return *(each(x) for each in of_one), *(each(x.abs(), x + 1) for each in of_two), *others


def test_elementary_functions_are_those_of_torch(settings: Settings) -> None:
    torch.manual_seed(0)
    model, numbers = Elementary(), torch.randn(8, 32)
    compiled = tunefarm.torch.compile(model, (numbers,), target="host:1", settings=settings)
    for found, expected in zip(compiled(numbers), model(numbers), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3 if found.dtype == torch.float16 else 1e-6, atol=0)


def test_named_results_keep_their_names(settings: Settings) -> None:
    class Highest(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> Any:
            return x.topk(50)

    scores = torch.rand(2, 1000)
    compiled = tunefarm.torch.compile(Highest(), (scores,), target="host:1", settings=settings)
    found, expected = compiled(scores), scores.topk(50)
    assert torch.equal(found.values, expected.values)
    assert torch.equal(found.indices, expected.indices)


class Unusual(torch.nn.Module):  # type: ignore[misc]
    """Results that are inputs, buffers, equal or none."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Linear(4, 4)
        self.register_buffer("grid", torch.arange(4.0))

    def forward(self, pair: dict[str, Any], mask: Any = None) -> Any:
        total = self.scale(pair["x"]) - pair["y"]
        return {
            "total": total,
            "cache": mask,
            "x": pair["x"].clone(),
            "grid": self.grid.clone(),
            "again": total.clone(),
        }


def test_torch_results_are_memory_of_their_own_and_have_the_structure_of_the_module(settings: Settings) -> None:
    torch.manual_seed(0)
    model = Unusual().eval()
    x, y = torch.rand(3, 4), torch.rand(3, 4)
    compiled = tunefarm.torch.compile(model, ({"x": x, "y": y}, None), target="host:1", settings=settings)
    with torch.no_grad():
        expected = model({"x": x, "y": y})
    for _ in range(3):
        found = compiled({"y": y, "x": x}, None)  # in another order
        torch.testing.assert_close(found, expected)
        assert found["cache"] is None
        found["x"].zero_()
        found["grid"].zero_()
        found["total"].zero_()
        torch.testing.assert_close(found["again"], expected["again"])
        assert x.abs().max() > 0
    with pytest.raises(BadInput, match="another structure"):
        compiled({"y": y}, None)
    with pytest.raises(BadInput, match="was None at the export"):
        compiled({"x": x, "y": y}, 3)
    with pytest.raises(BadInput, match="another structure"):
        compiled({"x": [x], "y": 2.0}, None)


def test_array_results_are_memory_of_their_own(settings: Settings) -> None:
    model = Unusual().eval()
    compiled = tunefarm.torch.compile(
        model, ({"x": torch.rand(3, 4), "y": torch.rand(3, 4)}, None), target="host:1", settings=settings
    ).compiled
    arrays = [aligned_copy(np.full((3, 4), 2, np.float32)) for _ in range(2)]
    expected = [each.copy() for each in compiled(*arrays)]
    for _ in range(3):
        found = compiled(*arrays)
        held = compiled(*arrays)
        for number in range(len(found)):
            for one, right in zip([*found[number:], *held], [*expected[number:], *expected], strict=True):
                np.testing.assert_array_equal(one, right)
            found[number].fill(7)
        for one, right in zip(held, expected, strict=True):
            np.testing.assert_array_equal(one, right)
    assert all((array == 2).all() for array in arrays)


def test_torch_callables_serve_several_threads(settings: Settings) -> None:
    torch.manual_seed(0)
    model = Classifier().eval()
    compiled = tunefarm.torch.compile(model, (torch.rand(8, 784),), target="host:1", settings=settings)
    given = [torch.rand(8, 784) for _ in range(64)]
    with ThreadPoolExecutor(4) as pool, torch.no_grad():
        for found, images in zip(pool.map(compiled, given), given, strict=True):
            torch.testing.assert_close(found, model(images), rtol=1e-4, atol=1e-5)


def test_parts_of_a_module_keep_their_mode(settings: Settings) -> None:
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)).train()
    model[0].eval()
    tunefarm.torch.compile(model, (torch.zeros(2, 4),), target="host:1", settings=settings)
    assert [each.training for each in (model, *model)] == [True, False, True]


def test_a_copied_model_replaces_another_one_that_stays_loaded(settings: Settings, tmp_path: Path) -> None:
    torch.manual_seed(0)
    folders, models, x = [], [], torch.rand(2, 784)
    for name in ("first", "second"):
        models.append(Classifier().eval())
        folders.append(tmp_path / name)
        tunefarm.compile(models[-1], (x,), "host:1", output=folders[-1], settings=settings)
    place = copy_model(folders[0], tmp_path / "place")
    loaded = tunefarm.load_model(place)
    assert copy_model(folders[1], place) == copy_model(place, place) == place
    with torch.no_grad():
        np.testing.assert_allclose(loaded(x.numpy()), models[0](x).numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(tunefarm.load_model(place)(x.numpy()), models[1](x).numpy(), rtol=1e-4, atol=1e-5)


def test_compile_reads_exported_programs(settings: Settings, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, images = Classifier().eval(), torch.rand(2, 1, 28, 28)
    torch.export.save(torch.export.export(model, (images,)), tmp_path / "classifier.pt2")
    folder = tmp_path / "compiled"
    compiled = tunefarm.compile(tmp_path / "classifier.pt2", output=folder, target="host:1", settings=settings)
    with torch.no_grad():
        expected = model(images).numpy()
    for loaded in (compiled, tunefarm.load_model(folder)):
        found = loaded(images.numpy())
        found = found[0] if isinstance(found, tuple) else found
        torch.testing.assert_close(torch.from_numpy(found), torch.from_numpy(expected), rtol=1e-4, atol=1e-5)


TRACED = '''
import torch


class FusedMultiplyAdd(torch.nn.Module):
    """A product and a sum, and a dense layer: torch.fx records them as calls, which are fused to two functions."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.dense = torch.nn.Linear(64, 32)

    def forward(self, x, y, z):
        return torch.relu(self.dense(x * y + z))


net = FusedMultiplyAdd()
example_inputs = tuple(torch.zeros(8, 64) for _ in range(3))
'''


class ScaledBytes(torch.Tensor):  # type: ignore[misc]
    """Bytes times a number, in the form in which packages for quantization keep weights."""

    @staticmethod
    def __new__(cls, values: Any, scale: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=scale.dtype)

    def __init__(self, values: Any, scale: Any) -> None:
        self.bytes, self.scale = values, scale

    def __tensor_flatten__(self) -> Any:
        return ["bytes", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, tensors: Any, _context: Any, _size: Any, _stride: Any) -> Any:
        return cls(tensors["bytes"], tensors["scale"])

    @classmethod
    def __torch_dispatch__(cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten.detach.default:
            return cls(args[0].bytes.detach(), args[0].scale.detach())
        plain = pytree.tree_map_only(cls, lambda each: each.bytes * each.scale, args)
        return function(*plain, **(kwargs or {}))


def test_weights_of_quantized_classes_are_tensors_of_the_model(settings: Settings) -> None:
    torch.manual_seed(0)
    model, images = Classifier().eval(), torch.rand(4, 1, 28, 28)
    values = torch.randint(-128, 128, model.hidden.weight.shape, dtype=torch.int8)
    weight = ScaledBytes(values, torch.full((128, 1), 0.001))
    model.hidden.weight = torch.nn.Parameter(weight, requires_grad=False)
    compiled = tunefarm.torch.compile(model, (images,), target="host:1", settings=settings)
    with torch.no_grad():
        torch.testing.assert_close(compiled(images), model(images), rtol=1e-4, atol=1e-5)


def test_modules_that_were_exported_before_compile(settings: Settings) -> None:
    torch.manual_seed(0)
    model, images = Classifier().eval(), torch.rand(4, 1, 28, 28)
    exported = torch.export.export(model, (images,)).module()  # refuses eval()
    compiled = tunefarm.torch.compile(exported, (images,), target="host:1", settings=settings)
    with torch.no_grad():
        torch.testing.assert_close(compiled(images), model(images), rtol=1e-4, atol=1e-5)


def test_products_of_bytes_are_those_of_torch(settings: Settings) -> None:
    class Products(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weights", torch.randint(-128, 128, (32, 48), dtype=torch.int8))

        def forward(self, rows: Any, columns: Any) -> Any:
            return torch._int_mm(rows, self.weights.t()), torch._int_mm(rows, columns)

    torch.manual_seed(0)
    model = Products().eval()
    rows, columns = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((24, 48), (48, 16)))
    compiled = tunefarm.torch.compile(model, (rows, columns), target="host:1", settings=settings)
    for found, expected in zip(compiled(rows, columns), model(rows, columns), strict=True):
        assert torch.equal(found, expected)


def test_compile_fuses_traced_operators(fork_server: ForkServer, tmp_path: Path) -> None:
    file = tmp_path / "traced.py"
    file.write_text(TRACED)
    imported = import_model(fork_server, parse_model_source(f"{file}:net"), traced=True)
    compilation = ModelCompiler(fork_server, tmp_path / "compiled").compile(imported, "host:1", "traced")
    names = sorted(function.name for function in compilation.manifest.functions)
    assert len(names) == 2, names
    assert "multiply" in names[1]
    assert "add" in names[1]
    assert all(word in names[0] for word in ("matmul", "add", "relu"))
    model = tunefarm.load_model(tmp_path / "compiled")
    inputs = [torch.rand(8, 64) for _ in range(3)]
    torch.manual_seed(0)
    dense = torch.nn.Linear(64, 32)
    with torch.no_grad():
        expected = torch.relu(dense(inputs[0] * inputs[1] + inputs[2]))
    found = model(*(each.numpy() for each in inputs))
    found = found[0] if isinstance(found, tuple) else found
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-4, atol=1e-5)


class Deep(torch.nn.Module):  # type: ignore[misc]
    """Layers that make the rounding of the first ones larger."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(24))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = torch.sin(3 * layer(x))
        return x


def test_rounding_of_halves_that_networks_add_up_is_that_of_the_framework(settings: Settings) -> None:
    torch.manual_seed(0)
    model, x = Deep().bfloat16(), torch.randn(4, 64).bfloat16()
    exact = Deep()
    exact.load_state_dict(model.state_dict())
    compiled = tunefarm.torch.compile(model, (x,), target="host:1", settings=settings)
    with torch.no_grad():
        expected = exact.float()(x.float())
        of_torch, found = ((each.float() - expected).square().mean() for each in (model(x), compiled(x)))
    assert found < 2 * of_torch
