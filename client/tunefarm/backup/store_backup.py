"""Backing up and restoring the store that the settings name."""

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tunefarm.backup.archive import ArchiveReader, ArchiveWriter, Engine
from tunefarm.backup.postgresql_dump import PostgresqlDump
from tunefarm.backup.sqlite_dump import SqliteDump
from tunefarm.startup.installation import database_file, open_store
from tunefarm.terminal.user_files import require_named
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.clock import utc_now
from tunefarm_services.settings import Settings
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.store.database.schema_revision import REVISIONS
from tunefarm_services.store.store_error import BlobDamaged, BlobMissing


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What went into an archive, or came out of one. ``left_out`` says which blobs were damaged, and how."""

    path: Path
    revision: str
    blobs: int
    size_bytes: int
    left_out: tuple[str, ...] = ()


def back_up(settings: Settings, text: str, *, replace: bool = False) -> BackupReport:
    """Write database and blobs into one file, while others may be working.

    Blobs are copied after the database: one that is added meanwhile is more than the copy needs, never less. The file
    appears under its name once it is complete and on the disk.

    Raises:
        BadInput: the file exists, or a tool for the database is missing.
        StoreError: the store cannot be read.
    """
    path = _new_file(text, replace=replace)
    with contextlib.closing(open_store(settings, create=False)) as store:
        revision = str(store.revision())
    created_at = utc_now()
    left_out: list[str] = []
    with tempfile.TemporaryDirectory(prefix=".tunefarm-backup-", dir=path.parent) as folder:
        dump = Path(folder) / "database"
        _dump_of(settings).write(dump)
        part = Path(folder) / "archive"
        with part.open("wb") as file:
            writer = ArchiveWriter(file)
            database = writer.add_database(_engine_of(settings), dump)
            left_out.extend(_add_blobs(writer, BlobStore(settings.blobs())))
            manifest = writer.finish(_engine_of(settings), revision, created_at, database)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o600)
        part.replace(path)
    return BackupReport(path, revision, len(manifest.blobs), path.stat().st_size, tuple(left_out))


def restore(settings: Settings, text: str, *, replace: bool = False) -> BackupReport:
    """Make the store what an archive holds, after having checked all of the archive.

    Blobs come first, so that no row ever refers to one that is not there; those that the store has besides stay. The
    database is unpacked beside the archive: where that is kept there is room for what is in it.

    Raises:
        BadInput: the archive is not sound, was written by a newer version or for another kind of database, its folder
            cannot be written, or the store is not empty and ``replace`` does not say that it may go.
    """
    require_named("file", text, "file")
    path = Path(text).expanduser().absolute()
    dump = _dump_of(settings)
    with ArchiveReader(path) as archive:
        manifest = archive.manifest
        if manifest.engine != _engine_of(settings):
            fix = "Set TUNEFARM_DATABASE_URL to a database of that kind."
            raise BadInput("file", f"{path} holds a {manifest.engine} database.", fix)
        if manifest.revision not in REVISIONS:
            problem = f"{path} has schema revision {manifest.revision}, newer than this version knows."
            raise BadInput("file", problem, "Install the version of tunefarm that wrote it.")
        rows = dump.rows()
        if rows and not replace:
            problem = f"the store is not empty: its database has {rows} rows."
            raise BadInput("--replace", problem, "Back it up first; then give --replace to lose what is in it.")
        _require_writable(path.parent)
        blobs = BlobStore(settings.blobs())
        for content in archive.blobs():
            blobs.put(content)
        with tempfile.TemporaryDirectory(prefix=".tunefarm-restore-", dir=path.parent) as folder:
            copy = Path(folder) / "database"
            with copy.open("wb") as file:
                archive.copy_database(file)
            dump.read(copy)
        return BackupReport(path, manifest.revision, len(manifest.blobs), path.stat().st_size)


def _add_blobs(writer: ArchiveWriter, blobs: BlobStore) -> list[str]:
    left_out = []
    for blob in blobs.stored():
        try:
            writer.add_blob(blob.blob_digest, blobs.get(blob.blob_digest))
        except BlobDamaged as error:
            left_out.append(str(error))
        except BlobMissing:
            # Removed since it was listed: whatever needed it is gone as well.
            continue
    return left_out


def _new_file(text: str, *, replace: bool) -> Path:
    require_named("file", text, "file")
    path = Path(text).expanduser().absolute()
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput("file", f"{path} is no place for a file.", "Name a file in a folder that exists.")
    if path.exists() and not replace:
        raise BadInput("file", f"{path} is there already.", "Choose another name, or give --replace.")
    _require_writable(path.parent)
    return path


def _require_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput("file", f"{folder} cannot be written.", "Name a file in a folder that you may write.")


def _engine_of(settings: Settings) -> Engine:
    return "postgresql" if database_file(settings) is None else "sqlite"


def _dump_of(settings: Settings) -> SqliteDump | PostgresqlDump:
    file = database_file(settings)
    return PostgresqlDump(settings.database()) if file is None else SqliteDump(file, settings.busy_timeout_s)
