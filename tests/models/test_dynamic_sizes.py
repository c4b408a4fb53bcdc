"""Models with dynamic dimensions give their framework's results for every size that they serve."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [
    pytest.mark.models,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

torch = pytest.importorskip("torch")

import tunefarm  # noqa: E402
from tunefarm_schemas.bad_input import BadInput  # noqa: E402
from tunefarm_services.settings import Settings  # noqa: E402

FILE = """
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.ReLU(), torch.nn.Linear(40, 10))
example_inputs = (torch.zeros(1, 24),)
"""


class ConvolutionalNetwork(torch.nn.Module):  # type: ignore[misc]
    """Two convolutions, a pooling and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.second = torch.nn.Conv2d(8, 8, 3, stride=2)
        self.scores = torch.nn.Linear(8, 5)

    def forward(self, images: Any) -> Any:
        features = self.second(torch.relu(self.norm(self.first(images))))
        return self.scores(features.mean((2, 3))), features


class Encoder(torch.nn.Module):  # type: ignore[misc]
    """An embedding and a layer of attention over the positions that a mask has."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 16)
        self.projection = torch.nn.Linear(16, 48)
        self.output = torch.nn.Linear(16, 16)
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, ids: Any, mask: Any) -> Any:
        hidden = self.embedding(ids)
        query, key, value = self.projection(hidden).split(16, dim=-1)
        scores = query @ key.transpose(-1, -2) / 4 + (1.0 - mask[:, None, :]) * -1e9
        return self.norm(hidden + self.output(torch.softmax(scores, -1) @ value))


class MeanOfPositions(torch.nn.Module):  # type: ignore[misc]
    """Every position changes the result."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = torch.nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        return self.scores(x).mean(1)


class ScaledByLength(torch.nn.Module):  # type: ignore[misc]
    """The contents of other positions do not change a result, but their number does."""

    def forward(self, x: Any) -> Any:
        return torch.relu(x) / x.shape[1]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("home"))


def _close(found: Any, expected: Any) -> None:
    found = found if isinstance(found, tuple) else (found,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(one), other, rtol=1e-4, atol=1e-5)


def _exported(module: Any, inputs: Any, shapes: Any, path: Path) -> Path:
    torch.export.save(torch.export.export(module.eval(), inputs, dynamic_shapes=shapes), path)
    return path


