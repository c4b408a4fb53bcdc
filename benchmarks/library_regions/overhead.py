"""What a call of a library from TVM's virtual machine costs: whole models as one region against the library alone.

``python -m benchmarks.library_regions.overhead resnet18 bert`` compares, for each library, three calls by turns: the
region that TVM's virtual machine calls, a session of the same ONNX model, and a session of torch's ONNX export, which
shows whether the export of the Relax module keeps what the library fuses. Least times; ratios are to the first session.
"""

import argparse
import functools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from benchmarks.models.model_files import model_file
from benchmarks.models.zoo import RELATIVES, TINY_ZOO, ZOO, ZooModel
from tunefarm.frontend.model_source import ModelFile
from tunefarm.frontend.reading import read_model
from tunefarm.model.library.library import LIBRARIES, installed_libraries
from tunefarm.model.library.registration import register_region
from tunefarm_search.relax.onnx_graph import OnnxRegion, onnx_model
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.tvm.target import canonical_target

Call = Callable[[], Any]
_NAME = "library_regions.overhead"


def before_legalization(path: Path, file_format: str) -> Any:
    """A model as it is prepared, up to the legalization of its operators, for a processor without integer products."""
    read = read_model(ModelFile(path=str(path), format=file_format), {})
    return prepare(read.module, read.weights, canonical_target({"kind": "llvm"}, 1).target).stages.operators


def calling_machine(region: OnnxRegion, name: str) -> Any:
    """A function of TVM's virtual machine that calls the registered function ``name``."""
    kinds = [relax.TensorType(each.shape, each.dtype) for each in region.outputs]
    parameters = [relax.Var(each.name, relax.TensorType(each.shape, each.dtype)) for each in region.inputs]
    builder = relax.BlockBuilder()
    with builder.function("main", parameters):
        with builder.dataflow():
            called = relax.call_dps_packed(name, tuple(parameters), out_ty=kinds if len(kinds) > 1 else kinds[0])
            result = builder.emit_output(builder.emit(called))
        builder.emit_func_output(result)
    built = tvm.compile(builder.get(), target=tvm.target.Target({"kind": "llvm", "num-cores": 1}))
    return relax.VirtualMachine(built, tvm.cpu())["main"]


def compare(model: ZooModel, folder: Path, threads: int, seconds: float) -> None:
    """Print a line for each library."""
    region = onnx_model(before_legalization(model_file(model, "pt2", folder), "pt2")["main"], None)
    path = folder / f"{model.name}.region.onnx"
    path.write_bytes(region.model)
    arrays = [tensor.numpy() for tensor in model.inputs(0)]
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    for library in installed_libraries():
        register_region(_NAME, LIBRARIES[library].open(path, threads, spins=True))
        machine = calling_machine(region, _NAME)
        export = model_file(model, "onnx", folder)
        calls: list[Call] = [
            functools.partial(machine, *tensors),
            plain(library, path, arrays, threads),
            plain(library, export, arrays, threads),
        ]
        region_s, plain_s, export_s = least_times(calls, seconds)
        found = f"region {region_s * 1e3:.3f} ms, session {plain_s * 1e3:.3f} ms ({region_s / plain_s - 1:+.2%})"
        print(f"{model.name} {library}: {found}, torch's export {export_s * 1e3:.3f} ms", flush=True)


def plain(library: str, path: Path, arrays: list[Any], threads: int) -> Call:
    """A call of the library as its documentation shows it, without the copies that can be avoided."""
    if library == "openvino":
        import openvino

        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}
        settings |= {"INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False}
        request = openvino.Core().compile_model(str(path), "CPU", settings).create_infer_request()
        return lambda: request.infer(dict(enumerate(arrays)), share_inputs=True, share_outputs=True)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = dict(zip((each.name for each in session.get_inputs()), arrays, strict=True))
    return lambda: session.run(None, feeds)


def least_times(calls: list[Call], seconds: float) -> list[float]:
    """The least time of a call of each, by turns."""
    least = [float("inf")] * len(calls)
    ends_s = time.perf_counter() + seconds
    while time.perf_counter() < ends_s:
        for number, call in enumerate(calls):
            for _ in range(5):
                began_s = time.perf_counter()
                call()
                least[number] = min(least[number], time.perf_counter() - began_s)
    return least


def main() -> None:
    """Compare the named models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["resnet18"])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=20.0, help="for each model and library")
    arguments = parser.parse_args()
    known = TINY_ZOO if arguments.tiny else {**ZOO, **RELATIVES}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.models:
            compare(known[name], Path(folder), arguments.threads, arguments.seconds)


if __name__ == "__main__":
    main()
