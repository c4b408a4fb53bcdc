"""Time from the start of a process to the end of its first inference, and its peak memory, by turns."""

import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

import numpy
import onnx

from benchmarks.edge.contender import EdgeContender, of_python
from benchmarks.edge.executorch_contenders import executorch_contenders
from benchmarks.edge.small_bundle import build_library_bundle
from benchmarks.edge.small_tflite import tflite_of
from tunefarm_schemas.frozen import Frozen

_HERE: Final = Path(__file__).parent
_TOLERANCE: Final = 1e-4

# Each reads MODEL and INPUT, writes OUTPUT, and ends at once: neither files nor threads are tidied up.
_AGENT: Final = """
import os, sys
from pathlib import Path
from tunefarm_edge import Model
scores, = Model.current(sys.argv[1]).run([Path(sys.argv[2]).read_bytes()])
Path(sys.argv[3]).write_bytes(scores)
os._exit(0)
"""
_ONNXRUNTIME: Final = """
import os, sys
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
image = numpy.fromfile(sys.argv[2], numpy.float32).reshape(1, 3, 64, 64)
session.run(None, {"image": image})[0].tofile(sys.argv[3])
os._exit(0)
"""
_LITERT: Final = """
import os, sys
import numpy
from ai_edge_litert.interpreter import Interpreter
interpreter = Interpreter(sys.argv[1], num_threads=1)
interpreter.allocate_tensors()
image = numpy.fromfile(sys.argv[2], numpy.float32).reshape(1, 64, 64, 3)
interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
interpreter.invoke()
interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tofile(sys.argv[3])
os._exit(0)
"""


class Starts(Frozen):
    """What the processes of a contender took, in the order of the rounds."""

    name: str
    seconds: tuple[float, ...]
    peak_bytes: tuple[int, ...]

    @property
    def row(self) -> str:
        """A row of the table."""
        least_ms, median_ms = 1e3 * min(self.seconds), 1e3 * median(self.seconds)
        least_mb, median_mb = min(self.peak_bytes) / 1e6, median(self.peak_bytes) / 1e6
        return f"| {self.name} | {least_ms:.1f} | {median_ms:.1f} | {least_mb:.1f} | {median_mb:.1f} |"


class WrongOutput(Exception):
    """A contender computes something else than the test vector of the bundle."""


def measure(network: onnx.ModelProto, folder: Path, rounds: int, executorch: str) -> tuple[list[Starts], list[str]]:
    """Start every contender once a round, in random order; returns figures, and what was left out and why.

    ``executorch`` is the interpreter for ExecuTorch.

    Raises:
        WrongOutput: an output differs from the expected one.
    """
    file = folder / "network.onnx"
    onnx.save(network, file)
    bundle = build_library_bundle(file, "x86_64", folder)
    image, expected = bundle / "vectors/0/input0.bin", numpy.fromfile(bundle / "vectors/0/output0.bin", numpy.float32)
    preparations: list[Callable[[], list[EdgeContender]]] = [
        lambda: _runners(bundle, image, folder),
        lambda: [_agent(bundle, image, folder)],
        lambda: [_litert(network, image, folder)],
        lambda: [of_python("onnxruntime", "onnxruntime", _ONNXRUNTIME, (file, image), folder)],
        lambda: executorch_contenders(file, image, folder, executorch),
    ]
    contenders: list[EdgeContender] = []
    missing: list[str] = []
    for prepare in preparations:
        try:
            contenders += prepare()
        except ModuleNotFoundError as error:
            missing.append(f"{error.name} is not installed here")
    launcher = folder / "launch"
    subprocess.run(["cc", "-O2", str(_HERE / "launch.c"), "-o", str(launcher)], check=True)
    found: dict[str, list[tuple[float, int]]] = {each.name: [] for each in contenders}
    for number in range(rounds + 1):
        for each in random.Random(number).sample(contenders, len(contenders)):
            taken = _launched(launcher, each, expected)
            if number:  # the first round brings files into the page cache
                found[each.name].append(taken)
    return [
        Starts(name=name, seconds=tuple(each[0] for each in taken), peak_bytes=tuple(each[1] for each in taken))
        for name, taken in found.items()
    ], missing


def _launched(launcher: Path, contender: EdgeContender, expected: numpy.ndarray) -> tuple[float, int]:
    output = Path(contender.output)
    output.unlink(missing_ok=True)
    ended = subprocess.run([str(launcher), *contender.command], check=True, capture_output=True, text=True)
    error = float(numpy.abs(numpy.fromfile(output, numpy.float32) - expected).max())
    if error > _TOLERANCE:
        raise WrongOutput(f"{contender.name} differs by {error:.2g} from the bundle's test vector")
    seconds, kilobytes = ended.stdout.split()
    return float(seconds), int(kilobytes) * 1024


def _runners(bundle: Path, image: Path, folder: Path) -> list[EdgeContender]:
    """A program with the library of the runner, and the runner's own command."""
    from tests.edge_runner.toolchain import NOW, RUNNER, Compiler, Publisher

    compiler, publisher = Compiler(), Publisher()
    objects = compiler.objects(folder / "objects")
    program = compiler.program(_HERE / "runner_run.cpp", objects, folder / "runner-run")
    command = compiler.program(RUNNER / "src/main.cpp", objects, folder / "runner")
    publisher.publish(bundle, 1)
    output = folder / "runner-run-output.bin"
    own = [program, bundle, image, output, publisher.public, NOW]
    words = [command, "run", bundle, image, "--key", publisher.public, "--now", NOW, "--output", folder / "runner-y"]
    return [
        EdgeContender(name="tunefarm_runner, C++, verifies", command=tuple(map(str, own)), output=str(output)),
        EdgeContender(
            name="tunefarm-runner run, verifies and warms up",
            command=tuple(map(str, words)),
            output=str(folder / "runner-y0.bin"),
        ),
    ]


def _agent(bundle: Path, image: Path, folder: Path) -> EdgeContender:
    from tests.edge.conftest import Device
    from tests.edge.repositories import Repository
    from tunefarm_edge.service.device_config import DeviceConfig, write_config

    device = Device(folder / "device", Repository(folder / "repository"), DeviceConfig(channel="stable"))
    write_config(device.root(), device.config, device.repository.root.read_bytes(), None)
    names = [each for each in bundle.rglob("*") if each.is_file() and not each.name.startswith("stable.")]
    files = {str(each.relative_to(bundle)): each.read_bytes() for each in names}
    device.repository.publish(1, device.repository.release("network-1", files))
    outcome = device.update()
    if outcome.running is None:
        raise RuntimeError(f"the agent refuses the bundle: {outcome.refused}")
    return of_python("tunefarm_edge.Model", "tunefarm_edge", _AGENT, (device.folder, image), folder)


def _litert(network: onnx.ModelProto, image: Path, folder: Path) -> EdgeContender:
    model, channels_last = folder / "network.tflite", folder / "channels-last.bin"
    model.write_bytes(tflite_of(network))
    values = numpy.fromfile(image, numpy.float32).reshape(1, 3, 64, 64)
    numpy.ascontiguousarray(values.transpose(0, 2, 3, 1)).tofile(channels_last)
    return of_python("ai-edge-litert", "ai_edge_litert", _LITERT, (model, channels_last), folder)
