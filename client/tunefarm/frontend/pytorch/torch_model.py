"""Models of torch by way of ``torch.export``. Called only in a confined child."""

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.ao.quantization.fx._decomposed  # defines the operators of quantized models, which a file only names
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tunefarm.frontend.model_source import FIELD
from tunefarm.frontend.pytorch.decomposition import decomposed
from tunefarm.frontend.pytorch.example_inputs import ExampleInputs, example_inputs_of
from tunefarm.frontend.pytorch.model_state import state_of
from tunefarm.frontend.pytorch.module_export import evaluate, exported_program
from tunefarm.frontend.pytorch.operators.complex_numbers import is_complex
from tunefarm.frontend.pytorch.operators.nodes import value_of
from tunefarm.frontend.pytorch.package_operators import define_grouped_product
from tunefarm.frontend.pytorch.program_translation import Converters, translated
from tunefarm.frontend.pytorch.pt2_archive import require_safe_archive
from tunefarm.frontend.pytorch.references import references_of
from tunefarm.frontend.relax_model import RelaxModel
from tunefarm.intake.user_file import describe
from tunefarm_schemas.bad_input import BadInput

if TYPE_CHECKING:
    from tunefarm.frontend.pytorch.torch_fx import TracedModule

Shapes = Mapping[str, tuple[int, ...]]

_EVALUATED: Final = "The module was in training mode; it was converted in evaluation mode."
_INPUTS_FIX: Final = "Set example_inputs in the file or on the module: a tuple of tensors, as forward takes them."
_OLD_FILE_FIX: Final = "Save it again with torch.export.save, by a version of torch that is not newer than this one."


def import_pt2(path: Path, shapes: Shapes) -> RelaxModel:
    """Convert a file that ``torch.export.save`` wrote.

    ``shapes`` gives the sizes of inputs with dynamic dimensions, by name.

    Raises:
        BadInput: it is damaged, contains pickled objects, or cannot be converted.
    """
    return import_program(load_pt2(path), shapes, {})


def load_pt2(path: Path) -> ExportedProgram:
    """Load a file that ``torch.export.save`` wrote. Raises BadInput if it is damaged or contains pickled objects."""
    require_safe_archive(path)
    define_grouped_product()
    os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"  # torch falls back to whole pickles otherwise
    try:
        return torch.export.load(path)
    except Exception as error:
        problem = f"torch {torch.__version__} cannot load {path.name}: {describe(error)}."
        raise BadInput(FIELD, problem, _OLD_FILE_FIX) from error


def import_torch(
    found: torch.nn.Module | ExportedProgram, inputs: Any, shapes: Shapes, converters: Converters, *, traced: bool
) -> RelaxModel:
    """Convert a module with example inputs, or an exported program.

    Args:
        found: the model. A module is exported in evaluation mode; if that fails, it is traced with torch.fx.
        inputs: a tuple of tensors, one tensor, or a dictionary of keyword arguments.
        shapes: sizes of inputs by name: they replace those of the examples, or of dynamic dimensions.
        converters: of the user, by the name of an operator such as ``mylib::gelu``.
        traced: trace it with torch.fx without exporting it.

    Raises:
        BadInput: it cannot be converted.
    """
    if isinstance(found, ExportedProgram):
        return import_program(found, shapes, converters)
    _require_contents(found)
    was_training = found.training
    evaluate(found)
    notes = (_EVALUATED,) if was_training and not found.training else ()
    if inputs is None:
        inputs = getattr(found, "example_inputs", None)
    arguments, keywords = _arguments(found, inputs, shapes)
    # Imported here because fewer models need it.
    from tunefarm.frontend.pytorch.torch_fx import NotTraceable, trace_of

    if traced:
        model = _import_trace(trace_of(found, arguments, keywords, converters), converters)
        return replace(model, notes=(*notes, *model.notes))
    try:
        program = exported_program(found, arguments, keywords)
    except BadInput as refused:
        try:
            trace = trace_of(found, arguments, keywords, converters)
        except NotTraceable:
            raise refused from None
        model = _import_trace(trace, converters)
        notes = (*notes, f"torch.fx traced the module, because {refused.problem}")
        return replace(model, notes=(*notes, *model.notes))
    model = import_program(program, {}, converters)
    return replace(model, notes=(*notes, *model.notes))


def _import_trace(trace: "TracedModule", converters: Converters) -> RelaxModel:
    from tunefarm.frontend.pytorch.torch_fx import import_trace

    if trace.has_converters:
        return import_trace(trace, converters)
    return import_program(exported_program(trace.module, trace.inputs), {}, converters)


def import_program(program: ExportedProgram, shapes: Shapes, converters: Converters) -> RelaxModel:
    """Convert an exported program, for one size of each input.

    Raises:
        BadInput: operators have no conversion, dynamic dimensions have no size, or it changes its parameters.
    """
    _refuse_complex_inputs(program)
    program, notes = _with_sizes(program, shapes)
    core = decomposed(program)
    state = state_of(core)
    model = translated(core, state, converters)
    notes = (*notes, *model.notes, *state.notes())
    return replace(model, notes=notes, references=references_of(program, state))


def _require_contents(module: torch.nn.Module) -> None:
    missing = [name for name, tensor in module.state_dict().items() if tensor.is_meta]
    if missing:
        problem = f"weights have no contents: {', '.join(missing[:10])}."
        raise BadInput(FIELD, problem, "Load the weights; a module on the device meta has none.")


