"""Upgrading the store."""

import contextlib

from tunefarm.installation import open_store
from tunefarm_services.settings import Settings


def upgrade_store(settings: Settings, *, create: bool) -> str:
    """Bring the database to the schema of this version; the revision it is at then. ``create`` makes a missing one."""
    with contextlib.closing(open_store(settings, create=create, upgrade=True)) as store:
        return str(store.revision())