@pytest.fixture(scope="module")
def perceptron(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> tuple[Any, Path]:
    """The module, and the folder of it for 1, 4 and 6 rows."""
    folder = tmp_path_factory.mktemp("perceptron")
    file = folder / "perceptron.py"
    file.write_text(FILE)
    tunefarm.compile(
        f"{file}:net", buckets=["input.0=1,4,6"], output=folder / "model", target="host:1", settings=settings
    )
    definitions: dict[str, Any] = {}
    exec(FILE, definitions)
    return definitions["net"], folder / "model"


def test_a_perceptron_serves_every_number_of_rows(perceptron: tuple[Any, Path]) -> None:
    module, folder = perceptron
    model = tunefarm.load_model(folder)
    with torch.no_grad():
        for rows in range(1, 21):  # those above 6 are split
            images = torch.rand(rows, 24)
            _close(model(images.numpy()), (module(images),))
    dynamic = model.manifest.dynamic
    assert dynamic is not None
    assert dynamic.dimensions[0].is_splittable
    assert dynamic.dimensions[0].regret is None
    with pytest.raises(BadInput, match=r"input.0, 24"):
        model(np.zeros((2, 23), "float32"))


def test_buckets_share_their_weights(perceptron: tuple[Any, Path]) -> None:
    manifest = tunefarm.load_model(perceptron[1]).manifest
    assert len({each.weights for each in manifest.entry_weights}) == 1
    assert (perceptron[1] / "weights.safetensors").stat().st_size < 2 * 4 * (24 * 40 + 40 * 10)


def test_a_damaged_manifest_is_refused(perceptron: tuple[Any, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(perceptron[1], tmp_path / "model"))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["dynamic"]["buckets"][0]["entry"] = "main@6"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadInput, match="manifest is damaged"):
        tunefarm.load_model(folder)


def test_torch_compile_chooses_buckets_of_a_range(settings: Settings) -> None:
    torch.manual_seed(0)
    module = ConvolutionalNetwork().eval()
    compiled = tunefarm.torch.compile(
        module,
        (torch.zeros(1, 3, 9, 9),),
        dynamic={"images": {0: (1, 7)}},
        max_buckets=2,
        target="host:1",
        settings=settings,
    )
    dynamic = compiled.compiled.manifest.dynamic
    assert dynamic is not None
    assert dynamic.dimensions[0].sizes[-1] == 7
    assert len(dynamic.dimensions[0].sizes) <= 2
    assert dynamic.dimensions[0].regret is not None
    with torch.no_grad():
        for rows in range(1, 16):
            images = torch.rand(rows, 3, 9, 9)
            _close(compiled(images), module(images))


def test_a_cache_that_grows_serves_exact_sizes(tmp_path: Path, settings: Settings) -> None:
    """The mask of such decoders has ``past + length`` columns."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Concat", ["cache", "x"], ["present"], axis=1),
        helper.make_node("MatMul", ["mask", "present"], ["y"]),
    ]
    shapes = {"cache": (1, "past", 4), "x": (1, "length", 4), "mask": ("length", "past + length")}
    inputs = [helper.make_tensor_value_info(name, kind, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info(name, kind, None) for name in ("y", "present")]
    model = helper.make_model(helper.make_graph(nodes, "decoder", inputs, outputs), ir_version=8)
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", 17))
    onnx.save(model, tmp_path / "decoder.onnx")
    compiled = tunefarm.compile(
        tmp_path / "decoder.onnx",
        buckets=["past=8", "length=1,3"],
        exact_buckets=True,
        target="host:1",
        settings=settings,
    )
    generator = np.random.default_rng(0)
    cache = generator.standard_normal((1, 8, 4)).astype("float32")
    for length in (3, 1, 1):
        x, mask = generator.standard_normal((1, length, 4)), generator.standard_normal((length, 8 + length))
        y, present = compiled(cache, x.astype("float32"), mask.astype("float32"))
        np.testing.assert_array_equal(present, np.concatenate([cache, x.astype("float32")], axis=1))
        np.testing.assert_allclose(y, mask.astype("float32") @ present, rtol=1e-5, atol=1e-5)
        cache = present[:, length:]
    with pytest.raises(BadInput, match=r"mask is float32\[1, 8\]. Give float32\[1, 9\]"):
        compiled(cache, np.zeros((1, 1, 4), "float32"), np.zeros((1, 8), "float32"))


def test_onnx_dimensions_have_their_names(tmp_path: Path, settings: Settings) -> None:
    pytest.importorskip("onnx")
    torch.manual_seed(0)
    module, path = ConvolutionalNetwork().eval(), tmp_path / "network.onnx"
    example = (torch.zeros(2, 3, 9, 9),)
    torch.onnx.export(module, example, path, dynamo=False, input_names=["images"], dynamic_axes={"images": {0: "rows"}})
    model = tunefarm.compile(path, buckets=["rows=3,5"], target="host:1", settings=settings)
    with torch.no_grad():
        for rows in range(1, 12):
            images = torch.rand(rows, 3, 9, 9)
            _close(model(images=images.numpy()), module(images))
    with pytest.raises(BadInput, match="no dimension 'columns'"):
        tunefarm.compile(path, buckets=["columns=3,5"], target="host:1", settings=settings)
    with pytest.raises(BadInput, match=r"axis 1 of images .* is constant"):
        tunefarm.compile(path, buckets=["images.1=3,5"], target="host:1", settings=settings)


def test_jax_dimensions_have_their_names(tmp_path: Path, settings: Settings) -> None:
    jax = pytest.importorskip("jax")
    weights = np.random.default_rng(0).standard_normal((12, 7)).astype("float32")
    path = tmp_path / "dense.jax"
    (rows,) = jax.export.symbolic_shape("rows")
    dense = jax.jit(lambda x: jax.numpy.tanh(x @ weights))
    path.write_bytes(jax.export.export(dense)(jax.ShapeDtypeStruct((rows, 12), "float32")).serialize())
    model = tunefarm.compile(path, buckets=["rows=2,4"], target="host:1", settings=settings)
    for count in range(1, 10):
        x = np.random.default_rng(count).standard_normal((count, 12)).astype("float32")
        np.testing.assert_allclose(model(x), np.tanh(x @ weights), rtol=1e-4, atol=1e-5)


def test_an_encoder_with_a_mask_serves_every_length(tmp_path: Path, settings: Settings) -> None:
    torch.manual_seed(0)
    module = Encoder()
    batch, length = torch.export.Dim("batch", min=1, max=4), torch.export.Dim("length", min=2, max=32)
    example = (torch.zeros(2, 5, dtype=torch.long), torch.ones(2, 5))
    shapes = ({0: batch, 1: length}, {0: batch, 1: length})
    path = _exported(module, example, shapes, tmp_path / "encoder.pt2")
    buckets = ["ids.0=1,2", "ids.1=4,10"]
    with pytest.raises(BadInput, match=r"--exact-buckets.*--pad"):
        tunefarm.compile(path, buckets=buckets, output=tmp_path / "refused", target="host:1", settings=settings)
    assert not (tmp_path / "refused").exists()
    model = tunefarm.compile(path, buckets=buckets, pad={"mask": 0}, target="host:1", settings=settings)
    assert [each.is_splittable for each in model.manifest.dynamic.dimensions] == [True, False]  # type: ignore[union-attr]
    with torch.no_grad():
        for rows in (1, 2, 3):
            for count in range(2, 11):
                ids, mask = torch.randint(50, (rows, count)), torch.ones(rows, count)
                mask[0, count - 1] = 0
                _close(model(ids.numpy(), mask.numpy()), (module(ids, mask),))
    with pytest.raises(BadInput, match=r"ids\.1 is 11"):
        model(np.zeros((1, 11), "int64"), np.ones((1, 11), "float32"))


@pytest.mark.parametrize(
    ("module", "message"), [(MeanOfPositions(), "depend on the padding"), (ScaledByLength(), "those of the exact size")]
)
def test_models_that_depend_on_padding_are_refused(
    module: Any, message: str, tmp_path: Path, settings: Settings
) -> None:
    length = torch.export.Dim("length", min=2, max=32)
    path = _exported(module, (torch.zeros(2, 5, 6),), ({1: length},), tmp_path / "model.pt2")
    with pytest.raises(BadInput, match=message):
        tunefarm.compile(path, buckets=["x.1=4,8"], target="host:1", settings=settings)
    with pytest.raises(BadInput, match=message):
        tunefarm.compile(path, buckets=["x.1=8"], target="host:1", settings=settings)
    model = tunefarm.compile(path, buckets=["x.1=4,8"], exact_buckets=True, target="host:1", settings=settings)
    for count in (4, 8):
        x = torch.rand(2, count, 6)
        with torch.no_grad():
            _close(model(x.numpy()), (module(x),))
    with pytest.raises(BadInput, match="serves exact sizes only"):
        model(np.zeros((2, 5, 6), "float32"))


IMAGES = """
import torch

torch.manual_seed(0)
net = torch.nn.Conv2d(3, 4, 1)
example_inputs = (torch.zeros(1, 3, 12, 12),)


class Square(torch.nn.Module):
    def forward(self, x):
        return x + x.swapaxes(0, 1)


def square():
    return Square(), (torch.zeros(8, 8),)
"""


def test_dimensions_of_one_size_are_told_apart(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "images.py").write_text(IMAGES)
    definitions: dict[str, Any] = {}
    exec(IMAGES, definitions)
    source = f"{tmp_path / 'images.py'}:net"
    model = tunefarm.compile(source, buckets=["input.2=12", "input.3=12"], target="host:1", settings=settings)
    with torch.no_grad():
        for height, width in ((5, 9), (12, 3), (1, 12)):
            x = torch.rand(1, 3, height, width)
            _close(model(x.numpy()), definitions["net"](x))
    source = f"{tmp_path / 'images.py'}:square"
    with pytest.raises(BadInput, match=r"may be of x\.0 or x\.1"):
        tunefarm.compile(source, buckets=["x.0=8", "x.1=8"], target="host:1", settings=settings)
