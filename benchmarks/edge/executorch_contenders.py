"""ExecuTorch on the small network: a native program on its C++ API, and its Python API."""

import subprocess
from pathlib import Path
from typing import Final

from benchmarks.edge.contender import EdgeContender, of_python, require_module

_HERE: Final = Path(__file__).parent
_PYTHON: Final = """
import os, sys
import numpy, torch
from executorch.extension.pybindings.portable_lib import _unsafe_reset_threadpool
from executorch.runtime import Runtime
_unsafe_reset_threadpool(1)
image = torch.from_numpy(numpy.fromfile(sys.argv[2], numpy.float32).reshape(1, 3, 64, 64))
scores, = Runtime.get().load_program(sys.argv[1]).load_method("forward").execute([image])
scores.numpy().tofile(sys.argv[3])
os._exit(0)
"""
# As executorch-config.cmake gives them. XNNPACK runs the whole program, so ExecuTorch's own kernels are not linked.
_DEFINITIONS: Final = ("-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED")
_C10: Final = "executorch/runtime/core/portable_type/c10"
_LIBRARIES: Final = ("-lexecutorch_backend_xnnpack", "-lexecutorch_threadpool", "-lexecutorch")


def executorch_contenders(network: Path, image: Path, folder: Path, interpreter: str) -> list[EdgeContender]:
    """The native program, and the same through Python.

    Args:
        network: as ONNX.
        image: the input.
        folder: for the programs and their outputs.
        interpreter: with executorch and onnx, whose wheel of executorch contains libraries and headers.

    Raises:
        ModuleNotFoundError: ``interpreter`` lacks executorch.
        CalledProcessError: the network is not exported, or the native program does not compile.
    """
    require_module("executorch", interpreter)
    program = folder / "network.pte"
    _run(interpreter, str(_HERE / "executorch_program.py"), str(network), str(program))
    return [
        _native(program, image, folder, interpreter),
        of_python("executorch, Python", "executorch", _PYTHON, (program, image), folder, interpreter),
    ]


def _native(program: Path, image: Path, folder: Path, interpreter: str) -> EdgeContender:
    package = _run(interpreter, "-c", "import executorch; print(*executorch.__path__)").strip()
    include, library = f"{package}/include", f"{package}/lib"
    runs, output = folder / "executorch-run", folder / "executorch-native-output.bin"
    compiler = ("c++", "-std=c++17", "-O2", *_DEFINITIONS, "-isystem", include, "-isystem", f"{include}/{_C10}")
    linking = (f"-L{library}", f"-Wl,-rpath,{library}", "-Wl,--no-as-needed", *_LIBRARIES)
    _run(*compiler, str(_HERE / "executorch_run.cpp"), "-o", str(runs), *linking)
    command = (str(runs), str(program), str(image), str(output))
    return EdgeContender(name="executorch, C++, with XNNPACK", command=command, output=str(output))


def _run(*words: str) -> str:
    """What a command writes to its output; what it writes to the error stream is shown if it fails."""
    ended = subprocess.run(words, check=False, capture_output=True, text=True)
    if ended.returncode:
        print(ended.stderr)
    ended.check_returncode()
    return ended.stdout
