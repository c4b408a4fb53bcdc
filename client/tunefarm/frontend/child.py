"""The child that reads a model. Its answer is the module; the weights go to a file that its parent passed."""

import gc
import os
from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from tunefarm.frontend.model_source import FIELD, ModelSource
from tunefarm.frontend.relax_model import ModelReference, RelaxModel
from tunefarm.frontend.weights_file import Array, write_weights
from tunefarm_sandbox.channel.channel import MAX_MESSAGE_BYTES, Channel
from tunefarm_sandbox.fork_server.question import answer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen

ENTRY: Final = "tunefarm.frontend.child:main"
_REST_OF_MESSAGE_BYTES: Final = 16 << 20
_GARBAGE_THRESHOLD: Final = 50_000
"""Objects between collections. The imports of a framework create hundreds of thousands of objects that stay."""


class ModelQuestion(Frozen):
    """A model to read, as ``read_model`` takes it."""

    source: ModelSource
    shapes: Mapping[str, tuple[int, ...]] = {}
    traced: bool = False


class ModelAnswer(Frozen):
    """A model as TVM JSON. ``weights`` names those of each entry function in the file; several may share one.

    ``references`` gives the entry function and the numbers of inputs, outputs and exact outputs of each; the file holds
    their arrays.
    """

    module_json: str = Field(repr=False)
    weights: Mapping[str, tuple[str, ...]]
    framework: str
    notes: tuple[str, ...]
    references: tuple[tuple[str, int, int, int], ...] = ()


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry of the child. ``descriptors`` holds the file for the weights."""
    without_torch_cache()
    gc.set_threshold(_GARBAGE_THRESHOLD)
    answer(channel, lambda: read(ModelQuestion.model_validate_json(payload), descriptors[0]))


def without_torch_cache() -> None:
    """Let torch be imported: it then creates its cache, and this process may not write to any folder."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", "/")


def read(question: ModelQuestion, weights_descriptor: int) -> ModelAnswer:
    """Read a model, and write its weights.

    Raises:
        BadInput: it cannot be converted, or is too large.
    """
    from tunefarm.frontend.reading import read_model

    return passed_on(read_model(question.source, question.shapes, traced=question.traced), weights_descriptor)


def passed_on(model: RelaxModel, weights_descriptor: int) -> ModelAnswer:
    """Write the weights of a model. Raises BadInput if they are too large."""
    named, names = _named(model)
    named.update(_of_references(model))
    try:
        write_weights(weights_descriptor, named)
    except (OSError, ValueError) as error:
        fix = "Raise TUNEFARM_MODEL_WEIGHTS_BYTES, or use a smaller model."
        raise BadInput(FIELD, f"its weights cannot be passed on: {error}.", fix) from error
    module_json = _json_of(model.module)
    return ModelAnswer(
        module_json=module_json,
        weights=names,
        framework=model.framework,
        notes=model.notes,
        references=tuple((each.entry, *map(len, _arrays_of(each))) for each in model.references),
    )


def reference_names(number: int, *counts: int) -> tuple[tuple[str, ...], ...]:
    """The names in the file of as many inputs, outputs and exact outputs of a reference."""
    kinds = ("input", "output", "exact")
    return tuple(
        tuple(f"reference.{number}.{kind}.{index}" for index in range(count))
        for kind, count in zip(kinds, counts, strict=True)
    )


def _of_references(model: RelaxModel) -> dict[str, Array]:
    held: dict[str, Array] = {}
    for number, reference in enumerate(model.references):
        kinds = _arrays_of(reference)
        for names, arrays in zip(reference_names(number, *map(len, kinds)), kinds, strict=True):
            held.update(zip(names, arrays, strict=True))
    return held


def _arrays_of(reference: ModelReference) -> tuple[tuple[Array, ...], tuple[Array, ...], tuple[Array, ...]]:
    return reference.inputs, reference.outputs, reference.exact


def _json_of(module: Any) -> str:
    import tvm

    gc.collect()
    text = str(tvm.ir.save_json(module))
    if len(text) > MAX_MESSAGE_BYTES - _REST_OF_MESSAGE_BYTES:
        fix = "Pass large constants as parameters of the model."
        raise BadInput(FIELD, f"it has {len(text) >> 20} MiB without its weights.", fix)
    return text


def _named(model: RelaxModel) -> tuple[dict[str, Array], dict[str, tuple[str, ...]]]:
    """Each array once under a name in the file, and the names of each entry function's weights."""
    named: dict[str, Array] = {}
    name_of: dict[int, str] = {}
    names: dict[str, tuple[str, ...]] = {}
    for entry, arrays in model.weights.items():
        for index, array in enumerate(arrays):
            if id(array) not in name_of:
                name_of[id(array)] = f"weight.{entry}.{index}"
                named[f"weight.{entry}.{index}"] = array
        names[entry] = tuple(name_of[id(array)] for array in arrays)
    return named, names
