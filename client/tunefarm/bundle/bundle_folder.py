"""The folder of a bundle: written as a whole or not at all, and checked against its manifest."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from tunefarm.artifact.artifact_folder import MANIFEST_NAME, reading_folder
from tunefarm.terminal.user_files import open_plain_file, put_file, read_plain_file
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import BUNDLE_FORMAT, BundleFile, BundleManifest

WEIGHTS: Final = "weights.bin"
RUNTIME: Final = Path(__file__).parent / "runtime"
"""The runtime in C, whose files are part of each bundle."""
_GIVE: Final = "Give a folder that tunefarm bundle build wrote."
_FIX: Final = "Build the bundle again; do not ship it."


@contextmanager
def new_bundle(folder: Path) -> Iterator[Path]:
    """A folder that becomes ``folder`` if no error is raised.

    Raises:
        BadInput: ``folder`` exists, and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput("output", f"{str(folder)[:300]!r} is not an empty folder.", "Name a new folder.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".bundle-", dir=folder.parent))
    try:
        staging.chmod(0o755)
        yield staging
        if folder.exists():
            folder.rmdir()
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def put_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their paths from ``folder``."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        put_file(path, content)


def files_in(folder: Path) -> tuple[BundleFile, ...]:
    """All files below ``folder``, in order of their paths."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return tuple(_described(folder, path) for path in paths)


def manifest_text(manifest: BundleManifest) -> str:
    """The content of the file."""
    return f"{manifest.model_dump_json(indent=2)}\n"


def read_bundle(text: str) -> tuple[BundleManifest, Path]:
    """Read the manifest of a bundle, and require that the folder has the files that it lists and no others.

    Raises:
        BadInput: there is no bundle, or its files do not match its manifest.
    """
    with reading_folder(text, "a bundle", "that of a bundle", _GIVE) as folder:
        manifest = BundleManifest.model_validate_json(read_plain_file(folder / MANIFEST_NAME))
        if manifest.format > BUNDLE_FORMAT:
            problem = f"its manifest has the format {manifest.format}, newer than {BUNDLE_FORMAT}."
            raise BadInput("folder", problem, "Install the version of tunefarm that wrote it.")
        _require_files(folder, manifest)
    return manifest, folder


def _require_files(folder: Path, manifest: BundleManifest) -> None:
    listed = {each.path: each for each in manifest.files}
    for path in listed:
        parts = PurePosixPath(path).parts
        if not parts or PurePosixPath(path).is_absolute() or ".." in parts:
            raise BadInput("folder", f"its manifest names the path {path[:300]!r}.", _FIX)
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}
    unknown = sorted(there - listed.keys() - {MANIFEST_NAME})
    if unknown:
        raise BadInput("folder", f"it has the file {unknown[0][:300]!r}, which its manifest does not list.", _FIX)
    for path, expected in listed.items():
        if path not in there:
            raise BadInput("folder", f"its file {path!r} is missing.", _FIX)
        if (folder / path).is_symlink() or _described(folder, folder / path) != expected:
            raise BadInput("folder", f"its file {path!r} does not match the manifest.", _FIX)


def _described(folder: Path, path: Path) -> BundleFile:
    with open_plain_file(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        return BundleFile(
            path=path.relative_to(folder).as_posix(),
            size_bytes=size_bytes,
            digest=_digest_of(file),
        )


def _digest_of(file: BinaryIO) -> str:
    found = hashlib.sha256()
    while chunk := file.read(1 << 20):
        found.update(chunk)
    return found.hexdigest()
