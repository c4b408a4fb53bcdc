"""Finds the records of this machine's store for the functions of a model."""

from collections.abc import Mapping, Sequence

from tunefarm.bundle.record_functions import measured
from tunefarm.local.machine import LocalMachine
from tunefarm.model.compilation import Records
from tunefarm.model.function_orders import ChosenRecord
from tunefarm.model.messages import PreparedTask
from tunefarm_schemas.tuning.device import HOT_CACHE
from tunefarm_schemas.tuning.record import RecordKey, RecordMatch, RecordStatus
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.store import LOCAL_TENANT


def records_of(machine: LocalMachine) -> Records:
    """The search for the best verified record of each task: same workload, target and ABI.

    Among them a record of this device comes first. A store that does not exist is not created.
    """

    def found(tasks: Sequence[PreparedTask], target: Target, code_generator: str) -> Mapping[str, ChosenRecord]:
        store = machine.known_store
        if store is None or not store.records.page(LOCAL_TENANT, status=RecordStatus.VERIFIED, limit=1, after=None):
            return {}
        device = _device_class(machine)
        known = machine.recognised([task.workload for task in tasks], with_schedules=True, of_model=True)
        chosen: dict[str, ChosenRecord] = {}
        for task, workload in zip(tasks, known, strict=True):
            key = RecordKey(
                workload_id=workload.workload_id,
                target_id=target.target_id,
                device_class_id=device,
                code_generator=code_generator,
                protocol_id=HOT_CACHE.protocol_id,
                abi="stable",
            )
            record = _usable(store.best_records.matches(LOCAL_TENANT, key), key)
            if record is not None:
                chosen[task.workload.workload_id] = record
        return chosen

    return found


def _usable(matches: Sequence[RecordMatch], key: RecordKey) -> ChosenRecord | None:
    for match in matches:
        record = match.record
        is_same = (record.key.workload_id, record.key.target_id, record.key.abi) == (
            key.workload_id,
            key.target_id,
            key.abi,
        )
        if is_same and record.status is RecordStatus.VERIFIED:
            return ChosenRecord(record.record_id, record.trace.text, measured(record))
    return None


def _device_class(machine: LocalMachine) -> str:
    """The class of this device; empty if nothing was measured on it."""
    from tunefarm_workers.device.cpu_identity import cpu_identity, host_fingerprint

    device = machine.store.devices.get(LOCAL_TENANT, host_fingerprint(cpu_identity()))
    return "" if device is None else device.device_class.device_class_id
