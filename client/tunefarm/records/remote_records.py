"""The record commands' access to a service."""

from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from tunefarm.http.api_error import ApiError
from tunefarm.options.device_class_option import class_of_devices
from tunefarm.records.record_place import Written
from tunefarm.records.tvm_database_folder import read_database, write_database
from tunefarm_schemas.kernel_library.rules import LibraryRules
from tunefarm_schemas.tuning.record import RecordMatch, RecordStatus, TuningRecord
from tunefarm_schemas.views.database import ImportReport
from tunefarm_schemas.views.record import CodeForm, RecordCode, RecordInField, RecordTrials

if TYPE_CHECKING:
    from tunefarm.client import Client
    from tunefarm.records.record_place import ModuleQuery

MAX_LISTED = 10_000
"""A service lists records by id: the newest are selected from at most this many."""


class RemoteRecords:
    """The records of a service."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    def listed(self, status: RecordStatus | None, limit: int) -> Sequence[TuningRecord]:
        """Records, the newest first."""
        found = self._client.records.list(status=status, limit=MAX_LISTED)
        return sorted(found, key=lambda record: record.created_at, reverse=True)[:limit]

    def best(self, query: "ModuleQuery") -> Sequence[RecordMatch]:
        """The best records for a module, each with its kind of match."""
        conversion = self._client.converter.convert(query.request())
        return self._client.records.best(
            conversion.modules[0].text,
            function=conversion.function,
            target=conversion.target,
            device_class_id=class_of_devices(query.device_class, self._client.devices.list),
            protocol_id=query.protocol_id,
            abi=query.abi,
        )

    def named(self, record_id: str) -> TuningRecord:
        """The record whose id is, or begins with, ``record_id``."""
        return self._client.records.get(record_id)

    def workload_name(self, record: TuningRecord) -> str:
        """The name of the record's workload."""
        return self._client.workloads.view(record.key.workload_id).name

    def code(self, record: TuningRecord, form: CodeForm) -> RecordCode:
        """A text of the record's code, written by the service."""
        return self._client.records.code(record.record_id, form)

    def trials(self, record: TuningRecord) -> RecordTrials:
        """The fastest trials of the record's search."""
        return self._client.records.trials(record.record_id)

    def field(self, record: TuningRecord) -> RecordInField | None:
        """What devices report of releases with the record; None if the token may not see that."""
        try:
            return self._client.records.field(record.record_id)
        except ApiError as refusal:
            if refusal.status != HTTPStatus.FORBIDDEN:
                raise
            return None

    def export(self, folder: str, record_ids: Sequence[str]) -> Written:
        """Write records as TVM's JSON database."""
        exported = self._client.records.export(record_ids)
        write_database(folder, exported.workloads, exported.records)
        return Written(exported.exported, tuple((each.records, each.reason) for each in exported.left_out))

    def take_in(self, folder: str) -> ImportReport:
        """Import records of TVM's JSON database as claimed."""
        workloads, records = read_database(folder)
        return self._client.records.import_(workloads, records)

    def publish(self, query: "ModuleQuery", trace: str, latency_s: float) -> TuningRecord:
        """Publish a schedule of a module as claimed. ``trace`` is as typed."""
        conversion = self._client.converter.convert(query.request(trace))
        module = conversion.modules[0]
        return self._client.records.publish(
            module.text,
            function=conversion.function,
            target=conversion.target,
            trace=conversion.seed_traces[0],
            latency_s=latency_s,
            name=module.name or None,
        )

    def retract(self, record: TuningRecord, reason: str) -> None:
        """Retract a record."""
        self._client.records.retract(record.record_id, reason)

    def write_artifact(self, record: TuningRecord, folder: Path, rules: LibraryRules) -> tuple[str, Path]:
        """Write the record's library, manifest and function; returns the artifact's id and the library's path."""
        built = self._client.artifacts.of_record(record.record_id)
        return built.manifest.artifact_id, built.write(
            folder, callees=rules.callees, device_code=rules.may_hold_device_code
        )
