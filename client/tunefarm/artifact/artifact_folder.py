"""The folder of an artifact: a compiled library, its manifest and its function as files."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from tunefarm.terminal.user_files import put_file, read_plain_file, require_named
from tunefarm_schemas import SCHEMA_VERSION
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.kernel_library.check import KERNEL, require_kernel
from tunefarm_schemas.kernel_library.rules import LibraryRules
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.tuning.input_spec import InputExample, example_name

MANIFEST_NAME: Final = "manifest.json"
WORKLOAD_NAME: Final = "workload.json"


def task_folder(folder: Path, number: int, tasks: int) -> Path:
    """The folder for the artifact of task ``number`` (from 0): ``folder`` itself if there is only one task."""
    return folder if tasks == 1 else folder / f"task-{number + 1}"


def write_artifact(
    folder: Path,
    manifest: ArtifactManifest,
    library: bytes,
    module_json: str,
    examples: Sequence[InputExample] = (),
    rules: LibraryRules = KERNEL,
) -> Path:
    """Write the files into ``folder``; returns the path of the library, which is named after its digest.

    ``module_json`` is the source function, against which ``artifact run`` checks the library, with ``examples`` as
    inputs if the manifest's input specs name them.

    Raises:
        BadInput: ``rules`` do not permit the library; nothing is written.
    """
    require_kernel(library, "library", rules)
    named = manifest.model_copy(update={"library_name": library_name(manifest)})
    path = folder / named.library_name
    put_file(path, library)
    put_file(folder / WORKLOAD_NAME, module_json.encode())
    for example in examples:
        put_file(folder / example_name(example.example_digest), example.content)
    put_file(folder / MANIFEST_NAME, f"{named.model_dump_json(indent=2)}\n".encode())
    return path


@contextmanager
def reading_folder(text: str, holds: str, manifest_is: str, fix: str) -> Iterator[Path]:
    """The folder that a user names, to read its manifest and the files beside it.

    ``holds`` and ``manifest_is`` say in errors what the folder and its manifest should be.

    Raises:
        BadInput: for ``folder``: it cannot be read, or its manifest is another one.
    """
    require_named("folder", text, "folder")
    try:
        yield Path(text).expanduser().resolve()
    except ValidationError as error:
        problem = f"its {MANIFEST_NAME} is not {manifest_is} ({error.error_count()} errors)."
        raise BadInput("folder", problem, fix) from error
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput("folder", f"{text[:300]!r} does not contain {holds} ({reason}).", fix) from error


def read_artifact(text: str, callees: Collection[str] = ()) -> tuple[ArtifactManifest, bytes, Path]:
    """Read and check an artifact: returns its manifest, its library and its folder.

    ``callees`` are external functions that the library may call.

    Raises:
        BadInput: there is no artifact, its library does not match the manifest, or it is not permitted.
    """
    fix = "Give a folder written by tunefarm artifact build or tune --output."
    with reading_folder(text, "an artifact", "a manifest", fix) as folder:
        manifest = ArtifactManifest.model_validate_json(read_plain_file(folder / MANIFEST_NAME))
        library = read_plain_file(folder / library_name(manifest))
    if manifest.schema_version > SCHEMA_VERSION:
        problem = f"its manifest has version {manifest.schema_version}, newer than {SCHEMA_VERSION}."
        raise BadInput("folder", problem, "Install the version of tunefarm that wrote it.")
    if digest(library) != manifest.library_digest:
        raise BadInput("folder", "the library does not match its manifest.", "Build it again; do not load it.")
    # The target in the manifest must not widen the rules: the manifest is as untrusted as the library.
    require_kernel(library, "folder", LibraryRules(callees=tuple(callees)))
    return manifest, library, folder


def read_workload(folder: Path, manifest: ArtifactManifest) -> str | None:
    """The source function of the artifact in ``folder`` as JSON; None if the folder does not contain it.

    Raises:
        BadInput: the function does not match the manifest.
    """
    try:
        content = read_plain_file(folder / WORKLOAD_NAME)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(
            "folder", f"its {WORKLOAD_NAME} cannot be read ({error.strerror}).", "Build it again."
        ) from error
    if digest(content) != manifest.workload_id:
        raise BadInput("folder", f"its {WORKLOAD_NAME} does not match its manifest.", "Build it again.")
    return content.decode()


def library_name(manifest: ArtifactManifest) -> str:
    """The file name of the library. Raises ``BadInput`` if the manifest has no digest."""
    # Derived from the digest: an untrusted name in the manifest must not choose which file is written or loaded.
    if not re.fullmatch("[0-9a-f]{64}", manifest.library_digest):
        raise BadInput("folder", "its manifest has no SHA-256 digest.", "Build it again; do not load it.")
    return f"{manifest.library_digest[:16]}.so"
