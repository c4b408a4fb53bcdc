"""Tensor intrinsics, loaded only as far as a target needs them.

TVM imports all of them, for every architecture, when the first ``TuneContext`` is made; that takes seconds. Here the
package is entered into ``sys.modules`` empty, with its true search path, and single modules of it are imported.
"""

import importlib
import sys
import types
from pathlib import Path

import tvm

PACKAGE = "tvm.s_tir.tensor_intrin"


def load_intrinsics(kind: str, triple: str = "") -> None:
    """Load the intrinsics for a target kind and LLVM triple (empty: this host's). Does nothing the second time."""
    if PACKAGE not in sys.modules:
        package = types.ModuleType(PACKAGE)
        package.__path__ = [str(Path(tvm.__file__).parent / "s_tir" / "tensor_intrin")]
        sys.modules[PACKAGE] = package
    for name in modules_for(kind, triple):
        importlib.import_module(f"{PACKAGE}.{name}")


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
