"""Gives the dynamic dimensions of a StableHLO module their sizes."""

import io
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func, stablehlo

from tunefarm.frontend.stablehlo.attributes import text
from tunefarm_schemas.bad_input import BadInput

FIELD: Final = "shapes"
_DYNAMIC_MAIN: Final = "tunefarm_dynamic_main"

Shapes = Mapping[str, tuple[int, ...]]


def input_names(function: Any, functions: Mapping[str, Any]) -> list[str]:
    """The names that the program gave its inputs, as far as the file keeps them: JAX's ``params['w']`` is ``params_w``.

    An input without a name is ``arg0``, by its position; a number makes equal names differ.
    """
    seen: dict[str, int] = {}
    names = []
    for argument in function.regions[0].blocks[0].arguments:
        name = re.sub(r"\W+", "_", _given_name(argument, functions)).strip("_") or f"arg{argument.arg_number}"
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return names


def main_input_shapes(module: Any) -> dict[str, tuple[int | str, ...]]:
    """The shapes of the inputs of ``main`` by name, with an empty text for each dynamic size. Raises BadInput."""
    functions = {str(op.name.value): op for op in module.body.operations if op.operation.name == "func.func"}
    if "main" not in functions:
        raise BadInput("model", "It has no function main.", "Export one function with dynamic inputs, as main.")
    main = functions["main"]
    return {
        name: tuple("" if kind.is_dynamic_dim(axis) else kind.get_dim_size(axis) for axis in range(kind.rank))
        for name, kind in zip(input_names(main, functions), _types(main), strict=True)
        if isinstance(kind, ir.RankedTensorType)
    }


def _given_name(argument: Any, functions: Mapping[str, Any]) -> str:
    """From its location, or from that in the function which it is passed to: jax.export wraps functions in a main."""
    location = str(argument.location)
    if location.startswith('loc("'):
        return location.removeprefix('loc("').split('"')[0]
    for use in argument.uses:
        callee = functions.get(text(use.owner, "callee")) if use.owner.name == "func.call" else None
        if callee is not None:
            return _given_name(callee.regions[0].blocks[0].arguments[use.operand_number], functions)
    return ""


def with_shapes(module: Any, functions: Mapping[str, Any], entries: Iterable[str], shapes: Shapes) -> Any:
    """The module with static shapes: itself where it has them, else one whose shapes follow from those of ``main``.

    Raises:
        BadInput: a shape is missing, belongs to no input, or does not fit.
    """
    inputs = {
        name: dict(zip(input_names(functions[name], functions), _types(functions[name]), strict=True))
        for name in entries
    }
    unknown = sorted(set(shapes) - {name for of_entry in inputs.values() for name in of_entry})
    if unknown:
        there = ", ".join(sorted({name for of_entry in inputs.values() for name in of_entry})) or "none"
        raise BadInput(FIELD, f"The model has no input {', '.join(unknown)}.", f"Its inputs are: {there}.")
    dynamic = [entry for entry, of_entry in inputs.items() if _fitted(of_entry, shapes) != list(of_entry.values())]
    if not dynamic:
        return module
    if dynamic != ["main"]:
        others = ", ".join(each for each in dynamic if each != "main")
        raise BadInput(FIELD, f"{others} have dynamic inputs.", "Export one function with dynamic inputs, as main.")
    return _refined(module, functions["main"], _fitted(inputs["main"], shapes))


def _types(function: Any) -> list[Any]:
    return [argument.type for argument in function.regions[0].blocks[0].arguments]


def _fitted(inputs: Mapping[str, Any], shapes: Shapes) -> list[Any]:
    """The types of inputs with their sizes."""
    fitted, missing = [], []
    for name, kind in inputs.items():
        if not isinstance(kind, ir.RankedTensorType):
            fitted.append(kind)
        elif name in shapes:
            fitted.append(_sized(name, kind, shapes[name]))
        else:
            missing += [] if kind.has_static_shape else [f"{name} ({_printed(kind)})"]
            fitted.append(kind)
    if missing:
        fix = "Name the shape of each of them, or export the model with shapes of constants."
        raise BadInput(FIELD, f"Inputs have dimensions of unknown size: {', '.join(missing)}.", fix)
    return fitted


def _sized(name: str, kind: Any, shape: tuple[int, ...]) -> Any:
    fits = len(shape) == kind.rank and all(
        size > 0 and (kind.is_dynamic_dim(axis) or kind.get_dim_size(axis) == size) for axis, size in enumerate(shape)
    )
    if not fits:
        given = "x".join(map(str, shape))
        raise BadInput(FIELD, f"{name} is {_printed(kind)}, not {given}.", "Give a size for each dimension that is ?.")
    with kind.context, ir.Location.unknown():
        return ir.RankedTensorType.get(shape, kind.element_type)


def _printed(kind: Any) -> str:
    return str(kind).removeprefix("tensor<").removesuffix(">")


def _refined(module: Any, main: Any, types: list[Any]) -> Any:
    """Call the function from a ``main`` with static inputs, from which XLA infers all other shapes."""
    arguments = main.regions[0].blocks[0].arguments
    results = main.attributes["function_type"].value.results
    with module.context, ir.Location.unknown():
        main.attributes["sym_name"] = ir.StringAttr.get(_DYNAMIC_MAIN)
        main.attributes["sym_visibility"] = ir.StringAttr.get("private")
        with ir.InsertionPoint(module.body):
            static = func.FuncOp("main", ir.FunctionType.get(types, list(results)), visibility="public")
        block = ir.Block.create_at_start(static.regions[0], types, [each.location for each in arguments])
        with ir.InsertionPoint(block):
            passed = [
                given if given.type == inner.type else stablehlo.convert(inner.type, given)
                for given, inner in zip(block.arguments, arguments, strict=True)
            ]
            func.ReturnOp(func.CallOp(list(results), _DYNAMIC_MAIN, passed).results)
        bytecode = io.BytesIO()
        module.operation.write_bytecode(bytecode)
        try:
            refined = _jax.mlir.refine_polymorphic_shapes(
                mlir_module=bytecode.getvalue(), enable_shape_assertions=True, validate_static_shapes=True
            )
            return ir.Module.parse(refined)
        except (ValueError, RuntimeError, ir.MLIRError) as error:
            reason = " ".join(str(error).split())
            fix = "Give sizes that satisfy the constraints of the export, or export the model with shapes of constants."
            raise BadInput(FIELD, f"Shapes do not follow from these sizes: {reason[:500]}.", fix) from None
