"""The reference kernels as a library for any device."""

from typing import Any, Final

import tvm
from tvm import te

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.device.reference_kernels import reference_functions

NAMES: Final = ("compute", "bandwidth", "launch")
_PROCESSORS = {"llvm", "c"}
_COMPUTE_ELEMENTS = 1 << 20
_COMPUTE_STEPS = 256
_BANDWIDTH_ELEMENTS = 64 << 20
_LAUNCH_ELEMENTS = 32


def reference_module(target: Any, threads: int) -> tvm.IRModule:
    """One function for each of ``NAMES``, scheduled for the target."""
    if str(target.kind.name) in _PROCESSORS:
        functions = dict(zip(NAMES, reference_functions(threads), strict=True))
        return tvm.IRModule(_named(functions))
    functions = {
        "compute": _many_steps(),
        "bandwidth": _plus_one(_BANDWIDTH_ELEMENTS),
        "launch": _plus_one(_LAUNCH_ELEMENTS),
    }
    with target:  # another schedule would give devices another class
        return tvm.s_tir.transform.DefaultGPUSchedule()(tvm.IRModule(_named(functions)))


def reference_arguments(on_processor: bool, threads: int) -> dict[str, tuple[TensorArgument, ...]]:
    """The tensors that each function of ``NAMES`` takes."""
    if on_processor:
        return {
            name: tuple(_tensor(parameter) for parameter in function.params)
            for name, function in zip(NAMES, reference_functions(threads), strict=True)
        }
    shapes = {
        "compute": ((_COMPUTE_ELEMENTS,), (_COMPUTE_ELEMENTS,)),
        "bandwidth": ((_BANDWIDTH_ELEMENTS,), (_BANDWIDTH_ELEMENTS,)),
        "launch": ((_LAUNCH_ELEMENTS,), (_LAUNCH_ELEMENTS,)),
    }
    return {
        name: tuple(
            TensorArgument(name=f"T{number}", shape=shape, dtype="float32", is_output=number > 0)
            for number, shape in enumerate(both)
        )
        for name, both in shapes.items()
    }


def _named(functions: dict[str, Any]) -> dict[str, Any]:
    return {name: function.with_attr("global_symbol", name) for name, function in functions.items()}


def _tensor(parameter: Any) -> TensorArgument:
    shape = tuple(int(extent) for extent in parameter.shape)
    return TensorArgument(name=str(parameter.name), shape=shape, dtype=str(parameter.dtype), is_output=False)


def _many_steps() -> Any:
    """Multiply-adds in registers, on every thread of the device."""
    source = te.placeholder((_COMPUTE_ELEMENTS,), name="A")
    step = te.reduce_axis((0, _COMPUTE_STEPS), name="k")
    total = te.compute(
        source.shape, lambda i: te.sum(source[i] * (step.astype("float32") * 0.5 + source[i]), axis=step), name="B"
    )
    return te.create_prim_func([source, total])


def _plus_one(elements: int) -> Any:
    source = te.placeholder((elements,), name="A")
    return te.create_prim_func([source, te.compute(source.shape, lambda i: source[i] + 1.0, name="B")])
