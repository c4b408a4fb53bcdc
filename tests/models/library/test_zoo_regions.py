from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.models,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from benchmarks.library_regions.overhead import before_legalization  # noqa: E402
from benchmarks.models.agreement import worst_error  # noqa: E402
from benchmarks.models.model_files import model_file  # noqa: E402
from benchmarks.models.zoo import TINY_ZOO, as_tensors  # noqa: E402
from tests.models.library.regions import WEIGHTS, bindings, by_library, libraries_for, open_region  # noqa: E402
from tunefarm_search.relax.onnx_graph import onnx_model, unsupported  # noqa: E402
from tunefarm_search.relax.onnx_graph.model import EXTERNAL_BYTES  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.mark.parametrize("file_format", ["pt2", "onnx"])
@pytest.mark.parametrize("name", TINY_ZOO)
def test_whole_models_are_regions_that_compute_what_torch_computes(
    name: str, file_format: str, folder: Path, tmp_path: Path
) -> None:
    model = TINY_ZOO[name]
    module, inputs = model.build()
    simplified = before_legalization(model_file(model, file_format, folder), file_format)
    assert [reason for each in bindings(simplified) if (reason := unsupported(simplified, each))] == []
    region = onnx_model(simplified["main"], WEIGHTS)
    assert all(array.nbytes >= EXTERNAL_BYTES for array in region.weights.values())
    assert len(region.model) < sum(array.nbytes for array in region.weights.values()) + 400_000
    with torch.no_grad():
        expected = tuple(tensor.numpy() for tensor in as_tensors(module(*inputs)))
    for library in libraries_for(name):
        found = by_library(open_region(library, region, tmp_path), [tensor.numpy() for tensor in inputs], region)
        assert worst_error(tuple(found), expected) <= model.tolerance
