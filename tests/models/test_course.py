"""The torch programs of a course on machine learning compilation, through the command line and from Python."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.acceptance.command import Tunefarm, assert_refused

pytestmark = [
    pytest.mark.models,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
torch = pytest.importorskip("torch")

import tunefarm  # noqa: E402
from tunefarm_services.settings import Settings  # noqa: E402

PROGRAM = """
import torch
from torch import nn


def fused_multiply_add(x, y, z):
    return x * y + z


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.scores = nn.Linear(784, 32), nn.Linear(32, 10)
        self.factor = nn.Parameter(torch.full((32,), 0.5))

    def forward(self, images):
        hidden = torch.relu(self.hidden(images))
        return self.scores(fused_multiply_add(hidden, self.factor, hidden))


torch.manual_seed(0)
net = Classifier()
example_inputs = (torch.zeros(1, 784),)


def made():
    return net, example_inputs


def exported():
    batch = torch.export.Dim("batch", min=2, max=64)
    return torch.export.export(net, (torch.zeros(4, 784),), dynamic_shapes={"images": {0: batch}})


class Sorting(nn.Module):
    def forward(self, images):
        return torch.linalg.svdvals(images), torch.rand_like(images)


unsupported = (Sorting(), (torch.zeros(4, 4),))


def sorting():
    return unsupported


undescribed = nn.Linear(2, 2)
bare = undescribed
"""


@pytest.fixture
def command(tmp_path: Path) -> Tunefarm:
    (tmp_path / "net.py").write_text(PROGRAM)
    (tmp_path / "empty.py").write_text("import torch\nclass Net(torch.nn.Module):\n    pass\n")
    # Models are converted before a service is reached, and here none is.
    nowhere = {"TUNEFARM_API_URL": "http://127.0.0.1:9", "TUNEFARM_API_TOKEN": "tfk_x", "TUNEFARM_API_PATIENCE_S": "0"}
    return Tunefarm(home=tmp_path / "home", folder=tmp_path, extra=nowhere)


def rows(command: Tunefarm) -> dict[str, int]:
    if not command.database.exists():
        return {}
    with closing(sqlite3.connect(command.database)) as database:
        tables = ("jobs", "workloads", "tuning_records")
        return {each: database.execute(f"SELECT count(*) FROM {each}").fetchone()[0] for each in tables}


REFUSED = [
    (("net.py:sorting",), "model", ["linalg_svd", "rand_like"]),
    (("net.py:exported",), "--shape", ["images"]),
    (("net.py:exported", "--shape", "images=4"), "model", ["images"]),
    (("net.py:net", "--shape", "images"), "--shape", ["NAME=N,N"]),
    (("empty.py:Net",), "", ["Net"]),
]


@pytest.mark.parametrize("what", ["tune", "submit", "compile"])
@pytest.mark.parametrize(("words", "field", "said"), REFUSED, ids=[" ".join(words) for words, _, _ in REFUSED])
def test_torch_module_that_cannot_be_converted_is_rejected_alike(
    command: Tunefarm, what: str, words: tuple[str, ...], field: str, said: list[str]
) -> None:
    output = () if what == "submit" else ("--output", "out")
    assert_refused(command(what, *words, *output), field, *said)
    assert not (command.folder / "out").exists()
    assert not any(rows(command).values())


def test_functions_of_a_torch_module_are_not_selected(command: Tunefarm) -> None:
    assert_refused(command("tune", "net.py:net", "--function", "main"), "MODULE", "no TIR function")
    here = Tunefarm(home=command.home, folder=command.folder, extra={})
    assert_refused(here("records", "best", "net.py:net"), "MODULE", "which is a model")


@pytest.mark.faults
@pytest.mark.parametrize(
    ("words", "batch"),
    [
        (("net.py:net",), 1),
        (("net.py:made", "--traced"), 1),
        (("net.py:exported", "--shape", "images=8,784"), 8),
    ],
    ids=["module", "traced", "sized"],
)
def test_torch_module_of_a_file_is_tuned(command: Tunefarm, words: tuple[str, ...], batch: int) -> None:
    folder = command.folder / "tuned"
    summary = command.tune(*words, "--trials", "4", "--target", "host:1", "--output", str(folder))
    assert summary["of_model"]
    assert len(summary["tasks"]) == 2
    found = json.loads(command("artifact", "run", str(folder), "--json").out)
    assert found["latency_s"] > 0
    namespace: dict[str, Any] = {}
    exec(PROGRAM, namespace)
    model = tunefarm.load_model(folder)
    with torch.no_grad():
        for _ in range(3):
            images = torch.rand(batch, 784)
            np.testing.assert_allclose(model(images.numpy()), namespace["net"](images).numpy(), rtol=1e-4, atol=1e-5)


class FashionClassifier(torch.nn.Module):  # type: ignore[misc]
    """An MLP for images of 28 by 28 in ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.scores = torch.nn.Linear(784, 128), torch.nn.Linear(128, 10)

    def forward(self, images: Any) -> Any:
        return self.scores(torch.relu(self.hidden(images.flatten(1))))


@pytest.mark.faults
def test_trained_classifier_is_tuned_to_equal_predictions(tmp_path: Path) -> None:
    torch.manual_seed(0)
    prototypes, labels = torch.rand(10, 1, 28, 28), torch.arange(500) % 10
    images = prototypes[labels] + 0.3 * torch.randn(500, 1, 28, 28)
    net = FashionClassifier()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(20):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(images[:200]), labels[:200]).backward()
        optimizer.step()
    unseen, expected = images[200:], labels[200:]
    with torch.no_grad():
        scores = net(unseen)
    assert (scores.argmax(1) == expected).float().mean() > 0.8
    result = tunefarm.embedded.tune(
        net, example_inputs=(unseen[:1],), trials=4, target="host:1", settings=Settings(home=tmp_path / "home")
    )
    model = result.compile()
    found = np.concatenate([model(image[None].numpy()) for image in unseen])
    np.testing.assert_allclose(found, scores.numpy(), rtol=1e-3, atol=1e-4)
    assert (found.argmax(1) == scores.argmax(1).numpy()).all()
