"""What runs a model: torch, other runtimes, TVM without a schedule, and tunefarm, each in a process of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.models.zoo import ZooModel

Call = Callable[[], Any]
"""One run of the model on inputs that were bound before."""


@dataclass(frozen=True)
class RivalProcessOrder:
    """What a rival is opened with.

    Attributes:
        model: of the zoo.
        files: the folder of the model's files.
        artifact: the folder that tunefarm compiled the model into; None for the others.
        threads: of the rival.
    """

    model: "ZooModel"
    files: Path
    artifact: Path | None
    threads: int


class OpenRival:
    """A loaded model: ``bind`` gives the call that is timed, ``arrays`` its outputs as NumPy arrays."""

    def __init__(self, bind: Callable[[tuple[Any, ...]], Call], arrays: Callable[[Any], tuple[Any, ...]]) -> None:
        """``bind`` takes torch tensors, the inputs of one call."""
        self.bind = bind
        self.arrays = arrays


def open_torch(order: RivalProcessOrder) -> OpenRival:
    """Torch, operator by operator."""
    return _torch(order, lambda module: module)


def open_torch_compiled(order: RivalProcessOrder) -> OpenRival:
    """``torch.compile`` with Inductor, which needs a C++ compiler; it leaves LSTMs to torch."""
    import torch

    rival = _torch(order, lambda module: torch.compile(module, dynamic=False))
    rival.bind(order.model.inputs(0))()  # compiles
    return rival


def _torch(order: RivalProcessOrder, compiled: Callable[[Any], Any]) -> OpenRival:
    import torch

    from benchmarks.models.zoo import as_tensors

    torch.set_num_threads(order.threads)
    torch.set_grad_enabled(False)
    module = compiled(order.model.build()[0])
    return OpenRival(
        lambda inputs: lambda: module(*inputs), lambda outputs: tuple(each.numpy() for each in as_tensors(outputs))
    )


def open_onnxruntime(order: RivalProcessOrder) -> OpenRival:
    """The CPU provider of onnxruntime with all optimizations, from the ONNX file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = order.threads, 1
    options.log_severity_level = 3
    path = str(order.files / f"{order.model.name}.onnx")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def bind(inputs: tuple[Any, ...]) -> Call:
        feeds = dict(zip(order.model.input_names, (tensor.numpy() for tensor in inputs), strict=True))
        return lambda: session.run(None, feeds)

    return OpenRival(bind, tuple)


def open_openvino(order: RivalProcessOrder) -> OpenRival:
    """OpenVINO for latency, float32, from the ONNX file."""
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": order.threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,
    }
    compiled = openvino.Core().compile_model(str(order.files / f"{order.model.name}.onnx"), "CPU", settings)
    request = compiled.create_infer_request()

    def bind(inputs: tuple[Any, ...]) -> Call:
        feeds = dict(zip(order.model.input_names, (tensor.numpy() for tensor in inputs), strict=True))
        return lambda: request.infer(feeds, share_inputs=True, share_outputs=True)

    return OpenRival(bind, lambda outputs: tuple(outputs[name] for name in order.model.output_names))


def open_unscheduled(order: RivalProcessOrder) -> OpenRival:
    """TVM's default compilation of our import; it schedules nothing. TVM's own import refuses some of the models."""
    from tunefarm.frontend.model_source import ModelFile
    from tunefarm.frontend.reading import read_model
    from tunefarm_search.tvm import loading

    loading.load()
    import tvm
    from tvm import relax

    from benchmarks.host_target import host_target

    path = order.files / f"{order.model.name}.pt2"
    model = read_model(ModelFile(path=str(path), format="pt2"), {})
    weights = model.module["main"].params[len(order.model.input_names) :]
    constants = dict(zip(weights, map(relax.const, model.weights["main"]), strict=True))
    module = relax.transform.BindParams("main", constants)(model.module)
    target = tvm.target.Target(host_target(order.threads))
    machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
    return _virtual_machine(lambda tensors: machine["main"](*tensors))


def open_tunefarm(order: RivalProcessOrder) -> OpenRival:
    """What ``tunefarm compile`` or ``tunefarm tune`` wrote."""
    from tunefarm.model.loaded_model import load_model

    assert order.artifact is not None
    model = load_model(order.artifact)
    entry = model.entry().name
    return _virtual_machine(lambda tensors: model.run_tensors(entry, tensors))


def _virtual_machine(run: Callable[[list[Any]], Any]) -> OpenRival:
    import tvm

    def bind(inputs: tuple[Any, ...]) -> Call:
        tensors = [tvm.runtime.tensor(tensor.numpy()) for tensor in inputs]
        return lambda: run(tensors)

    def arrays(outputs: Any) -> tuple[Any, ...]:
        return tuple(each.numpy() for each in ([outputs] if hasattr(outputs, "numpy") else outputs))

    return OpenRival(bind, arrays)


UNSCHEDULED = "tvm-unscheduled"
ZERO_TRIALS, TUNED = "zero-trials", "tuned"
WITH_LIBRARIES = {"zero-trials-libraries": ZERO_TRIALS, "tuned-libraries": TUNED}
"""The same, with parts of the model run by libraries where they are faster."""
OURS = (ZERO_TRIALS, TUNED, *WITH_LIBRARIES)
TUNED_RIVALS = frozenset(name for name in OURS if WITH_LIBRARIES.get(name, name) == TUNED)

RIVALS: Mapping[str, Callable[[RivalProcessOrder], OpenRival]] = {
    UNSCHEDULED: open_unscheduled,
    **dict.fromkeys(OURS, open_tunefarm),
    "torch-eager": open_torch,
    "torch-compile": open_torch_compiled,
    "onnxruntime": open_onnxruntime,
    "openvino": open_openvino,
}
OTHERS = tuple(name for name in RIVALS if name not in (UNSCHEDULED, *OURS))
"""What a user would run the model with instead."""
