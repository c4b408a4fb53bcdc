"""A service's records as a TVM MetaSchedule database."""

import importlib
import math
import statistics
import time
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any, Final

import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.database import PyDatabase, TuningRecord, Workload

from tunefarm.client import Client
from tunefarm.confined.call import call
from tunefarm.confined.trace_check import ENTRY, Permitted, TraceQuestion
from tunefarm.http.api_error import ApiError
from tunefarm.intake.tvm_workload import is_same, target_attributes, target_of, workloads_of
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning import record as ours
from tunefarm_schemas.tuning.workload import Workload as OurWorkload
from tunefarm_search.tvm.errors import TVM_ERRORS
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.trace import trace_from_tvm
from tunefarm_search.validation.trace_application import apply_steps

CACHED_FOR_S: Final = 60.0
MAX_ANSWERS: Final = 100
"""The most records of one function in one answer: the fastest of each key, then the fastest claimed ones."""
TENSORIZES: Final = '"Tensorize"'
USABLE: Final = (ours.RecordStatus.VERIFIED, ours.RecordStatus.CLAIMED)
LONGEST_LATENCY_S: Final = 1e4
"""Below the 1e10 s that TVM writes for a failed run."""


@derived_object
class RemoteDatabase(PyDatabase):  # type: ignore[misc]
    """A database for TVM: ``with RemoteDatabase(), target: MetaScheduleApplyDatabase()(module)``.

    Contains records of the stable ABI only. A query returns, in this order of preference for its target: an exact
    record; the fastest verified record of another device class, compiler or protocol; the fastest claimed record.
    Answers are cached for a minute. Committed records are published as claimed.

    Args:
        url: of the service. Default: the environment, else the service on this machine.
        token: default: like ``url``.
        device_class_id: prefer records of this device class. Default: the service's only class; any class if it has
            several.
        verified_only: return only records that the service has verified.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        device_class_id: str | None = None,
        verified_only: bool = False,
    ) -> None:
        self._client = Client(url, token)
        self._device_class_id = device_class_id
        self._statuses: tuple[ours.RecordStatus, ...] = USABLE[:1] if verified_only else USABLE
        self._answers: dict[tuple[str, str], tuple[float, ours.TuningRecord | None]] = {}
        self._workloads: dict[str, OurWorkload] = {}
        self._targets: dict[str, Any] = {}
        self._permitted: dict[tuple[str, str], bool] = {}

    def has_workload(self, mod: Any) -> bool:
        """Whether the service knows the function."""
        return any(self._stored(each) is not None for each in workloads_of(mod))

    def commit_workload(self, mod: Any) -> Workload:
        """TVM's workload for the function. The service stores it together with its first record."""
        return Workload(mod)

    def commit_tuning_record(self, record: Any) -> None:
        """Publish a record as claimed. Ignores records of failed runs."""
        latency_s = _latency_s(record.run_secs)
        workload = next(workloads_of(record.workload.mod), None)
        if latency_s is None or workload is None or record.target is None:
            return
        self._client.records.publish(
            workload.module_json,
            target=target_attributes(record.target),
            trace=trace_from_tvm(record.trace),
            latency_s=latency_s,
            name=workload.name,
        )
        self._answers.clear()

    def get_top_k(self, workload: Any, top_k: int) -> list[TuningRecord]:
        """The fastest records of a function: for the current target if one is set, else for any target.

        Of verified records with the same key, the service returns only the fastest.
        """
        target = tvm.target.Target.current(allow_none=True)
        target_id = None if target is None else target_of(target).target_id
        found = [match.record for each in workloads_of(workload.mod) for match in self._matches(each, target_id)]
        fastest = sorted(found, key=lambda record: record.latency_s)
        return list(_first(top_k, self._as_tvm(fastest, workload)))

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """Every usable record, with its function."""
        return [
            converted
            for record in self._records()
            for converted in self._as_tvm([record], Workload(self._module(record.key.workload_id)))
        ]

    def query_tuning_record(self, mod: Any, target: Any, workload_name: str | None = None) -> TuningRecord | None:
        """The best record of a function for a target; None without one."""
        del workload_name
        for workload in workloads_of(mod):
            record = self._best(workload, target)
            if record is not None:
                return next(self._as_tvm([record], Workload(mod)), None)
        return None

    def __len__(self) -> int:
        """The number of usable records."""
        return len(self._records())

    def _best(self, workload: OurWorkload, target: Any) -> ours.TuningRecord | None:
        wanted = target_of(target)
        now_s = time.monotonic()
        kept_until_s, record = self._answers.get((workload.workload_id, wanted.target_id), (0.0, None))
        if now_s < kept_until_s:
            return record
        record = self._query(workload, wanted.target_id)
        self._answers[workload.workload_id, wanted.target_id] = (now_s + CACHED_FOR_S, record)
        return record

    def _query(self, workload: OurWorkload, target_id: str) -> ours.TuningRecord | None:
        best = min(self._matches(workload, target_id), key=self._preference, default=None)
        return None if best is None else best.record

    def _preference(self, match: ours.RecordMatch) -> tuple[bool, bool, bool, float]:
        record = match.record
        is_claimed = record.status is not ours.RecordStatus.VERIFIED
        is_elsewhere = self._device_class_id not in {None, record.key.device_class_id}
        return (match.match is not ours.MatchKind.EXACT, is_claimed, is_elsewhere, record.latency_s)

    def _matches(self, workload: OurWorkload, target_id: str | None) -> list[ours.RecordMatch]:
        """The usable records that the service returns for a function; for every target when ``target_id`` is None."""
        stored = self._stored(workload)
        if stored is None:
            return []
        answers = self._answers_of(stored.workload_id, target_id)
        elsewhere = [match for match in answers if match.match is ours.MatchKind.SAME_WORKLOAD_OTHER_DEVICE]
        # The service also returns schedules of similar functions and for other targets, which TVM cannot apply.
        usable = [
            match
            for match in answers
            if match.record.key.workload_id == stored.workload_id
            and target_id in (None, match.record.key.target_id)
            and self._may_be_used(match.record)
        ]
        if usable or target_id is None or len(elsewhere) < MAX_ANSWERS:
            return usable
        return self._listed(stored.workload_id, target_id)

    def _answers_of(self, workload_id: str, target_id: str | None) -> list[ours.RecordMatch]:
        try:
            return self._client.records.best(
                workload_id=workload_id,
                target=target_id,
                device_class_id=self._device_class_id,
                limit=MAX_ANSWERS,
            )
        except ApiError as refusal:
            # A service without records for this target does not know the target.
            if refusal.status != HTTPStatus.NOT_FOUND:
                raise
            return []

    def _listed(self, workload_id: str, target_id: str) -> list[ours.RecordMatch]:
        """Records of a function for a target, used when faster records for other targets fill the whole answer."""
        found = [
            record
            for status in self._statuses
            for record in self._client.records.list(
                workload_id=workload_id, target_id=target_id, status=status, limit=MAX_ANSWERS
            )
        ]
        elsewhere = ours.MatchKind.SAME_WORKLOAD_OTHER_DEVICE
        return [ours.RecordMatch(record=record, match=elsewhere) for record in found if self._may_be_used(record)]

    def _records(self) -> list[ours.TuningRecord]:
        """Every usable record."""
        return [record for record in self._client.records.list(limit=None) if self._may_be_used(record)]

    def _may_be_used(self, record: ours.TuningRecord) -> bool:
        return record.key.abi == "stable" and record.status in self._statuses

    def _stored(self, workload: OurWorkload) -> OurWorkload | None:
        """The service's workload that is structurally equal to this one."""
        known = self._workloads.get(workload.workload_id)
        if known is not None:
            return known
        candidates = self._client.workloads.like(workload)
        found = next((each for each in candidates if is_same(workload, each)), None)
        if found is not None:
            self._workloads[workload.workload_id] = found
        return found

    def _module(self, workload_id: str) -> Any:
        if workload_id not in self._workloads:
            self._workloads[workload_id] = self._client.workloads.get(workload_id)
        return load_json(self._workloads[workload_id].module_json)

    def _as_tvm(self, records: Iterable[ours.TuningRecord], workload: Any) -> Iterator[TuningRecord]:
        """Convert records to TVM's, on TVM's workload; skips records whose traces do not apply."""
        arguments = ArgInfo.from_entry_func(workload.mod, False)
        normalised = next(workloads_of(workload.mod), None)
        module_json = str(tvm.ir.save_json(workload.mod)) if normalised is None else normalised.module_json
        for record in records:
            target = self._target(record.key.target_id)
            if TENSORIZES in record.trace.text:
                # Registers the intrinsics that the trace names. Imported on demand because it takes seconds.
                importlib.import_module("tvm.s_tir.tensor_intrin")
            if not self._is_permitted(module_json, record):
                continue
            try:
                schedule = Schedule(workload.mod)
                apply_steps(record.trace.as_json(), schedule)
            except TVM_ERRORS:
                continue
            yield TuningRecord(schedule.trace, workload, [record.latency_s], target, arguments)

    def _is_permitted(self, module_json: str, record: ours.TuningRecord) -> bool:
        """Whether the trace passes the check in a confined child. Only then does this process apply and build it."""
        asked = (digest(module_json), record.trace.trace_id)
        if asked not in self._permitted:
            question = TraceQuestion(module_json=module_json, trace=record.trace)
            try:
                call(self._client.converter.fork_server, ENTRY, question, Permitted, field="record")
                self._permitted[asked] = True
            except BadInput:
                self._permitted[asked] = False
        return self._permitted[asked]

    def _target(self, target_id: str) -> Any:
        if target_id not in self._targets:
            self._targets[target_id] = tvm.target.Target(self._client.targets.get(target_id).attributes())
        return self._targets[target_id]


def _first(count: int, records: Iterator[TuningRecord]) -> Iterator[TuningRecord]:
    return (record for _, record in zip(range(count), records, strict=False))


def _latency_s(run_secs: Any) -> float | None:
    if not run_secs:
        return None
    latency_s = statistics.median(float(each) for each in run_secs)
    return latency_s if math.isfinite(latency_s) and 0 < latency_s < LONGEST_LATENCY_S else None
