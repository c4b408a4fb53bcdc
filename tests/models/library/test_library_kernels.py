import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.models

pytest.importorskip("onnx")

import tvm  # noqa: E402
from tvm import relax  # noqa: E402
from tvm.relax import op  # noqa: E402

from tests.models.library.operator_cases import F32, I64, constant  # noqa: E402
from tests.models.library.regions import WEIGHTS, Case, by_library, open_region, write_region  # noqa: E402
from tunefarm.model.library.library import LIBRARIES, LibraryKernel, installed_libraries  # noqa: E402
from tunefarm.model.library.registration import register_region  # noqa: E402
from tunefarm_sandbox.confinement.confinement import Confinement  # noqa: E402
from tunefarm_sandbox.confinement.limits import Limits  # noqa: E402
from tunefarm_sandbox.fork_server.fork_server import ForkServer  # noqa: E402
from tunefarm_schemas.bad_input import BadInput  # noqa: E402
from tunefarm_search.relax.constants import constant_of  # noqa: E402
from tunefarm_search.relax.onnx_graph import OnnxRegion, onnx_model, place_weights  # noqa: E402
from tunefarm_search.tvm.loading import LOAD_TVM  # noqa: E402

WEIGHT = np.random.default_rng(3).normal(size=(64, 64)).astype(np.float32)
LIMITS = Limits(memory_bytes=8 << 30, cpu_s=600, file_size_bytes=1 << 20)
EACH_LIBRARY = pytest.mark.parametrize("library", installed_libraries())


def product() -> OnnxRegion:
    case = Case("product", [((8, 64), F32)], lambda x: op.nn.relu(op.matmul(x, constant_of(WEIGHT))))
    return onnx_model(case.function()["main"], WEIGHTS)


