"""C source of a model's plan, for a C11 compiler and ``deploy/edge/runtime``: tables, and no code."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_search.relax.static_plan.plan import COPY, KernelCall, Place, PlannedTensor, StaticPlan

KERNEL_PREFIX: Final = "__tvm_ffi_"
"""Of the symbols of compiled functions."""
_PLACES: Final = {
    "input": "TUNEFARM_INPUT",
    "output": "TUNEFARM_OUTPUT",
    "weights": "TUNEFARM_WEIGHTS",
    "arena": "TUNEFARM_ARENA",
}
_CODES: Final = (("bfloat", "kDLBfloat"), ("uint", "kDLUInt"), ("float", "kDLFloat"), ("int", "kDLInt"))


def model_source(plans: Mapping[str, StaticPlan], prefix: str = "") -> str:
    """Constants of the type ``TunefarmModel``, by their names, which are identifiers of C.

    ``prefix`` begins the names under which the kernels were compiled.
    """
    kernels = dict.fromkeys(each for plan in plans.values() for each in plan.functions)
    lines = ['#include "tunefarm_model.h"', ""]
    lines += [f"int32_t {KERNEL_PREFIX}{prefix}{each}(void *, void *, int32_t, void *);" for each in kernels]
    for number, (name, plan) in enumerate(plans.items()):
        lines += ["", *_tables(plan, name, f"entry{number}_" if len(plans) > 1 else "", prefix)]
    return "\n".join([*lines, ""])


def _tables(plan: StaticPlan, name: str, prefix: str, of_kernels: str) -> list[str]:
    """One constant with its tables, whose names begin with ``prefix``; those of kernels begin with ``of_kernels``."""
    tensors = [_tensor(f"{prefix}shape{number}", each) for number, each in enumerate(plan.tensors)]
    calls = [_call(f"{prefix}call{number}", each, of_kernels) for number, each in enumerate(plan.calls)]
    return [
        *_shapes(prefix, plan.tensors),
        *_table("TunefarmTensor", f"{prefix}tensors", tensors),
        *(_numbers(f"{prefix}call{number}", each.tensors) for number, each in enumerate(plan.calls)),
        *_table("TunefarmCall", f"{prefix}calls", calls),
        *_table("TunefarmArgument", f"{prefix}inputs", _arguments(plan, plan.entry.inputs, "input")),
        *_table("TunefarmArgument", f"{prefix}outputs", _arguments(plan, plan.entry.outputs, "output")),
        "",
        f"const TunefarmModel {name} = {{",
        f"  {_text(plan.entry.name)}, {plan.weights_bytes}, {plan.arena_bytes},",
        f"  {len(plan.entry.inputs)}, {len(plan.entry.outputs)}, {len(plan.calls)},",
        f"  {prefix}inputs, {prefix}outputs, {prefix}tensors, {prefix}calls,",
        "};",
    ]


def model_header(plan: StaticPlan, name: str) -> str:
    """The declaration of the model, with the sizes that its user needs."""
    arguments = [
        f" *   {each.name}: {each.dtype}[{', '.join(map(str, each.shape))}]"
        for each in (*plan.entry.inputs, *plan.entry.outputs)
    ]
    return "\n".join(
        [
            "/* Inputs, then outputs:",
            *(line.replace("*/", "* /") for line in arguments),
            " */",
            f"#ifndef {name.upper()}_H_",
            f"#define {name.upper()}_H_",
            '#include "tunefarm_model.h"',
            f"#define {name.upper()}_ARENA_BYTES {max(plan.arena_bytes, 1)}",
            f"#define {name.upper()}_WEIGHTS_BYTES {plan.weights_bytes}",
            "#ifdef __cplusplus",
            'extern "C"',
            "#endif",
            f"extern const TunefarmModel {name};",
            "#endif",
            "",
        ]
    )


def _shapes(prefix: str, tensors: Sequence[PlannedTensor]) -> list[str]:
    return [
        f"static const int64_t {prefix}shape{number}[] = {{{', '.join(map(str, each.shape)) or '0'}}};"
        for number, each in enumerate(tensors)
    ]


def _tensor(shape: str, tensor: PlannedTensor) -> str:
    size_bytes = math.prod(tensor.shape) * _bits(tensor.dtype) // 8
    kind = f"{{{_code(tensor.dtype)}, {_bits(tensor.dtype)}, 1}}"
    where = f"{len(tensor.shape)}, {shape}, {tensor.position}, {size_bytes}"
    return f"{{{_PLACES[tensor.place]}, {kind}, {where}}}"


def _call(tensors: str, call: KernelCall, of_kernels: str) -> str:
    kernel = "NULL" if call.function == COPY else f"{KERNEL_PREFIX}{of_kernels}{call.function}"
    return f"{{{kernel}, {len(call.tensors)}, {tensors}}}"


def _arguments(plan: StaticPlan, arguments: Sequence[TensorArgument], place: Place) -> list[str]:
    numbers = {(each.place, each.position, each.shape): number for number, each in enumerate(plan.tensors)}
    found = (numbers.get((place, position, each.shape), -1) for position, each in enumerate(arguments))
    return [f"{{{_text(each.name)}, {number}}}" for each, number in zip(arguments, found, strict=True)]


def _table(kind: str, name: str, rows: Sequence[str]) -> list[str]:
    """A constant array. C has no empty ones, so those have one element of zeros."""
    return [f"static const {kind} {name}[] = {{", *(f"  {row}," for row in rows or ["{0}"]), "};"]


def _numbers(name: str, numbers: Sequence[int]) -> str:
    return f"static const int32_t {name}[] = {{{', '.join(map(str, numbers))}}};"


def _code(dtype: str) -> str:
    if dtype == "bool":
        return "kDLBool"
    return next(code for prefix, code in _CODES if dtype.startswith(prefix))


def _bits(dtype: str) -> int:
    return 8 if dtype == "bool" else int("".join(each for each in dtype if each.isdigit()))


def _text(text: str) -> str:
    """A string literal. Characters beyond letters, digits and a few signs are written by their bytes in octal."""
    plain = (
        chr(byte) if (chr(byte).isalnum() and byte < 128) or byte in b"_-. []" else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return f'"{"".join(plain)}"'
