"""Tuning a model for several sizes in one job."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.models,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

torch = pytest.importorskip("torch")

import tunefarm  # noqa: E402
from tests.servers.command_server import run_command  # noqa: E402
from tests.servers.processes import environment_without_settings  # noqa: E402

FILE = """
import torch

torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(24, 24))
        self.scores = torch.nn.Linear(24, 10)

    def forward(self, x):
        return self.scores(x @ torch.softmax(self.table, -1))


net = Net()
example_inputs = (torch.zeros(1, 24),)


class Mean(torch.nn.Module):
    def forward(self, x):
        return x.mean(0, keepdim=True)


mean = Mean()
"""


def tuned(folder: Path, *words: str) -> Any:
    environment = {**environment_without_settings(), "TUNEFARM_HOME": str(folder / "home")}
    return run_command("tune", *words, "--target", "host:1", environment=environment, folder=folder, timeout_s=600)


def test_buckets_are_tuned_in_one_job_and_reported(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FILE)
    words = ("net.py:net", "--bucket", "x.0=2,6", "--trials", "4", "--output", "tuned", "--json")
    ended = tuned(tmp_path, *words)
    assert ended.code == 0, ended.err
    summary = json.loads(ended.out)
    names = [task["name"] for task in summary["tasks"]]
    assert sum("softmax" in name for name in names) <= 1, names  # it does not depend on the size
    assert sum("matmul" in name for name in names) > 1, names
    assert [bucket["sizes"] for bucket in summary["model"]["buckets"]] == [{"x.0": 2}, {"x.0": 6}]
    for build in ("untried", "tuned"):
        parts = [bucket[build]["latency_s"] for bucket in summary["model"]["buckets"]]
        assert all(part > 0 for part in parts)
        low_s, high_s = summary["model"][build]["interval_s"]
        assert 0.5 * low_s < sum(parts) < 2 * high_s
    model = tunefarm.load_model(tmp_path / "tuned")
    definitions: dict[str, Any] = {}
    exec(FILE, definitions)
    with torch.no_grad():
        for rows in (1, 2, 5, 6, 8):
            given = torch.rand(rows, 24)
            torch.testing.assert_close(
                torch.as_tensor(model(given.numpy())), definitions["net"](given), rtol=1e-4, atol=1e-4
            )
    again = tuned(tmp_path, *words[:-1])
    assert again.code == 0, again.err
    assert "one run of the bucket" in again.out
    assert "x.0=6" in again.out


def test_a_model_that_depends_on_padding_is_rejected_before_the_search(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FILE)
    ended = tuned(tmp_path, "net.py:mean", "--bucket", "x.0=2,6", "--trials", "4")
    assert ended.code == 2, ended.out
    assert "bucket" in ended.err
    assert "searching" not in ended.err


def test_a_function_has_no_buckets(tmp_path: Path) -> None:
    ended = tuned(tmp_path, "builtin:matmul:8x8x8", "--bucket", "A.0=2,6", "--trials", "1")
    assert ended.code == 2
    assert "bucket" in ended.err
