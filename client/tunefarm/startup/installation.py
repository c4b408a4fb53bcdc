"""The folders and the store that the settings name."""

import os
from contextlib import suppress
from pathlib import Path

from tunefarm_sandbox.channel.private_files import make_private_folder
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings
from tunefarm_services.store import Store


def open_store(settings: Settings, *, create: bool = True, upgrade: bool = False) -> Store:
    """Open the store. Raises what ``Store.open`` raises, and BadInput where TUNEFARM_HOME cannot be used.

    A home that was made for a store which cannot be opened does not stay.
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
            with suppress(OSError):  # something came to lie in it
                home.rmdir()
        raise


def has_store(settings: Settings) -> bool:
    """Whether there may be a store: not where its database is a file that does not exist."""
    file = database_file(settings)
    return file is None or _exists(file)


def _exists(path: Path) -> bool:
    """Whether a path may lead somewhere. What cannot be looked at may: opening it says what is wrong."""
    try:
        return path.exists()
    except OSError:
        return True


def private_folder(settings: Settings, name: str) -> Path:
    """A folder of that name under TUNEFARM_HOME, made if it is missing.

    Raises:
        BadInput: it cannot be made or written.
    """
    home = settings.home.expanduser().absolute()
    folder = home / name
    try:
        make_private_folder(home)
        make_private_folder(folder)
    except (OSError, ValueError) as error:
        problem = f"{folder} cannot be made ({getattr(error, 'strerror', None) or error})."
        raise BadInput("TUNEFARM_HOME", problem, "Set it to a folder that you may write.") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput("TUNEFARM_HOME", f"{folder} cannot be written.", "Set it to a folder that you may write.")
    return folder


def database_file(settings: Settings) -> Path | None:
    """The SQLite file, or None where the database is a server's."""
    scheme, _, path = settings.database().partition(":///")
    return Path(path) if scheme.startswith("sqlite") else None
