"""The best records of a tenant for the functions of a model."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tunefarm.bundle.record_functions import measured
from tunefarm.model.function_orders import ChosenRecord
from tunefarm.model.messages import PreparedTask
from tunefarm_schemas.tuning.device import HOT_CACHE
from tunefarm_schemas.tuning.record import RecordKey, RecordMatch, RecordStatus, TuningRecord
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_services.store.catalog.target_repository import TargetRepository
from tunefarm_services.store.records.best_record_repository import BestRecordRepository

_WITHOUT_WORKERS: Final = frozenset({"wasm32"})
"""Architectures that no worker measures. Functions for them get schedules that were measured on other processors."""


@dataclass(frozen=True)
class RecordSearch:
    """Finds the best verified record of each task: same workload and ABI, and the same target if workers measure it.

    Attributes:
        best_records: those that are searched.
        targets: the targets of the records.
        tenant: whose they are.
        recognised: replaces workloads that the store has with other variable names by the stored ones.
        device_class_id: whose records come first; empty for none.
    """

    best_records: BestRecordRepository
    targets: TargetRepository
    tenant: str
    recognised: Callable[[Sequence[Workload]], Sequence[Workload]]
    device_class_id: str = ""

    def __call__(
        self, tasks: Sequence[PreparedTask], target: Target, code_generator: str
    ) -> Mapping[str, ChosenRecord]:
        """The records by workload id."""
        known = self.recognised([task.workload for task in tasks])
        chosen: dict[str, ChosenRecord] = {}
        for task, workload in zip(tasks, known, strict=True):
            key = RecordKey(
                workload_id=workload.workload_id,
                target_id=target.target_id,
                device_class_id=self.device_class_id,
                code_generator=code_generator,
                protocol_id=HOT_CACHE.protocol_id,
                abi="stable",
            )
            record = self._usable(self.best_records.matches(self.tenant, key), key, target)
            if record is not None:
                chosen[task.workload.workload_id] = record
        return chosen

    def _usable(self, matches: Sequence[RecordMatch], key: RecordKey, target: Target) -> ChosenRecord | None:
        for match in matches:
            record = match.record
            is_same = (record.key.workload_id, record.key.abi) == (key.workload_id, key.abi)
            if is_same and record.status is RecordStatus.VERIFIED and self._is_of_target(record, target):
                return ChosenRecord(record.record_id, record.trace.text, measured(record))
        return None

    def _is_of_target(self, record: TuningRecord, target: Target) -> bool:
        if record.key.target_id == target.target_id:
            return True
        architecture = str(json.loads(target.canonical).get("mtriple", "")).partition("-")[0]
        return architecture in _WITHOUT_WORKERS and self._kind(record) == target.kind

    def _kind(self, record: TuningRecord) -> str:
        return self.targets.get(record.key.target_id, tenant=self.tenant).kind
