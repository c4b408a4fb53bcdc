"""Models that cannot be read are rejected alike by tune, submit and compile, and leave nothing behind."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

WEIGHTLESS = """
from tvm.relax.frontend import nn

class Mlp(nn.Module):
    def __init__(self):
        self.dense = nn.Linear(8, 4)

    def forward(self, x: nn.Tensor):
        return self.dense(x)

    def get_default_spec(self):
        return {"forward": {"x": nn.spec.Tensor([2, 8], "float32")}}

net = Mlp()
"""
DYNAMIC = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Net:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")) -> R.Tensor(("n", 8), "float32"):
        with R.dataflow():
            y = R.nn.relu(x)
            R.output(y)
        return y
"""
SPARSE_BYTES = 3 << 30
REFUSED = [
    ("net.pt", ["pickle"]),
    ("sparse.pth", ["pickle"]),
    ("sparse.json", ["MiB"]),
    ("weightless.py:net", ["weights without contents: dense.weight, dense.bias"]),
    ("dynamic.py:Net", ["dynamic"]),
    ("absent.onnx", ["does not exist"]),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.pt").write_bytes(b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.")
    (tmp_path / "weightless.py").write_text(WEIGHTLESS)
    (tmp_path / "dynamic.py").write_text(DYNAMIC)
    for name in ("sparse.pth", "sparse.json"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(SPARSE_BYTES)
    return tmp_path


@pytest.mark.parametrize("command", ["tune", "submit", "compile"])
@pytest.mark.parametrize(("model", "said"), REFUSED, ids=[model for model, _ in REFUSED])
@pytest.mark.quick_cases(6)
def test_model_that_cannot_be_read_leaves_nothing(
    tunefarm: Callable[..., Any],
    environment: dict[str, str],
    home: Path,
    folder: Path,
    command: str,
    model: str,
    said: list[str],
) -> None:
    environment |= {"TUNEFARM_API_URL": "http://127.0.0.1:9", "TUNEFARM_API_TOKEN": "tfk_x"}
    before = {path.name for path in folder.iterdir()}
    output = () if command == "submit" else ("--output", "out")
    ended = tunefarm(command, model, *output)
    assert (ended.code, ended.out) == (2, ""), (ended.out, ended.err)
    assert all(words in ended.err for words in said), ended.err
    assert "Traceback" not in ended.err
    assert {path.name for path in folder.iterdir()} - before <= {home.name}
    if (home / "tunefarm.db").exists():
        with closing(sqlite3.connect(home / "tunefarm.db")) as database:
            for table in ("jobs", "workloads"):
                assert database.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
