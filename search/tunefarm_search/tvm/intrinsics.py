"""Tensor intrinsics, loaded only when something refers to them, and only for its architecture.

TVM imports all of them, for every architecture, when the first ``TuneContext`` is created; that takes seconds. This
module puts an empty package with the real search path into ``sys.modules`` and imports single modules of it.
"""

import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir.schedule import Trace as TvmTrace

from tunefarm_schemas.tuning.target import Target
from tunefarm_search.tvm.dot_products import is_dot_product, register_dot_products

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
    for name in modules_for(kind, triple):
        importlib.import_module(f"{PACKAGE}.{name}")


def load_intrinsics_for(target: Target) -> None:
    """Load the intrinsics that TVM's rules for the target may use."""
    load_intrinsics(target.kind, triple_of(target))


def triple_of(target: Target) -> str:
    """LLVM's triple of a target; empty for this host's."""
    return str(json.loads(target.canonical).get("mtriple", ""))


def apply_steps(steps: Any, schedule: Any, kind: str = "llvm", triple: str = "") -> None:
    """Apply a trace in JSON form to a TVM schedule, after loading the intrinsics that it tensorizes with.

    Raises TVM's error for a trace that does not apply.
    """
    names = _intrinsics_in(steps)
    if names:
        register_dot_products()
    if any(not isinstance(name, str) or not is_dot_product(name) for name in names):
        load_intrinsics(kind, triple)
    TvmTrace.apply_json_to_schedule(steps, schedule)


def _intrinsics_in(steps: Any) -> list[Any]:
    """What a trace tensorizes with."""
    instructions = steps[0] if isinstance(steps, list) and steps else None
    if not isinstance(instructions, list):
        return []
    tensorized = [step for step in instructions if isinstance(step, list) and step[:1] == ["Tensorize"]]
    return [step[2][0] if len(step) > 2 and isinstance(step[2], list) and step[2] else None for step in tensorized]


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
