"""The folders and the store of an installation, from its settings."""

import os
from contextlib import closing, suppress
from pathlib import Path

from tunefarm_sandbox.channel.private_files import make_private_folder
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings
from tunefarm_services.store import Store


def open_store(settings: Settings, *, create: bool = True, upgrade: bool = False) -> Store:
    """Open the store. Raises what ``Store.open`` raises, and BadInput if TUNEFARM_HOME is unusable.

    If the store cannot be opened, a TUNEFARM_HOME that was created for it is removed.
    """
    home = settings.home.expanduser()
    was_there = _exists(home)
    if create or was_there:
        private_folder(settings, ".")
    try:
        return Store.open(
            settings.database(),
            settings.blobs(),
            create=create,
            upgrade=upgrade,
            busy_timeout_s=settings.busy_timeout_s,
        )
    except Exception:
        if create and not was_there:
            with suppress(OSError):  # keep a folder that is not empty
                home.rmdir()
        raise


def opened_store(*, create: bool = False) -> closing[Store]:
    """The store of the environment's settings, for one block. Raises what ``open_store`` raises."""
    return closing(open_store(Settings(), create=create))


def has_store(settings: Settings) -> bool:
    """Whether a store may exist: False only if its database is a file that does not exist."""
    file = database_file(settings)
    return file is None or _exists(file)


def _exists(path: Path) -> bool:
    """Whether a path may exist. True if it cannot be examined: opening it then reports the error."""
    try:
        return path.exists()
    except OSError:
        return True


def private_folder(settings: Settings, name: str) -> Path:
    """The folder ``name`` under TUNEFARM_HOME, created if it is missing.

    Raises:
        BadInput: the folder cannot be created or written.
    """
    home = settings.home.expanduser().absolute()
    folder = home / name
    try:
        make_private_folder(home)
        make_private_folder(folder)
    except (OSError, ValueError) as error:
        problem = f"{folder} cannot be created ({getattr(error, 'strerror', None) or error})."
        raise BadInput("TUNEFARM_HOME", problem, "Set it to a writable folder.") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput("TUNEFARM_HOME", f"{folder} cannot be written.", "Set it to a writable folder.")
    return folder


def database_file(settings: Settings) -> Path | None:
    """The SQLite file; None for a database server."""
    scheme, _, path = settings.database().partition(":///")
    return Path(path) if scheme.startswith("sqlite") else None
