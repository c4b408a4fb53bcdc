"""A compiled library, its manifest and its function as files, the form in which an artifact leaves the store."""

import re
from collections.abc import Collection, Sequence
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
    """Where the artifact of a job's task lies, counted from 0: in ``folder`` itself where there is no other."""
    return folder if tasks == 1 else folder / f"task-{number + 1}"


def write_artifact(
    folder: Path,
    manifest: ArtifactManifest,
    library: bytes,
    module_json: str,
    examples: Sequence[InputExample] = (),
    rules: LibraryRules = KERNEL,
) -> Path:
    """Write the files into ``folder``; the path of the library, whose name is made from its digest.

    ``module_json`` is the function that was compiled, against which the library can be checked later, on ``examples``
    where the manifest's input specs name some.

    Raises:
        BadInput: the library is not one that ``rules`` allow to be loaded; nothing is written.
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


def read_artifact(text: str, callees: Collection[str] = ()) -> tuple[ArtifactManifest, bytes, Path]:
    """The manifest, the library and the folder of an artifact, its digest and its library checked.

    ``callees`` are functions outside of it that the library may call.

    Raises:
        BadInput: there is no artifact, or its library is not the one that the manifest describes, or none to be loaded.
    """
    require_named("folder", text, "folder")
    fix = "Give a folder that tunefarm artifact build or tune --output has written."
    try:
        folder = Path(text).expanduser().resolve()
        manifest = ArtifactManifest.model_validate_json(read_plain_file(folder / MANIFEST_NAME))
        library = read_plain_file(folder / library_name(manifest))
    except ValidationError as error:
        raise BadInput(
            "folder", f"its {MANIFEST_NAME} is not a manifest ({error.error_count()} errors).", fix
        ) from error
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput("folder", f"{text[:300]!r} holds no artifact ({reason}).", fix) from error
    if manifest.schema_version > SCHEMA_VERSION:
        problem = f"its manifest has version {manifest.schema_version}, newer than {SCHEMA_VERSION}."
        raise BadInput("folder", problem, "Install the version of tunefarm that wrote it.")
    if digest(library) != manifest.library_digest:
        raise BadInput(
            "folder", "the library is not the one its manifest describes.", "Build it again; do not load it."
        )
    # What the manifest says of its target must not decide what the library may do: it came with it.
    require_kernel(library, "folder", LibraryRules(callees=tuple(callees)))
    return manifest, library, folder


def read_workload(folder: Path, manifest: ArtifactManifest) -> str | None:
    """The JSON of the function that the artifact in ``folder`` was compiled from; None where it was not shipped.

    Raises:
        BadInput: it is not the one that the manifest names.
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
        raise BadInput("folder", f"its {WORKLOAD_NAME} is not the function its manifest names.", "Build it again.")
    return content.decode()


def library_name(manifest: ArtifactManifest) -> str:
    """What the library's file is called. Raises ``BadInput`` when the manifest names no digest."""
    # Never the name that the manifest gives: a name from elsewhere must not choose which file is written or loaded.
    if not re.fullmatch("[0-9a-f]{64}", manifest.library_digest):
        raise BadInput("folder", "its manifest names no SHA-256 digest.", "Build it again; do not load it.")
    return f"{manifest.library_digest[:16]}.so"
