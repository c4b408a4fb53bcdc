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
pytest.importorskip("onnx")

import tvm  # noqa: E402
from tvm import relax  # noqa: E402

from benchmarks.models.agreement import worst_error  # noqa: E402
from benchmarks.models.model_files import model_file  # noqa: E402
from benchmarks.models.zoo import TINY_ZOO, as_tensors  # noqa: E402
from tests.models.library.regions import WEIGHTS, bindings, by_library, open_region  # noqa: E402
from tunefarm.frontend.model_source import ModelFile  # noqa: E402
from tunefarm.frontend.reading import read_model  # noqa: E402
from tunefarm.model.library.library import installed_libraries  # noqa: E402
from tunefarm_search.relax.batch_norm import fold_batch_norms  # noqa: E402
from tunefarm_search.relax.constants import constant_of, fold_constants  # noqa: E402
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
    for library in installed_libraries():
        found = by_library(open_region(library, region, tmp_path), [tensor.numpy() for tensor in inputs], region)
        assert worst_error(tuple(found), expected) <= model.tolerance


def before_legalization(path: Path, file_format: str) -> Any:
    """The module as it is prepared, up to the legalization of its operators."""
    read = read_model(ModelFile(path=str(path), format=file_format), {})  # type: ignore[arg-type]
    parameters = list(read.module["main"].params)
    weights = [constant_of(np.asarray(array)) for array in read.weights.get("main", ())]
    named = dict(zip(parameters[len(parameters) - len(weights) :], weights, strict=True))
    passes = relax.transform
    module = passes.BindParams("main", named)(read.module) if named else read.module
    first = tvm.transform.Sequential([passes.LambdaLift(), passes.ConvertToDataflow(1), passes.CanonicalizeBindings()])
    module = passes.CanonicalizeBindings()(fold_constants(first(module)))
    module = fold_constants(passes.CanonicalizeBindings()(passes.DecomposeOpsForInference()(fold_batch_norms(module))))
    return tvm.transform.Sequential([passes.CanonicalizeBindings(), passes.DeadCodeElimination(["main"])])(module)
