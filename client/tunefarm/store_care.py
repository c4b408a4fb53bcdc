"""Upgrading and copying the store."""

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import Final

from tunefarm.installation import database_file, open_store
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings

DATABASE_NAME: Final = "tunefarm.db"
BLOBS_NAME: Final = "blobs"


def upgrade_store(settings: Settings) -> str:
    """Bring the database to the schema of this version; the revision it is at then."""
    with contextlib.closing(open_store(settings, create=False, upgrade=True)) as store:
        return str(store.revision())


def back_up(settings: Settings, text: str) -> Path:
    """Copy database and blobs into a folder that is usable as a TUNEFARM_HOME.

    Blobs are copied after the database: one that is added meanwhile is more than the copy needs, never less.

    Raises:
        BadInput: the folder is not empty, or something is not on this machine's disk.
    """
    source, blobs = database_file(settings), settings.blobs()
    if source is None or not isinstance(blobs, Path):
        fix = "Back them up with the servers' own tools, such as pg_dump."
        raise BadInput("TUNEFARM_DATABASE_URL", "the database or the blobs are not files of this machine.", fix)
    folder = Path(text).expanduser().resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput("folder", f"{text!r} is not an empty folder.", "Give one that does not exist yet.")
    with contextlib.closing(open_store(settings, create=False)):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _copy_database(source, folder / DATABASE_NAME)
        if blobs.exists():
            shutil.copytree(blobs, folder / BLOBS_NAME)
    return folder


def _copy_database(source: Path, destination: Path) -> None:
    with (
        contextlib.closing(sqlite3.connect(source)) as reading,
        contextlib.closing(sqlite3.connect(destination)) as copy,
    ):
        reading.backup(copy)
