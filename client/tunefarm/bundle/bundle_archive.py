"""The files of a bundle as one tar archive, equal for equal files."""

import io
import tarfile
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from tunefarm.bundle.bundle_folder import new_bundle, put_files, read_bundle
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.release import RelativePath
from tunefarm_schemas.tuning.bundle import BundleManifest

_PATH: Final = TypeAdapter[str](RelativePath)
_MAX_FILES: Final = 10_000
_FIX: Final = "Download it again."


def archive_of(folder: Path) -> bytes:
    """All files below ``folder``, in order of their paths, without times and owners."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            member.size, member.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                archive.addfile(member, file)
    return content.getvalue()


def unpack(content: bytes, folder: Path) -> BundleManifest:
    """Write the files of an archive to the new or empty folder ``folder``, and check them against the manifest.

    Raises:
        BadInput: it has anything but files with relative paths, or they do not match; nothing was written.
    """
    with new_bundle(folder.resolve()) as staging:
        put_files(staging, _files(content))
        return read_bundle(str(staging))[0]


def _files(content: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) else None
                if file is None or len(found) >= _MAX_FILES:
                    raise BadInput("bundle", "the archive has something else than a bundle's files.", _FIX)
                found[_PATH.validate_python(member.name)] = file.read()
    except (tarfile.TarError, ValidationError, EOFError) as error:
        raise BadInput("bundle", "what was received is not an archive of a bundle.", _FIX) from error
    return found
