import warnings
from pathlib import Path

import numpy as np
import pytest

pytestmark = [
    pytest.mark.models,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # an LSTM's weights have two names
]

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

from benchmarks.library_regions.overhead import before_legalization  # noqa: E402
from tests.models.library.regions import by_library, open_region  # noqa: E402
from tunefarm.model.library.library import installed_libraries  # noqa: E402
from tunefarm_search.relax.onnx_graph import OnnxRegion, onnx_model  # noqa: E402

STEPS, BATCH, FEATURES, WIDTH = 5, 3, 7, 6


class Recurrent(torch.nn.Module):
    """An LSTM; ``takes`` says what is returned of it."""

    def __init__(self, takes: str, **options: bool | int) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(FEATURES, WIDTH, **options)
        self.takes = takes

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        states, (hidden, cell) = self.lstm(x)
        return {"all": (states, hidden, cell), "last": (states[-1],), "middle": (states[2], cell)}[self.takes]


def exported(model: torch.nn.Module, x: torch.Tensor, folder: Path, file_format: str) -> OnnxRegion:
    path = folder / f"model.{file_format}"
    if file_format == "pt2":
        torch.export.save(torch.export.export(model, (x,)), path)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter by tracing
            torch.onnx.export(model, (x,), str(path), opset_version=17, dynamo=False)
    return onnx_model(before_legalization(path, file_format)["main"], None)


def operators(region: OnnxRegion) -> list[str]:
    return [str(node.op_type) for node in onnx.load_from_string(region.model).graph.node]


def assert_computes_what_torch_does(region: OnnxRegion, model: torch.nn.Module, x: torch.Tensor, folder: Path) -> None:
    with torch.no_grad():
        expected = model(x)
    for library in installed_libraries():
        for found, wanted in zip(
            by_library(open_region(library, region, folder), [x.numpy()], region), expected, strict=True
        ):
            np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("file_format", ["pt2", "onnx"])
@pytest.mark.parametrize(
    ("takes", "options", "layers"),
    [
        ("all", {}, 1),
        ("last", {}, 1),
        ("middle", {"bias": False}, 1),
        ("all", {"batch_first": True}, 1),
        ("all", {"num_layers": 2}, 2),
        ("all", {"num_layers": 2, "bidirectional": True, "batch_first": True}, 2),
    ],
)
def test_unrolled_layers_that_go_forward_are_exported_as_lstm(
    takes: str, options: dict[str, bool | int], layers: int, file_format: str, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    model = Recurrent(takes, **options).eval()
    shape = (BATCH, STEPS) if options.get("batch_first") else (STEPS, BATCH)
    x = torch.randn(*shape, FEATURES)
    region = exported(model, x, tmp_path, file_format)
    found = operators(region)
    assert found.count("LSTM") == layers
    assert ("Sigmoid" in found) == bool(options.get("bidirectional"))  # steps that go backwards
    assert_computes_what_torch_does(region, model, x, tmp_path)


class Cells(torch.nn.Module):
    """Steps of one cell that returns its states ``c`` too, which the operator has only for the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.LSTMCell(FEATURES, WIDTH)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = cell = torch.zeros(BATCH, WIDTH)
        cells = []
        for step in x.unbind():
            hidden, cell = self.cell(step, (hidden, cell))
            cells.append(cell)
        return hidden, torch.stack(cells)


def test_cells_whose_states_are_read_stay_what_they_are(tmp_path: Path) -> None:
    model = Cells().eval()
    x = torch.randn(STEPS, BATCH, FEATURES)
    region = exported(model, x, tmp_path, "pt2")
    assert "LSTM" not in operators(region)
    assert_computes_what_torch_does(region, model, x, tmp_path)
