"""Finds the records of this machine's store for the functions of a model."""

from collections.abc import Mapping, Sequence

from tunefarm.bundle.record_search import RecordSearch
from tunefarm.local.machine import LocalMachine
from tunefarm.model.compilation import Records
from tunefarm.model.function_orders import ChosenRecord
from tunefarm.model.messages import PreparedTask
from tunefarm_schemas.tuning.record import RecordStatus
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_services.store import LOCAL_TENANT


def records_of(machine: LocalMachine) -> Records:
    """The search for the best verified record of each task: same workload, target and ABI.

    Among them a record of this device comes first. A store that does not exist is not created.
    """

    def found(tasks: Sequence[PreparedTask], target: Target, code_generator: str) -> Mapping[str, ChosenRecord]:
        store = machine.known_store
        if store is None or not store.records.page(LOCAL_TENANT, status=RecordStatus.VERIFIED, limit=1, after=None):
            return {}

        def recognised(workloads: Sequence[Workload]) -> Sequence[Workload]:
            return machine.recognised(workloads, with_schedules=True, of_model=True)

        search = RecordSearch(store.best_records, store.targets, LOCAL_TENANT, recognised, _device_class(machine))
        return search(tasks, target, code_generator)

    return found


def _device_class(machine: LocalMachine) -> str:
    """The class of this device; empty if nothing was measured on it."""
    from tunefarm_workers.device.cpu_identity import cpu_identity, host_fingerprint

    device = machine.store.devices.get(LOCAL_TENANT, host_fingerprint(cpu_identity()))
    return "" if device is None else device.device_class.device_class_id