def expected(array: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> Any:
    return np.maximum(array @ WEIGHT, 0)


@pytest.fixture
def kernel(library: str, tmp_path: Path) -> LibraryKernel:
    return open_region(library, product(), tmp_path)


def inputs(seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(8, 64)).astype(np.float32)


def test_requirement_names_the_installed_version() -> None:
    assert installed_libraries()
    for name in installed_libraries():
        package = __import__(name)
        found = LIBRARIES[name].requirement()
        assert found.startswith(f"{name}==")
        assert package.__version__.startswith(found.removeprefix(f"{name}=="))


@EACH_LIBRARY
def test_weights_are_read_from_the_safetensors_file(library: str, tmp_path: Path) -> None:
    region = product()
    assert [array.nbytes for array in region.weights.values()] == [WEIGHT.nbytes]
    path = write_region(region, tmp_path)
    assert path.stat().st_size < 2000
    found = by_library(LIBRARIES[library].open(path, 1, spins=True), [inputs(0)], region)
    np.testing.assert_allclose(found[0], expected(inputs(0)), rtol=1e-4, atol=1e-4)


def test_equal_weights_of_several_regions_have_one_name() -> None:
    assert list(product().weights) == list(product().weights)
    with pytest.raises(KeyError):
        place_weights(product(), {})


@EACH_LIBRARY
def test_results_are_written_into_the_given_memory(kernel: LibraryKernel) -> None:
    """Also where the memory changes from call to call, and returns to one that was used before."""
    for number in (0, 1, 0, 2, 1):
        memory = np.full((3, 8, 64), -1, np.float32)
        array = inputs(number)
        kernel.run_at([array.ctypes.data], [memory[1].ctypes.data])
        np.testing.assert_allclose(memory[1], expected(array), rtol=1e-4, atol=1e-4)
        assert (memory[0] == -1).all()
        assert (memory[2] == -1).all()
        assert np.array_equal(array, inputs(number))


@EACH_LIBRARY
def test_one_memory_with_other_contents_gives_other_results(kernel: LibraryKernel) -> None:
    array, output = inputs(0).copy(), np.zeros((8, 64), np.float32)
    for number in range(3):
        array[...] = inputs(number)
        kernel.run([array], [output])
        np.testing.assert_allclose(output, expected(inputs(number)), rtol=1e-4, atol=1e-4)


@EACH_LIBRARY
@pytest.mark.parametrize("offset", [1, 4])
def test_unaligned_and_strided_arrays_are_right(kernel: LibraryKernel, offset: int) -> None:
    given = _at_offset(offset)
    given[...] = inputs(5)
    written = _at_offset(offset)
    kernel.run([given], [written])
    np.testing.assert_allclose(written, expected(inputs(5)), rtol=1e-4, atol=1e-4)
    strided, turned = np.zeros((8, 128), np.float32), np.zeros((64, 8), np.float32)
    strided[:, ::2] = inputs(6)
    kernel.run([strided[:, ::2]], [turned.T])
    np.testing.assert_allclose(turned.T, expected(inputs(6)), rtol=1e-4, atol=1e-4)


def _at_offset(offset: int) -> Any:
    """An array that begins some bytes behind a multiple of 64."""
    memory = np.zeros(8 * 64 * 4 + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return memory[start : start + 8 * 64 * 4].view(np.float32).reshape(8, 64)


@EACH_LIBRARY
def test_arrays_of_another_shape_or_type_are_rejected(kernel: LibraryKernel) -> None:
    output = np.zeros((8, 64), np.float32)
    with pytest.raises(ValueError, match=r"input0 is float32\[8, 63\]"):
        kernel.run([np.zeros((8, 63), np.float32)], [output])
    with pytest.raises(ValueError, match="output0 is float64"):
        kernel.run([inputs(0)], [output.astype(np.float64)])


@EACH_LIBRARY
def test_virtual_machine_calls_a_region_in_place(library: str, tmp_path: Path) -> None:
    """With two inputs, one of which the region does not use, and two outputs of different types."""
    case = Case(
        "two", [((3, 5), F32), ((3, 5), I64)], lambda x, y: relax.Tuple([op.argmax(x, 1), op.matmul(x, constant(5, 4))])
    )
    module = case.function()
    region = onnx_model(module["main"], None)
    register_region("region.of_test", open_region(library, region, tmp_path))
    arrays = case.arrays()
    found = _calling_machine(region)(*(tvm.runtime.tensor(array) for array in arrays))
    outputs = by_library(open_region(library, region, tmp_path), arrays, region)
    for one, other in zip(found, outputs, strict=True):
        assert np.array_equal(one.numpy(), other)


def _calling_machine(region: OnnxRegion) -> Any:
    kinds = [relax.TensorType(each.shape, each.dtype) for each in region.outputs]
    parameters = [relax.Var(each.name, relax.TensorType(each.shape, each.dtype)) for each in region.inputs]
    builder = relax.BlockBuilder()
    with builder.function("main", parameters):
        with builder.dataflow():
            called = relax.call_dps_packed("region.of_test", tuple(parameters), out_ty=kinds)
            result = builder.emit_output(builder.emit(called))
        builder.emit_func_output(result)
    built = tvm.compile(builder.get(), target=tvm.target.Target({"kind": "llvm", "num-cores": 1}))
    return relax.VirtualMachine(built, tvm.cpu())["main"]


@EACH_LIBRARY
def test_registering_a_name_again_replaces_its_region(library: str, tmp_path: Path) -> None:
    outputs = []
    for factor in (2.0, 3.0):
        case = Case("factor", [((4,), F32)], lambda x, f=factor: op.multiply(x, constant_of(np.float32(f))))
        register_region("region.of_test", open_region(library, onnx_model(case.function()["main"], None), tmp_path))
        tensors = [tvm.runtime.tensor(np.ones(4, np.float32)), tvm.runtime.tensor(np.zeros(4, np.float32))]
        tvm.get_global_func("region.of_test")(*tensors)
        outputs.append(tensors[1].numpy()[0])
    assert outputs == [2, 3]


@EACH_LIBRARY
def test_failures_of_a_library_name_the_region(library: str, tmp_path: Path) -> None:
    """An index out of bounds, which is not checked before."""
    case = Case("take", [((4, 5), F32), ((1,), I64)], lambda x, i: op.take(x, i, 0, "fast"))
    register_region("region.of_test", open_region(library, onnx_model(case.function()["main"], None), tmp_path))
    call = tvm.get_global_func("region.of_test")
    with pytest.raises(RuntimeError, match=r"region\.of_test: it has 3 arguments"):
        call(tvm.runtime.tensor(np.zeros((4, 5), np.float32)))
    if library == "onnxruntime":  # OpenVINO reads zeros there
        tensors = [np.zeros((4, 5), np.float32), np.array([9], np.int64), np.zeros((1, 5), np.float32)]
        with pytest.raises(RuntimeError, match=r"region\.of_test: onnxruntime failed: .*out of"):
            call(*(tvm.runtime.tensor(each) for each in tensors))


@EACH_LIBRARY
def test_damaged_models_are_refused(library: str, tmp_path: Path) -> None:
    path = tmp_path / "region.onnx"
    path.write_bytes(b"\x08\x09not a model")
    with pytest.raises(BadInput, match=r"refuses region\.onnx"):
        LIBRARIES[library].open(path, 1, spins=False)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer.start((LOAD_TVM,), environment={"PYTHONPATH": str(Path(__file__).parent)}) as started:
        yield started


@EACH_LIBRARY
def test_confined_children_open_and_run_regions(library: str, server: ForkServer, tmp_path: Path) -> None:
    """They may read the folder of the model, and neither write nor connect."""
    path = write_region(product(), tmp_path)
    order = {"library": library, "model": str(path), "threads": 2}
    confinement = Confinement.strict(readable=(str(tmp_path),), may_pin_threads=True)
    with server.fork("library_child:main", json.dumps(order).encode(), limits=LIMITS, confinement=confinement) as child:
        found = json.loads(child.channel.receive(timeout_s=300))
        assert not isinstance(found, str), found
        np.testing.assert_allclose(found[0], expected(np.ones((8, 64), np.float32)), rtol=1e-4, atol=1e-4)
        assert "telemetry" not in child.output()