def _arguments(module: torch.nn.Module, inputs: Any, shapes: Shapes) -> ExampleInputs:
    if inputs is None:
        raise BadInput(FIELD, f"the {type(module).__name__} has no example inputs.", _INPUTS_FIX)
    examples = example_inputs_of(inputs)
    if not any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(tuple(examples))):
        raise BadInput(FIELD, "its example inputs contain no tensor.", _INPUTS_FIX)
    if not shapes:
        return examples
    named = examples.named(module)
    if unknown := sorted(shapes.keys() - named.keys()):
        raise _no_such_input(unknown, sorted(named))
    return examples.replaced({name: _resized(value, shapes.get(name)) for name, value in named.items()})


def example_shapes(module: torch.nn.Module, inputs: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of a module's example inputs that are tensors, by name. Raises BadInput if it has none."""
    examples = _arguments(module, getattr(module, "example_inputs", None) if inputs is None else inputs, {})
    named = examples.named(module)
    return {name: tuple(value.shape) for name, value in named.items() if isinstance(value, torch.Tensor)}


def _resized(value: Any, size: tuple[int, ...] | None) -> Any:
    """The value of an example in another size: its elements, as often as they fit."""
    if size is None or not isinstance(value, torch.Tensor):
        return value
    count, elements = math.prod(size), value.detach().reshape(-1)
    if value.numel() == 0:
        return value.new_zeros(size)
    return elements.repeat(-(-count // value.numel()))[:count].reshape(size)


def _with_sizes(program: ExportedProgram, shapes: Shapes) -> tuple[ExportedProgram, tuple[str, ...]]:
    """The program for the given sizes: exported again if it has dynamic dimensions."""
    sizes = input_sizes(program)
    if unknown := sorted(shapes.keys() - sizes.keys()):
        raise _no_such_input(unknown, list(sizes))
    for name, size in shapes.items():
        _judge_size(name, sizes[name], size)
    dynamic = {name: size for name, size in sizes.items() if not all(isinstance(extent, int) for extent in size)}
    if not dynamic:
        return program, ()
    if missing := {name: size for name, size in dynamic.items() if name not in shapes}:
        listed = ", ".join(f"{name} ({', '.join(map(str, size))})" for name, size in missing.items())
        example = next(iter(missing))
        shape = ", ".join(str(extent) if isinstance(extent, int) else "1" for extent in missing[example])
        fix = f"Give the sizes of each, such as {example}: {shape}."
        raise BadInput("shapes", f"inputs have dynamic dimensions: {listed}.", fix)
    arguments, keywords = _sized_inputs(program, shapes)
    try:
        with torch.no_grad():
            fixed = torch.export.export(program.module(), arguments, keywords)
    except Exception as error:
        fix = "Give sizes within the bounds that the program was exported with."
        raise BadInput("shapes", f"the model cannot have these sizes: {describe(error)}.", fix) from error
    return fixed, tuple(f"{name} was fixed at {shapes[name]}." for name in dynamic)


def input_sizes(program: ExportedProgram) -> dict[str, tuple[Any, ...]]:
    """The shapes of the inputs by name, with the text of each symbolic size."""
    values = {node.name: node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")}
    names = program.graph_signature.user_inputs
    return {
        str(name): tuple(extent if isinstance(extent, int) else str(extent) for extent in values[name].shape)
        for name in names
        if isinstance(values.get(str(name)), torch.Tensor)
    }


def _sized_inputs(program: ExportedProgram, shapes: Shapes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs of the given sizes with the elements of the program's example inputs; zeros if it has none."""
    values = {node.name: node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")}
    names = program.graph_signature.user_inputs
    examples = pytree.tree_leaves(program.example_inputs)
    leaves = []
    for name, example in zip(names, examples if len(examples) == len(names) else [None] * len(names), strict=True):
        value = values.get(str(name), name)
        if isinstance(value, torch.Tensor):
            size = shapes.get(str(name), tuple(value.shape))
            is_like = isinstance(example, torch.Tensor) and example.dtype == value.dtype
            value = _resized(example, size) if is_like else torch.zeros(size, dtype=value.dtype)
        leaves.append(value)
    arguments, keywords = pytree.tree_unflatten(leaves, program.call_spec.in_spec)
    return tuple(arguments), dict(keywords)


def _judge_size(name: str, declared: tuple[Any, ...], size: tuple[int, ...]) -> None:
    fits = len(declared) == len(size) and all(
        not isinstance(extent, int) or extent == given for extent, given in zip(declared, size, strict=True)
    )
    if not fits or any(extent < 1 for extent in size):
        shown = ", ".join(map(str, declared))
        fix = "Give positive sizes that agree with its fixed dimensions, or export it with dynamic ones."
        raise BadInput("shapes", f"{name} is ({shown}) in the model, which {size} does not fit.", fix)


def _refuse_complex_inputs(program: ExportedProgram) -> None:
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    for name in program.graph_signature.user_inputs:  # some may be numbers
        if name in nodes and is_complex(value_of(nodes[name])):
            fix = "Take real and imaginary parts along a last axis, and call torch.view_as_complex in the model."
            raise BadInput(FIELD, f"its input {name} has complex numbers.", fix)


def _no_such_input(unknown: list[str], known: list[str]) -> BadInput:
    return BadInput("shapes", f"the model has no input {', '.join(unknown)}.", f"Its inputs are {', '.join(known)}.")
