"""Whether a lane has its libraries made on other hosts."""

from tunefarm_workers.celery_worker.blobs import Blobs
from tunefarm_workers.celery_worker.settings import WorkerSettings
from tunefarm_workers.compile_lane.remote_compiler import RemoteCompiler


def elsewhere(pool: str, settings: WorkerSettings, blobs: Blobs) -> RemoteCompiler | None:
    """The compiler behind ``pool``; None where it is empty, and so libraries are made here. Raises BadInput."""
    return RemoteCompiler(settings.broker(), pool, blobs, settings.name()) if pool else None
