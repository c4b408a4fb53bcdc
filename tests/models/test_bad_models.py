"""Commands reject models that cannot be used: exit code 2, with field and fix, and nothing is stored."""

import pickle
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.models,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

from tests.servers.command_server import run_command  # noqa: E402
from tests.servers.processes import environment_without_settings  # noqa: E402

HELD = {"artifacts", "explorations", "jobs", "targets", "tasks", "trials", "tuning_records", "uploads", "workloads"}


class Writing:
    """A pickle of it writes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self._path,)


@pytest.fixture
def rejected(tmp_path: Path) -> Callable[..., str]:
    """Runs ``compile`` and ``tune``, requires a rejection that stores nothing, and returns the message."""

    def run(model: str, **variables: str) -> str:
        home = tmp_path / "home"
        environment = {**environment_without_settings(), "TUNEFARM_HOME": str(home), **variables}
        said = []
        for words in (("compile", model, "--output", "out"), ("tune", model, "--trials", "1", "--output", "out")):
            ended = run_command(*words, environment=environment, folder=tmp_path, timeout_s=300)
            assert ended.code == 2, (words, ended.out, ended.err)
            assert "Traceback" not in ended.err
            assert not (tmp_path / "out").exists()
            said.append(ended.err)
        assert stored(home) == (0, 0)
        return "\n".join(said)

    return run


def stored(home: Path) -> tuple[int, int]:
    """The rows of all tables that hold what users give, and the blobs, of a store that may not exist."""
    rows = 0
    for database in home.rglob("*.db"):
        with sqlite3.connect(database) as connection:
            names = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
            assert names >= HELD
            for name in HELD:
                rows += connection.execute(f"select count(*) from {name}").fetchone()[0]
    return rows, sum(path.is_file() for folder in home.rglob("blobs") for path in folder.rglob("*"))


def test_zip_bomb_is_rejected(rejected: Callable[..., str], tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/data/weights/weight_0", bytes(64 << 20))
    assert "zip bomb" in rejected("bomb.pt2")


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.ckpt", "model.bin", "model.pkl", "model.pt2"])
def test_pickles_are_never_loaded(rejected: Callable[..., str], tmp_path: Path, name: str) -> None:
    witness = tmp_path / "witness"
    (tmp_path / name).write_bytes(pickle.dumps(Writing(witness)))
    said = rejected(name)
    assert not witness.exists()
    assert "model" in said
    pickle.loads((tmp_path / name).read_bytes())
    assert witness.exists()  # the pickle does write, where it is loaded


def graph(**external: str) -> Any:
    """``y = x @ w`` with a weight of 4 by 4 floats in an external file."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 4], bytes(64), raw=True)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in external.items():
        weight.external_data.add(key=key, value=value)
    given, result = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = helper.make_model(
        helper.make_graph([node], "g", [given], [result], [weight]), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 9
    return model


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname"])
def test_external_data_outside_of_the_folder_is_rejected(
    rejected: Callable[..., str], tmp_path: Path, location: str
) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "net.onnx").write_bytes(graph(location=location).SerializeToString())
    assert location in rejected("model/net.onnx")


def test_weights_that_exceed_the_limit_are_rejected_with_the_setting(
    rejected: Callable[..., str], tmp_path: Path
) -> None:
    model = graph(location="w.bin", length=str(3 << 30))
    model.graph.initializer[0].dims[:] = [4, 3 << 26]
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 3 << 26
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(3 << 30)  # no block of it is written
    said = rejected("net.onnx", TUNEFARM_MODEL_WEIGHTS_BYTES=str(1 << 30))
    assert "TUNEFARM_MODEL_WEIGHTS_BYTES" in said
    assert (tmp_path / "w.bin").stat().st_blocks == 0


def test_declared_size_without_data_is_rejected(rejected: Callable[..., str], tmp_path: Path) -> None:
    model = graph(location="w.bin", length=str(2 << 30))
    model.graph.initializer[0].dims[:] = [4, 1 << 27]
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "w.bin").write_bytes(bytes(64))
    assert "w.bin" in rejected("net.onnx")


@pytest.mark.parametrize("version", ["1.13.0", "99.0.0"])
def test_framework_of_another_version_is_named(rejected: Callable[..., str], tmp_path: Path, version: str) -> None:
    """Its metadata and its package come first on the path."""
    (tmp_path / "path" / "torch").mkdir(parents=True)
    (tmp_path / "path" / "torch" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    information = tmp_path / "path" / f"torch-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.zeros(2),)), tmp_path / "net.pt2")
    said = rejected("net.pt2", PYTHONPATH=str(tmp_path / "path"))
    assert f"torch {version} is installed, but versions from" in said
    assert "pip install 'tunefarm[torch]'" in said


def test_truncated_model_is_rejected(rejected: Callable[..., str], tmp_path: Path) -> None:
    torch.export.save(torch.export.export(torch.nn.Linear(4, 4), (torch.zeros(2, 4),)), tmp_path / "whole.pt2")
    content = (tmp_path / "whole.pt2").read_bytes()
    (tmp_path / "net.pt2").write_bytes(content[: len(content) // 2])
    assert "net.pt2" in rejected("net.pt2")
