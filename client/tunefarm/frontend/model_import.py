"""Imports a model by way of a confined child. Runs in the command or the caller's process; does not import TVM."""

import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from tunefarm.confined.call import call
from tunefarm.frontend.child import ENTRY, ModelAnswer, ModelQuestion, reference_names
from tunefarm.frontend.model_source import FIELD, ModelFile
from tunefarm.frontend.relax_model import ModelReference
from tunefarm.frontend.weights_file import Array, DamagedWeights, read_weights
from tunefarm.intake.module_source import PythonSource
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_sandbox.fork_server.question import Fixes
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen

FIXES: Final = Fixes(
    too_large="Give fewer shapes.",
    ended="Check that its framework can load it, or raise TUNEFARM_MODEL_MEMORY_BYTES.",
    late="Raise TUNEFARM_MODEL_TIMEOUT_S, or use a smaller model.",
)
_SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class ModelSettings(BaseSettings):
    """Limits of the child that reads a model. Each is the variable of its name prefixed with ``TUNEFARM_MODEL_``."""

    model_config = SettingsConfigDict(env_prefix="TUNEFARM_MODEL_", frozen=True, extra="ignore")

    memory_bytes: int = Field(default_factory=lambda: os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), gt=0)
    """Memory that the child may use, with a copy of the weights. Default: that of the machine."""
    weights_bytes: int = Field(default=16 << 30, gt=0)
    """Size of all weights together."""
    timeout_s: float = Field(default=600.0, gt=0)
    cpu_s: float = Field(default=1800.0, gt=0)
    """Processor time over all cores."""


@dataclass(frozen=True)
class ImportedModel:
    """A model as TVM JSON, with its weights.

    Attributes:
        module_json: a Relax module. Each entry function has the attribute ``num_input``; the parameters after that many
            are its weights.
        weights: of each entry function, read-only, in the order of those parameters. They share one mapping.
        framework: name and version of what wrote the model.
        notes: what a user should know.
        references: results of the framework for random inputs; empty where it did not compute any.
    """

    module_json: str = field(repr=False)
    weights: Mapping[str, tuple[Array, ...]] = field(repr=False)
    framework: str
    notes: tuple[str, ...]
    references: tuple[ModelReference, ...] = ()


def import_model(
    fork_server: ForkServer,
    source: PythonSource | ModelFile,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    *,
    traced: bool = False,
    settings: ModelSettings | None = None,
) -> ImportedModel:
    """Convert a model to Relax in a confined child, as ``read_model`` does.

    Raises:
        BadInput: it cannot be converted, or exceeds the limits of ``settings`` (default: those of the environment).
    """
    question = ModelQuestion(source=source, shapes=shapes or {}, traced=traced)
    return imported_by(fork_server, ENTRY, question, source, settings)


def imported_by(
    fork_server: ForkServer,
    entry: str,
    question: Frozen,
    source: PythonSource | ModelFile,
    settings: ModelSettings | None = None,
) -> ImportedModel:
    """The model that a confined child reads, whose ``entry`` answers with ``ModelAnswer``. Raises BadInput."""
    settings = settings or ModelSettings()
    descriptor = os.memfd_create("weights", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        answer = call(
            fork_server,
            entry,
            question,
            ModelAnswer,
            field=FIELD,
            readable=[readable_path(source)],
            timeout_s=settings.timeout_s,
            limits=child_limits(settings),
            fixes=FIXES,
            descriptors=(descriptor,),
        )
        return _imported(answer, descriptor)
    finally:
        os.close(descriptor)


def readable_path(source: PythonSource | ModelFile) -> Path:
    """What the child may read: a whole folder where a file refers to its neighbours, else one file."""
    path = Path(source.path)
    has_neighbours = isinstance(source, PythonSource) or source.format == "onnx"
    return path.parent if has_neighbours else path


def child_limits(settings: ModelSettings) -> Limits:
    """Limits of a child that reads a model."""
    return Limits(
        memory_bytes=settings.memory_bytes,
        cpu_s=settings.cpu_s,
        file_size_bytes=settings.weights_bytes,
        open_files=1024,
    )


def _imported(answer: ModelAnswer, descriptor: int) -> ImportedModel:
    try:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)  # the child ran code of others, and may still write
        arrays = read_weights(descriptor)
        weights = {entry: tuple(arrays[name] for name in names) for entry, names in answer.weights.items()}
        references = tuple(_reference(arrays, number, *each) for number, each in enumerate(answer.references))
    except (OSError, DamagedWeights, KeyError) as error:
        fix = "Check that nothing in the model's file changes them."
        raise BadInput(FIELD, f"its weights did not arrive: {error}.", fix) from error
    return ImportedModel(
        module_json=answer.module_json,
        weights=weights,
        framework=answer.framework,
        notes=answer.notes,
        references=references,
    )


def _reference(arrays: Mapping[str, Array], number: int, entry: str, *counts: int) -> ModelReference:
    kinds = reference_names(number, *counts)
    return ModelReference(entry, *(tuple(arrays[name] for name in names) for names in kinds))
