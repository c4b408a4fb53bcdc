"""Assembles a worker: settings, blobs, telemetry, and the process that measures."""

from collections.abc import Mapping

from tunefarm.server.worker_blobs import WorkerBlobs
from tunefarm.startup.installation import private_folder
from tunefarm.startup.one_heap import share_one_heap
from tunefarm.startup.scratch_folder import ScratchFolder
from tunefarm.terminal.console import complain, say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm_services.settings import Settings
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.telemetry.telemetry import telemetry_of
from tunefarm_workers.worker.settings import WorkerSettings
from tunefarm_workers.worker.worker_process import LaneRefused, WorkerProcess


def start_worker(given: Mapping[str, object], *, keep_trying: bool) -> int:
    """Measure until stopped. ``given`` settings override those of the environment.

    Raises:
        BadInput, StoreError, ForkFailed: a setting, a folder or the fork server is unusable.
    """
    share_one_heap()
    worker = WorkerSettings.model_validate({**WorkerSettings().model_dump(), **given})
    worker.broker()  # rejects bad settings before anything is created
    settings = Settings()
    scratch = ScratchFolder.within(private_folder(settings, "scratch"))
    try:
        process = WorkerProcess(
            worker, WorkerBlobs(BlobStore(settings.blobs())), scratch.path, keep_trying=keep_trying, say=_say
        )
        with telemetry_of("worker", is_well=lambda: process.is_well):
            return process.run()
    except LaneRefused as refused:
        complain(f"tunefarm: worker: the farm refuses this worker: {refused}")
        return ExitCode.BAD_INPUT
    finally:
        scratch.close()


def _say(text: str) -> None:
    say(text)
