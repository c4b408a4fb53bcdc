"""One farm for each job, of workers behind a broker, and the registry of their lanes."""

import threading
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tunefarm_schemas.farm.broker import DEFAULT_PREFIX, Broker
from tunefarm_schemas.tuning.job import Job
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.tuner.farm.celery_farm import CeleryFarm
from tunefarm_services.tuner.farm.celery_farm_pool import LanePool
from tunefarm_services.tuner.farm.device_choice import DeviceChoices, choose_device
from tunefarm_services.tuner.farm.lane_registrar import LaneRegistrar
from tunefarm_services.tuner.farm.no_device import NoDevice
from tunefarm_services.tuner.farm.ports import Farm


class BrokerFarms:
    """Creates a farm for each job from the lanes of the device class chosen for it. Thread-safe."""

    def __init__(self, store: DeviceChoices, broker_url: str, blobs: Path | str, prefix: str = DEFAULT_PREFIX) -> None:
        """Tuners and workers share ``blobs`` and the key ``prefix``. Raises BadInput if a URL is invalid."""
        self._store = store
        self._broker = Broker.at(broker_url, prefix)
        self._blobs = BlobStore(blobs)

    def farm_for(self, lease: Lease, job: Job) -> Farm | NoDevice:
        """The farm for ``job``, or why no device fits. Raises StoreUnavailable."""
        chosen = choose_device(self._store, job)
        if isinstance(chosen, NoDevice):
            return chosen
        pool = LanePool.registered(self._store.lanes, chosen.device, chosen.code_generator)
        return CeleryFarm(self._broker, pool, self._blobs, job_id=lease.job_id)

    def keep_registry(self, stop: threading.Event) -> None:
        """Admit or refuse lanes by their heartbeats, and mark lost ones, until ``stop`` is set."""
        LaneRegistrar(self._store.lanes, self._broker, tvm_version=own_tvm_version()).run(stop)


def own_tvm_version() -> str | None:
    """The installed version of TVM, without loading it; None if it is not installed."""
    with suppress(PackageNotFoundError):
        return version("apache-tvm")
    return None
