"""Tensor intrinsics, loaded only when something refers to them, and only for its architecture.

TVM imports all of them, for every architecture, when the first ``TuneContext`` is created; that takes seconds. This
module puts an empty package with the real search path into ``sys.modules`` and imports single modules of it.
"""

import importlib
import inspect
import json
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tvm

from tunefarm_schemas.tuning.target import Target
from tunefarm_search.tvm.dot_products import is_dot_product

PACKAGE = "tvm.s_tir.tensor_intrin"


def leave_intrinsics_out() -> None:
    """Prevent TVM from importing them by itself. Idempotent."""
    if PACKAGE not in sys.modules:
        package = types.ModuleType(PACKAGE)
        package.__path__ = [str(Path(tvm.__file__).parent / "s_tir" / "tensor_intrin")]
        sys.modules[PACKAGE] = package


def load_intrinsics(kind: str, triple: str = "") -> None:
    """Load the intrinsics for a target kind and LLVM triple (empty: this host's). Idempotent."""
    leave_intrinsics_out()
    with _callers_without_source():
        for name in modules_for(kind, triple):
            importlib.import_module(f"{PACKAGE}.{name}")


@contextmanager
def _callers_without_source() -> Iterator[None]:
    """Give TVM's decorator of functions its callers without their source lines, by which it recognises classes.

    No intrinsic is defined in a class. For the lines Python searches all loaded modules, again for each caller and
    each of 180 functions for CUDA: four fifths of the time, and more where many modules are loaded.
    """
    parser = importlib.import_module("tvm.tirx.script.parser.entry")
    parser.inspect = types.SimpleNamespace(**vars(inspect) | {"stack": _callers})
    try:
        yield
    finally:
        parser.inspect = inspect


def _callers() -> list[inspect.FrameInfo]:
    found, frame = [], inspect.currentframe()
    while frame := frame and frame.f_back:
        found.append(inspect.FrameInfo(frame, frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, None, None))
    return found


def load_intrinsics_for(target: Target) -> None:
    """Load the intrinsics that TVM's rules for the target may use."""
    load_intrinsics(target.kind, triple_of(target))


def triple_of(target: Target) -> str:
    """LLVM's triple of a target; empty for this host's."""
    return str(json.loads(target.canonical).get("mtriple", ""))


def is_of_tvm(name: str) -> bool:
    """Whether a name is that of an intrinsic in one of TVM's modules that are loaded, or one of ours."""
    loaded = [module for path, module in sys.modules.items() if path.startswith(f"{PACKAGE}.")]
    return is_dot_product(name) or any(name in _texts(module) for module in loaded)


def _texts(module: types.ModuleType) -> list[str]:
    return [value for value in vars(module).values() if isinstance(value, str)]


def modules_for(kind: str, triple: str) -> tuple[str, ...]:
    """Names of the intrinsic modules that schedules for this target may refer to."""
    if kind != "llvm":
        return (kind,) if kind in {"cuda", "rocm", "metal", "hexagon"} else ()
    architecture = (triple or tvm.target.codegen.llvm_get_system_triple()).split("-")[0]
    if architecture.startswith(("x86_64", "i386", "i686")):
        return ("x86",)
    if architecture.startswith(("aarch64", "arm")):
        return ("arm_cpu",)
    return ("riscv_cpu",) if architecture.startswith("riscv") else ()
