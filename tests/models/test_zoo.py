import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

# torch and its exporters warn about themselves.
pytestmark = [
    pytest.mark.models,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

import tunefarm  # noqa: E402
from benchmarks.models.agreement import worst_error  # noqa: E402
from benchmarks.models.model_files import model_file  # noqa: E402
from benchmarks.models.zoo import RELATIVES, TINY_ZOO, ZOO, ZooModel, as_tensors  # noqa: E402
from tunefarm.frontend.model_source import ModelFile  # noqa: E402
from tunefarm.frontend.reading import read_model  # noqa: E402
from tunefarm_search.relax.lowering import lower, virtual_machine  # noqa: E402
from tunefarm_search.relax.preparation import prepare  # noqa: E402
from tunefarm_search.relax.tasks import model_tasks  # noqa: E402
from tunefarm_search.tvm.target import host_target  # noqa: E402
from tunefarm_search.tvm.tensor_intrinsics.dot_products import dot_product_of  # noqa: E402
from tunefarm_workers.builder.scheduled_module import build_scheduled  # noqa: E402

Arrays = tuple[npt.NDArray[np.generic], ...]
INPUTS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.mark.parametrize("file_format", ["pt2", "onnx"])
@pytest.mark.parametrize("name", TINY_ZOO)
def test_tiny_models_compute_what_torch_computes(name: str, file_format: str, folder: Path) -> None:
    model = TINY_ZOO[name]
    module, _ = model.build()
    path = model_file(model, file_format, folder)
    read = read_model(ModelFile(path=str(path), format=file_format), {})  # type: ignore[arg-type]
    target = host_target(2)
    prepared = prepare(read.module, read.weights, target)
    assert len(model_tasks(prepared)) > 3
    machine = virtual_machine(lower(prepared.module, target), target, build_scheduled)
    for number in range(INPUTS):
        inputs = model.inputs(number)
        found = _run(machine, tuple(tensor.numpy() for tensor in inputs))
        assert worst_error(found, _expected(module, inputs)) <= model.tolerance


@pytest.mark.parametrize("file_format", ["pt2", "onnx"])
@pytest.mark.parametrize("name", TINY_ZOO)
def test_compile_of_tiny_models_computes_what_torch_computes(name: str, file_format: str, folder: Path) -> None:
    model = TINY_ZOO[name]
    module, _ = model.build()
    path, output = model_file(model, file_format, folder), folder / f"{name}-{file_format}"
    command = [sys.executable, "-m", "tunefarm", "compile", str(path), "--fresh", "--output", str(output)]
    subprocess.run(command, check=True)
    loaded = tunefarm.load_model(output)
    verified = loaded.manifest.verified
    assert verified is not None
    assert verified.reference == "framework" or name == "int8-cnn"
    for number in range(INPUTS):
        inputs = model.inputs(number)
        found = loaded(*(tensor.numpy() for tensor in inputs))
        outputs = found if isinstance(found, tuple) else (found,)
        assert worst_error(outputs, _expected(module, inputs)) <= model.tolerance


@pytest.mark.parametrize("name", ["bert", "whisper"])
def test_models_that_onnxruntime_quantized_for_run_time_compile(name: str, folder: Path) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    path, output = folder / f"{name}-quantized.onnx", folder / f"{name}-quantized"
    quantization.quantize_dynamic(str(model_file(TINY_ZOO[name], "onnx", folder)), str(path))
    subprocess.run(
        [sys.executable, "-m", "tunefarm", "compile", str(path), "--fresh", "--output", str(output)], check=True
    )
    manifest = tunefarm.load_model(output).manifest
    assert manifest.verified is not None
    assert manifest.verified.worst_error <= 1
    has_instruction = dot_product_of(host_target(1)) is not None
    assert any("integer_products" in function.name for function in manifest.functions) == has_instruction


def _run(machine: Any, inputs: Arrays) -> Arrays:
    import tvm

    outputs = machine["main"](*(tvm.runtime.tensor(array) for array in inputs))
    return tuple(output.numpy() for output in ([outputs] if hasattr(outputs, "numpy") else outputs))


def _expected(module: Any, inputs: Sequence[Any]) -> Arrays:
    with torch.no_grad():
        return tuple(tensor.numpy() for tensor in as_tensors(module(*inputs)))


@pytest.mark.parametrize("model", [*ZOO.values(), *RELATIVES.values()], ids=lambda model: model.name)
def test_models_have_as_many_weights_as_the_published_ones(model: ZooModel) -> None:
    if model.parameters is None:
        pytest.skip("there is no published one")
    assert sum(parameter.numel() for parameter in model.make().parameters()) == model.parameters


@pytest.mark.parametrize("name", TINY_ZOO)
def test_models_tell_inputs_apart_and_are_the_same_at_each_build(name: str) -> None:
    model = TINY_ZOO[name]
    module, inputs = model.build()
    again, _ = model.build()
    expected = _expected(module, inputs)
    assert worst_error(_expected(again, inputs), expected) <= 1e-6
    assert worst_error(_expected(module, model.inputs(1)), expected) > 5 * model.tolerance
