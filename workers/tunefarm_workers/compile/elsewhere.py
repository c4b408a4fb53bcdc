"""Selects whether a lane's libraries are compiled on other hosts."""

from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.compile.remote_compiler import RemoteCompiler
from tunefarm_workers.worker.settings import WorkerSettings


def elsewhere(pool: str, settings: WorkerSettings, blobs: Blobs) -> RemoteCompiler | None:
    """The compiler of ``pool``; None if it is empty, so that this host compiles. Raises BadInput."""
    return RemoteCompiler(settings.broker(), pool, blobs, settings.name()) if pool else None
