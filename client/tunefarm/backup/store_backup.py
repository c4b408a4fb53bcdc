"""Backup and restore of the configured store."""

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
    """The result of a backup or a restore. ``left_out`` describes the damaged blobs."""

    path: Path
    revision: str
    blobs: int
    size_bytes: int
    left_out: tuple[str, ...] = ()


def back_up(settings: Settings, text: str, *, replace: bool = False) -> BackupReport:
    """Write the database and the blobs into one file while the store is in use.

    Blobs are copied after the database, so that the archive has every blob that its database refers to. The file gets
    its name once it is complete and synced to disk.

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
    """Replace the store by the contents of an archive, after checking the whole archive.

    Blobs are restored first, so that no row ever refers to a missing one; other blobs of the store stay. The database
    is unpacked next to the archive, because that file system has room for its contents.

    Raises:
        BadInput: the archive is damaged, was written by a newer version or for another kind of database, its folder
            cannot be written, or the store is not empty and ``replace`` is not set.
    """
    require_named("file", text, "file")
    path = Path(text).expanduser().absolute()
    dump = _dump_of(settings)
    with ArchiveReader(path) as archive:
        manifest = archive.manifest
        if manifest.engine != _engine_of(settings):
            fix = "Set TUNEFARM_DATABASE_URL to a database of that kind."
            raise BadInput("file", f"{path} contains a {manifest.engine} database.", fix)
        if manifest.revision not in REVISIONS:
            problem = f"{path} has schema revision {manifest.revision}, newer than this version knows."
            raise BadInput("file", problem, "Install the version of tunefarm that wrote it.")
        rows = dump.rows()
        if rows and not replace:
            problem = f"the store is not empty: its database has {rows} rows."
            raise BadInput("--replace", problem, "Back it up first; then give --replace to overwrite it.")
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
            # Removed since it was listed: nothing refers to it any more.
            continue
    return left_out


def _new_file(text: str, *, replace: bool) -> Path:
    require_named("file", text, "file")
    path = Path(text).expanduser().absolute()
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput("file", f"{path} is not a path for a new file.", "Give a file in an existing folder.")
    if path.exists() and not replace:
        raise BadInput("file", f"{path} already exists.", "Choose another name, or give --replace.")
    _require_writable(path.parent)
    return path


def _require_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput("file", f"{folder} cannot be written.", "Give a file in a writable folder.")


def _engine_of(settings: Settings) -> Engine:
    return "postgresql" if database_file(settings) is None else "sqlite"


def _dump_of(settings: Settings) -> SqliteDump | PostgresqlDump:
    file = database_file(settings)
    return PostgresqlDump(settings.database()) if file is None else SqliteDump(file, settings.busy_timeout_s)
