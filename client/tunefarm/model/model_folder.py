"""The folder of a compiled model: kernels, bytecode, weights and a manifest."""

import hashlib
import os
import stat
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tunefarm.artifact.artifact_folder import MANIFEST_NAME, reading_folder
from tunefarm.model.library.region_opening import require_region
from tunefarm.model.sizes.size_dispatch import refusal_of_dynamic
from tunefarm.terminal.user_files import read_plain_file
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.kernel_library.check import exported_functions, require_kernel
from tunefarm_schemas.kernel_library.program import (
    BUILTINS,
    MAX_PROGRAM_BYTES,
    functions_of_program,
    refusal_of_program,
)
from tunefarm_schemas.kernel_library.refused import LibraryRefused
from tunefarm_schemas.kernel_library.rules import MAX_BYTES
from tunefarm_schemas.tuning.model import MODEL_FORMAT, ModelManifest

LIBRARY_NAME: Final = "kernels.so"
PROGRAM_NAME: Final = "program.vm"
WEIGHTS_NAME: Final = "weights.safetensors"
_FIX: Final = "Compile the model again; do not load it."
_GIVE: Final = "Give a folder that tunefarm compile wrote."
_CHUNK_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class ModelFiles:
    """The checked contents of a model's folder; ``weights`` is an open descriptor of the weight file."""

    folder: Path
    manifest: ModelManifest
    library: bytes = field(repr=False)
    program: bytes = field(repr=False)
    weights: int


def is_model(text: str) -> bool:
    """Whether a folder holds a compiled model instead of a kernel."""
    try:
        return bool(text.strip()) and (Path(text).expanduser() / PROGRAM_NAME).is_file()
    except (OSError, ValueError, RuntimeError):
        return False


def external_functions(program: bytes, kernels: Collection[str]) -> tuple[str, ...]:
    """The functions that a program calls and neither its library nor TVM's VM has: its user must register them.

    Raises:
        BadInput: the program is damaged.
    """
    try:
        called = functions_of_program(program).called
    except LibraryRefused as refused:
        raise BadInput("model", f"the program is refused: {refused}.", _FIX) from refused
    return tuple(sorted(set(called) - BUILTINS - set(kernels)))


def kernels_of(library: bytes) -> tuple[str, ...]:
    """The names of the functions of a library.

    Raises:
        BadInput: it is not a library, or is damaged.
    """
    try:
        return exported_functions(library)
    except LibraryRefused as refused:
        raise BadInput("model", f"the library is refused: {refused}.", _FIX) from refused


def read_model_folder(text: str, callees: Collection[str] | None = ()) -> ModelFiles:
    """Read and check a compiled model. The caller closes ``weights``.

    ``callees`` are external functions that it may call; None permits all, for a process that only passes it on.

    Raises:
        BadInput: there is no compiled model, its files do not match its manifest, or they are not permitted.
    """
    with reading_folder(text, "a compiled model", "that of a model", _GIVE) as folder:
        manifest = ModelManifest.model_validate_json(read_plain_file(folder / MANIFEST_NAME))
        library = read_plain_file(folder / LIBRARY_NAME, limit_bytes=MAX_BYTES)
        program = read_plain_file(folder / PROGRAM_NAME, limit_bytes=MAX_PROGRAM_BYTES)
    if manifest.format > MODEL_FORMAT:
        problem = f"its manifest has the format {manifest.format}, newer than {MODEL_FORMAT}."
        raise BadInput("folder", problem, "Install the version of tunefarm that wrote it.")
    if digest(library) != manifest.library or digest(program) != manifest.program:
        raise BadInput("folder", "the kernels or the program do not match the manifest.", _FIX)
    if (refusal := refusal_of_dynamic(manifest)) is not None:
        raise BadInput("folder", f"its manifest is damaged: {refusal}.", _FIX)
    for region in manifest.regions:
        require_region(folder, region)
    permitted = external_functions(program, kernels_of(library)) if callees is None else callees
    require_model(library, program, (*permitted, *(region.name for region in manifest.regions)))
    return ModelFiles(folder, manifest, library, program, _checked_weights(folder / WEIGHTS_NAME, manifest.weights))


def require_model(library: bytes, program: bytes, callees: Collection[str] = ()) -> None:
    """Require that kernels and program use only what they may, and ``callees``.

    Raises:
        BadInput: they do not.
    """
    require_kernel(library, "folder", fix=_FIX)
    require_program(library, program, callees)


def require_program(library: bytes, program: bytes, callees: Collection[str] = ()) -> None:
    """Require that a program uses only what it may, the kernels of a checked library, and ``callees``.

    Raises:
        BadInput: it does not.
    """
    refusal = refusal_of_program(program, kernels_of(library), callees)
    if refusal is not None:
        fix = "Register the function, and name it with --functions FILE.py." if "it calls" in refusal else _FIX
        raise BadInput("folder", f"the program is refused: {refusal}.", fix)


def _checked_weights(path: Path, expected: str) -> int:
    """A descriptor of the weight file. It is not sealed: weights are data, and their types and shapes are checked."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise BadInput("folder", f"its {path.name} cannot be read ({error.strerror}).", _GIVE) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or file_digest(descriptor) != expected:
            raise BadInput("folder", "its weights do not match the manifest.", _FIX)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def file_digest(descriptor: int) -> str:
    """Hexadecimal SHA-256 of a file."""
    found, at = hashlib.sha256(), 0
    while chunk := os.pread(descriptor, _CHUNK_BYTES, at):
        found.update(chunk)
        at += len(chunk)
    return found.hexdigest()
