"""The file of a backup: a tar archive with the database, every blob, and a manifest with their digests.

No name in an archive becomes a path: members have a fixed name or a digest as their name; any other name makes the
whole archive invalid.
"""

import hashlib
import io
import re
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal, Self

from pydantic import ValidationError

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen

Engine = Literal["sqlite", "postgresql"]

FORMAT: Final = 1
MANIFEST_NAME: Final = "manifest.json"
DATABASE_NAMES: Final[dict[Engine, str]] = {"sqlite": "database.sqlite", "postgresql": "database.pgdump"}
_BLOB_NAME: Final = re.compile(r"blobs/([0-9a-f]{64})")
_LARGEST_MANIFEST_BYTES: Final = 1 << 30
_PIECE_BYTES: Final = 1 << 20


class ArchiveManifest(Frozen):
    """The contents of an archive. ``blobs`` are digests; each is the name of a member."""

    format: Literal[1] = FORMAT
    created_at: str
    revision: str
    engine: Engine
    database_digest: str
    database_bytes: int
    blobs: tuple[str, ...]


class ArchiveWriter:
    """Writes an archive. The manifest is the last member, so that an archive without it is incomplete."""

    def __init__(self, file: BinaryIO) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed by finish
        self._blobs: list[str] = []

    def add_database(self, engine: Engine, path: Path) -> tuple[str, int]:
        """Add the dump at ``path``; returns its digest and its size in bytes."""
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            size_bytes = file.tell()
            file.seek(0)
            self._tar.addfile(_member(DATABASE_NAMES[engine], size_bytes), file)
        return found, size_bytes

    def add_blob(self, blob_digest: str, content: bytes) -> None:
        """Add a blob."""
        self._tar.addfile(_member(f"blobs/{blob_digest}", len(content)), io.BytesIO(content))
        self._blobs.append(blob_digest)

    def finish(self, engine: Engine, revision: str, created_at: str, database: tuple[str, int]) -> ArchiveManifest:
        """Add the manifest and close the archive."""
        manifest = ArchiveManifest(
            created_at=created_at,
            revision=revision,
            engine=engine,
            database_digest=database[0],
            database_bytes=database[1],
            blobs=tuple(self._blobs),
        )
        text = manifest.model_dump_json().encode()
        self._tar.addfile(_member(MANIFEST_NAME, len(text)), io.BytesIO(text))
        self._tar.close()
        return manifest


class ArchiveReader:
    """Reads an archive after checking all of it."""

    def __init__(self, path: Path) -> None:
        """Open the archive and compare every member with the manifest.

        Raises:
            BadInput: the file is not an archive, is incomplete, or a member does not match the manifest.
        """
        self._path = path
        try:
            if not path.is_file():
                raise OSError("it is not a plain file")  # reading a pipe may never end
            self._tar = tarfile.open(path, mode="r:")  # noqa: SIM115 - closed by close
        except (OSError, tarfile.TarError) as error:
            raise _unusable(path, f"it cannot be read: {error}") from error
        try:
            self.manifest = self._checked()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._tar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def blobs(self) -> Iterator[bytes]:
        """The contents of all blobs, one at a time."""
        for member in self._members:
            if _BLOB_NAME.fullmatch(member.name):
                yield self._file(member).read()

    def copy_database(self, destination: BinaryIO) -> None:
        """Write the dump of the database to ``destination``."""
        name = DATABASE_NAMES[self.manifest.engine]
        source = self._file(next(member for member in self._members if member.name == name))
        while piece := source.read(_PIECE_BYTES):
            destination.write(piece)

    def _checked(self) -> ArchiveManifest:
        digests: dict[str, str] = {}
        manifest: ArchiveManifest | None = None
        try:
            self._members = self._tar.getmembers()
            for member in self._members:
                if not member.isreg() or member.name in digests or not _is_known(member.name):
                    raise _unusable(self._path, f"{member.name[:100]!r} is not a valid member")
                if member.name == MANIFEST_NAME:
                    manifest = self._manifest(member)
                digests[member.name] = hashlib.file_digest(self._file(member), "sha256").hexdigest()
        except (OSError, tarfile.TarError, EOFError) as error:
            raise _unusable(self._path, f"it ends too early: {error}") from error
        if manifest is None:
            raise _unusable(self._path, "it is incomplete")
        expected = {f"blobs/{each}": each for each in manifest.blobs}
        expected[DATABASE_NAMES[manifest.engine]] = manifest.database_digest
        del digests[MANIFEST_NAME]
        if digests != expected:
            odd = min(digests.items() ^ expected.items())[0]
            raise _unusable(self._path, f"{odd} is missing, unexpected or damaged")
        return manifest

    def _manifest(self, member: tarfile.TarInfo) -> ArchiveManifest:
        if member.size > _LARGEST_MANIFEST_BYTES:
            raise _unusable(self._path, "its manifest is too large")
        try:
            return ArchiveManifest.model_validate_json(self._file(member).read())
        except ValidationError as error:
            raise _unusable(self._path, "this version cannot read its manifest") from error

    def _file(self, member: tarfile.TarInfo) -> io.BufferedReader:
        file = self._tar.extractfile(member)
        # At run time this is a tarfile.ExFileObject, unlike its declaration.
        if not isinstance(file, io.BufferedReader):
            raise _unusable(self._path, f"{member.name[:100]!r} is not a file")
        return file


def _is_known(name: str) -> bool:
    return name == MANIFEST_NAME or name in DATABASE_NAMES.values() or _BLOB_NAME.fullmatch(name) is not None


def _member(name: str, size_bytes: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = size_bytes, 0o600, int(time.time())
    return member


def _unusable(path: Path, problem: str) -> BadInput:
    return BadInput("file", f"{path} is not a usable backup: {problem}.", "Use another backup.")
