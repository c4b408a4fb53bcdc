"""Tensor intrinsics, loaded only when something refers to them, and only for its architecture.

TVM imports all of them, for every architecture, when the first ``TuneContext`` is created; that takes seconds. This
module puts an empty package with the real search path into ``sys.modules`` and imports single modules of it.
"""

import importlib
import json
import sys
import types
from pathlib import Path

import tvm

from tunefarm_schemas.tuning.target import Target
from tunefarm_search.tvm.quick_decorators import quick_decorators
from tunefarm_search.tvm.tensor_intrinsics.ours import is_ours

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
    with quick_decorators():
        for name in modules_for(kind, triple):
            importlib.import_module(f"{PACKAGE}.{name}")


def load_intrinsics_for(target: Target) -> None:
    """Load the intrinsics that TVM's rules for the target may use."""
    load_intrinsics(target.kind, triple_of(target))


def triple_of(target: Target) -> str:
    """LLVM's triple of a target; empty for this host's."""
    return str(json.loads(target.canonical).get("mtriple", ""))


def is_of_tvm(name: str) -> bool:
    """Whether a name is that of an intrinsic in one of TVM's modules that are loaded, or one of ours."""
    loaded = [module for path, module in sys.modules.items() if path.startswith(f"{PACKAGE}.")]
    return is_ours(name) or any(name in _texts(module) for module in loaded)


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
