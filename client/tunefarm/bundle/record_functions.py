"""The functions of records in a store, for a bundle."""

from collections.abc import Sequence

from tunefarm.bundle.bundle_source import FunctionsSource, RecordFunction
from tunefarm.model.function_orders import ChosenRecord
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import WASM_TARGET, BundleForm, BundleRecord
from tunefarm_schemas.tuning.record import RecordStatus, TuningRecord
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.store import Store


def functions_of_records(
    store: Store, tenant: str, records: Sequence[TuningRecord], target: Target | str | None, form: BundleForm
) -> FunctionsSource:
    """The functions of ``records``, each with its record's schedule.

    Args:
        store: that contains the records.
        tenant: whose they are.
        records: verified ones of the stable ABI.
        target: what is compiled for, as typed or canonical; None for that of the records, or of WebAssembly. Without
            it, the schedules of the records must apply.
        form: of the bundle.

    Raises:
        BadInput: a record is not verified or has the packed ABI, or the records have several targets.
    """
    for each in records:
        _require_usable(each)
    functions = tuple(
        RecordFunction(
            store.workloads.get(tenant, each.key.workload_id),
            ChosenRecord(each.record_id, each.trace.text, measured(each)),
        )
        for each in records
    )
    own = WASM_TARGET if form == "wasm" else None
    return FunctionsSource(functions, target or own or _only_target(store, tenant, records), needs_schedules=not target)


def measured(record: TuningRecord) -> BundleRecord:
    """What the manifest of a bundle says of a record."""
    return BundleRecord(
        record_id=record.record_id,
        trace=record.trace.text,
        latency_s=record.latency_s,
        interval_s=record.interval_s,
        protocol_id=record.key.protocol_id,
        device_class_id=record.key.device_class_id,
    )


def _require_usable(record: TuningRecord) -> None:
    if record.status is not RecordStatus.VERIFIED:
        problem = f"record {record.record_id} is {record.status.value}."
        raise BadInput("source", problem, "Tune its function, which verifies the record.")
    if record.key.abi != "stable":
        problem = f"record {record.record_id} has the packed ABI, whose weights are packed by TVM."
        raise BadInput("source", problem, "Tune its function with --abi stable.")


def _only_target(store: Store, tenant: str, records: Sequence[TuningRecord]) -> Target:
    targets = sorted({each.key.target_id for each in records})
    if len(targets) != 1:
        problem = f"the records are of {len(targets)} targets."
        raise BadInput("source", problem, "Give records of one target, or name the target to compile for.")
    return store.targets.get(targets[0], tenant=tenant)
