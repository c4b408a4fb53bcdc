"""Writes the folder of a compiled model: all of its files, or none."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tunefarm.artifact.artifact_folder import MANIFEST_NAME
from tunefarm.frontend.model_import import ImportedModel
from tunefarm.model.messages import PreparedParts
from tunefarm.model.model_folder import LIBRARY_NAME, PROGRAM_NAME, WEIGHTS_NAME, kernels_of
from tunefarm.terminal.user_files import put_file
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.model import MODEL_FORMAT, EntryWeights, ModelFunction, ModelManifest

DEFAULT_ENTRY: Final = "main"
STAGING_PREFIX: Final = ".compiling-"
_LOCKED_AFTER_S: Final = 1.0
"""A process locks its staging folder at once after it created it."""
REGION_FILES: Final = "region-[0-9]*.onnx"


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A folder for files that replace those of ``folder`` in the end. An error leaves nothing behind.

    It is locked until then: what a killed process left there, the next one removes.
    """
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(folder)
    staging = Path(tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=folder))
    descriptor = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        staging.chmod(0o755)
        yield staging
        regions = {path.name for path in staging.glob(REGION_FILES)}
        for name in (*sorted(regions), WEIGHTS_NAME, LIBRARY_NAME, PROGRAM_NAME, MANIFEST_NAME):
            (staging / name).replace(folder / name)
        for path in folder.glob(REGION_FILES):
            if path.name not in regions:
                path.unlink()  # of the model that was here before
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        os.close(descriptor)
        if is_new:
            with suppress(OSError):  # it has files
                folder.rmdir()


def copy_model(source: Path, folder: str | Path) -> Path:
    """Copy a model to a new folder or in place of another model, which processes that have loaded it keep."""
    folder = Path(folder)
    if folder.exists() and folder.samefile(source):
        return folder
    with staged(folder) as staging:
        for path in source.iterdir():
            if path.is_file():
                shutil.copyfile(path, staging / path.name)
    return folder


def _remove_abandoned(folder: Path) -> None:
    """Remove staging folders that no process has locked. One that was just created may not be locked yet."""
    for left in folder.glob(f"{STAGING_PREFIX}*"):
        with suppress(OSError):  # another process removed it, or it is no folder
            descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                is_old = time.time() - os.fstat(descriptor).st_mtime > _LOCKED_AFTER_S
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_old:
                    shutil.rmtree(left)
            finally:
                os.close(descriptor)


def write_model(folder: Path, manifest: ModelManifest, library: bytes, program: bytes, weights: Path) -> None:
    """Put the files of a model into ``folder``; ``weights`` is moved there."""
    weights.replace(folder / WEIGHTS_NAME)
    put_file(folder / LIBRARY_NAME, library)
    put_file(folder / PROGRAM_NAME, program)
    write_manifest(folder, manifest)


def write_program(folder: Path, manifest: ModelManifest, program: bytes, regions: Sequence[bytes]) -> None:
    """Put the files of a model into ``folder`` that depend on which parts libraries run."""
    for region, content in zip(manifest.regions, regions, strict=True):
        put_file(folder / region.file, content)
    put_file(folder / PROGRAM_NAME, program)
    write_manifest(folder, manifest)


def write_manifest(folder: Path, manifest: ModelManifest) -> None:
    """Write, or replace, the manifest in ``folder``."""
    put_file(folder / MANIFEST_NAME, f"{manifest.model_dump_json(indent=2)}\n".encode())


@dataclass(frozen=True)
class NewFile:
    """An open file and its path."""

    descriptor: int
    path: Path


@contextmanager
def new_file(folder: Path) -> Iterator[NewFile]:
    """A file that is removed in the end, unless it was renamed."""
    descriptor, name = tempfile.mkstemp(prefix=".weights-", dir=folder)
    try:
        os.fchmod(descriptor, 0o644)
        yield NewFile(descriptor, Path(name))
    finally:
        os.close(descriptor)
        Path(name).unlink(missing_ok=True)


def model_manifest(
    model: ImportedModel,
    parts: PreparedParts,
    name: str,
    library: bytes,
    program: bytes,
    weights_digest: str,
    functions: Sequence[ModelFunction],
    callees: Sequence[str],
) -> ModelManifest:
    """The manifest of a build. ``functions`` are its scheduled functions, ``callees`` its external ones."""
    scheduled = {each.name for each in functions}
    # TVM exports the only function of an object file under a second name.
    others = sorted(set(kernels_of(library)) - scheduled - {DEFAULT_ENTRY})
    return ModelManifest(
        format=MODEL_FORMAT,
        name=name,
        framework=model.framework,
        tunefarm_version=version("tunefarm"),
        tvm_version=parts.tvm_version,
        code_generator=parts.code_generator,
        target=parts.target.canonical,
        num_cores=parts.target.num_cores,
        entries=parts.entries,
        entry_weights=tuple(EntryWeights(entry=entry, weights=names) for entry, names in parts.entry_weights.items()),
        updated_inputs=parts.updated_inputs,
        functions=(*functions, *(ModelFunction(name=each, kind="unscheduled") for each in others)),
        callees=tuple(callees),
        library=digest(library),
        program=digest(program),
        weights=weights_digest,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
