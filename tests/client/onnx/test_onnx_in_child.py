"""ONNX and TFLite models are read in a confined child, which sees the folder of the model and nothing else."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm

from tests.client.onnx.graphs import by_onnxruntime, by_tvm, constants, model_of, node, normal, saved
from tests.client.tflite.test_tflite_models import mobile_network
from tunefarm.frontend.model_import import ImportedModel, import_model
from tunefarm.frontend.model_source import parse_model_source
from tunefarm.frontend.relax_model import RelaxModel
from tunefarm.remote.conversion import Converter
from tunefarm.remote.model_conversion import convert_with_model
from tunefarm.remote.tune_request import TuneRequest
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_search.tvm.serialization import load_json

pytestmark = pytest.mark.models


def rebuilt(model: ImportedModel) -> RelaxModel:
    return RelaxModel(load_json(model.module_json), model.weights, model.framework, model.notes)


def dense() -> Any:
    weights = constants(w=normal(40, 50), b=normal(50))
    return model_of([node("Gemm", ["x", "w", "b"], ["y"])], {"x": ("batch", 40)}, ["y"], weights)


def test_child_reads_external_data_beside_the_model(fork_server: ForkServer, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(dense(), path, save_as_external_data=True, location="model.data", size_threshold=0)
    model = import_model(fork_server, parse_model_source(str(path)), {"x": (2, 40)})
    x = normal(2, 40)
    found, expected = by_tvm(rebuilt(model), [x])[0], by_onnxruntime(path, {"x": x})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert model.notes == ("Dimension batch of input x is 2.",)


def test_client_sends_the_functions_of_a_model_file_and_keeps_its_weights_if_asked(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path)
    request = TuneRequest.of(str(path), target="host:1", shapes={"x": (2, 40)}, keep_model=True)
    with Converter() as converter:
        conversion, model = convert_with_model(
            converter, request.intake, request.file, request.of_model, request.given, keeps_model=request.keeps_model
        )
    assert conversion.of_model
    assert conversion.modules
    assert model is not None
    x = normal(2, 40)
    whole = tvm.relax.VirtualMachine(tvm.compile(load_json(model.decode()), "llvm"), tvm.cpu())
    found = whole["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(found, by_onnxruntime(path, {"x": x})[0], rtol=1e-5, atol=1e-6)


def test_child_keeps_refusals(fork_server: ForkServer, tmp_path: Path) -> None:
    source = parse_model_source(str(saved(dense(), tmp_path)))
    with pytest.raises(BadInput, match=r"dimension 0 \(batch\) of input x.*such as x=1,40"):
        import_model(fork_server, source)


def test_child_reads_tflite(fork_server: ForkServer, tmp_path: Path) -> None:
    model, result = mobile_network()
    imported = import_model(fork_server, parse_model_source(str(model.save(tmp_path, result))))
    assert len(imported.weights["main"]) == len(load_json(imported.module_json)["main"].params) - 1
