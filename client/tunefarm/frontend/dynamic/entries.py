"""One Relax module of a model that is read for several sizes of its inputs. Called only in a confined child."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tunefarm.frontend.child import ModelAnswer, passed_on, without_torch_cache
from tunefarm.frontend.model_source import FIELD, ModelFile, ModelSource
from tunefarm.frontend.relax_model import RelaxModel
from tunefarm.frontend.weights_file import Array
from tunefarm.intake.module_source import PythonSource
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.question import answer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen

ENTRY: Final = "tunefarm.frontend.dynamic.entries:main"


def read_entries(
    source: PythonSource | ModelFile, entries: Mapping[str, Mapping[str, tuple[int, ...]]], *, traced: bool = False
) -> RelaxModel:
    """Read a model once for each entry, with its shapes; weights with equal contents are one array.

    Raises:
        BadInput: it cannot be read for some sizes, or has several functions to call.
    """
    from tunefarm.frontend.reading import read_model
    from tunefarm_search.relax.merging import merged

    modules: dict[str, Any] = {}
    weights, arrays = {}, _SharedArrays()
    references, notes = [], []
    model = None
    for name, shapes in entries.items():
        model = read_model(source, shapes, traced=traced)
        function = _only_function(model)
        modules[name] = model.module
        weights[name] = tuple(arrays.shared(each) for each in model.weights.get(function, ()))
        notes.append(model.notes)
        references += [replace(each, entry=name) for each in model.references]
    if model is None:
        raise BadInput(FIELD, "no sizes were given.", "Give sizes of its dynamic dimensions.")
    return RelaxModel(
        module=merged(modules, function),
        weights=weights,
        framework=model.framework,
        notes=tuple(note for note in model.notes if all(note in each for each in notes)),
        references=tuple(references),
    )


def _only_function(model: RelaxModel) -> str:
    from tvm import relax

    names = [
        str(variable.name_hint)
        for variable, function in model.module.functions.items()
        if isinstance(function, relax.Function) and "global_symbol" in (function.attrs or {})
    ]
    if len(names) != 1:
        problem = f"it has {len(names)} functions to call: {', '.join(sorted(names))}."
        raise BadInput("bucket", problem, "Export a model with one function, such as main.")
    return names[0]


class EntriesQuestion(Frozen):
    """A model to read, as ``read_entries`` takes it."""

    source: ModelSource
    entries: Mapping[str, Mapping[str, tuple[int, ...]]]
    traced: bool = False


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry of the child: answer one ``EntriesQuestion`` with ``ModelAnswer``, and write the weights."""
    without_torch_cache()
    answer(channel, lambda: _answer(EntriesQuestion.model_validate_json(payload), descriptors[0]))


def _answer(question: EntriesQuestion, weights_descriptor: int) -> ModelAnswer:
    model = read_entries(question.source, question.entries, traced=question.traced)
    return passed_on(model, weights_descriptor)


class _SharedArrays:
    """Arrays by their contents. Those of one size are released when the next is read."""

    def __init__(self) -> None:
        self._known: dict[bytes, Array] = {}

    def shared(self, array: Array) -> Array:
        """The first array with the same type, shape and contents."""
        contiguous = np.ascontiguousarray(array)
        found = hashlib.sha256(f"{array.dtype}{array.shape}".encode())
        found.update(contiguous.reshape(-1).view(np.uint8).data)
        return self._known.setdefault(found.digest(), array)
