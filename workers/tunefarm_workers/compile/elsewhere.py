"""Whether a lane has its libraries made on other hosts."""

from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.compile.remote_compiler import RemoteCompiler
from tunefarm_workers.worker.settings import WorkerSettings


def elsewhere(pool: str, settings: WorkerSettings, blobs: Blobs) -> RemoteCompiler | None:
    """The compiler behind ``pool``; None where it is empty, and so libraries are made here. Raises BadInput."""
    return RemoteCompiler(settings.broker(), pool, blobs, settings.name()) if pool else None
