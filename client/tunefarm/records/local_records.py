"""The record commands' access to this machine's store."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tunefarm.records.record_place import ModuleQuery, Written
from tunefarm_schemas.kernel_library.rules import LibraryRules
from tunefarm_schemas.tuning.record import RecordMatch, RecordStatus, TuningRecord

if TYPE_CHECKING:
    from tunefarm.confined.record_view import RecordView
    from tunefarm.local.machine import LocalMachine
    from tunefarm_services.exchange.database_import import ImportOutcome


class LocalRecords:
    """The records of this machine's store."""

    def __init__(self, machine: "LocalMachine") -> None:
        self._machine = machine

    def listed(self, status: RecordStatus | None, limit: int) -> Sequence[TuningRecord]:
        """Records, the newest first."""
        from tunefarm.records.record_queries import listed

        return listed(self._machine.store.records, status, limit)

    def best(self, query: ModuleQuery) -> Sequence[RecordMatch]:
        """The best records for a module, each with its kind of match."""
        from tunefarm.records.record_queries import best_matches

        return best_matches(self._machine, query)

    def named(self, record_id: str) -> TuningRecord:
        """The record whose id is, or begins with, ``record_id``."""
        from tunefarm.records.record_queries import named_record

        return named_record(self._machine.known_store, record_id)

    def workload_name(self, record: TuningRecord) -> str:
        """The name of the record's workload."""
        return self._machine.workload_name(record)

    def view(self, record: TuningRecord) -> "RecordView":
        """The workload with the record's trace applied."""
        from tunefarm.records.record_queries import schedule_view

        return schedule_view(self._machine, record)

    def export(self, folder: str, record_ids: Sequence[str]) -> Written:
        """Write records as TVM's JSON database."""
        from tunefarm.records.database_exchange import export_records

        return export_records(self._machine, folder, record_ids)

    def take_in(self, folder: str) -> "ImportOutcome":
        """Import records of TVM's JSON database as claimed."""
        from tunefarm.records.database_exchange import import_database

        return import_database(self._machine, folder)

    def publish(self, query: ModuleQuery, trace: str, latency_s: float) -> TuningRecord:
        """Publish a schedule of a module as claimed. ``trace`` is as typed."""
        from tunefarm.records.record_queries import published

        return published(self._machine, query.request(trace), latency_s)

    def retract(self, record: TuningRecord, reason: str) -> None:
        """Retract a record."""
        from tunefarm_services.store import LOCAL_TENANT

        self._machine.store.records.retract(LOCAL_TENANT, record.record_id, reason)

    def write_artifact(self, record: TuningRecord, folder: Path, rules: LibraryRules) -> tuple[str, Path]:
        """Write the record's library, manifest and function; returns the artifact's id and the library's path."""
        from tunefarm.artifact.artifact_folder import write_artifact
        from tunefarm.records.record_queries import stored_artifact
        from tunefarm_services.store import LOCAL_TENANT

        store = self._machine.store
        manifest, library = stored_artifact(store.artifacts, record)
        module_json = store.workloads.get(LOCAL_TENANT, manifest.workload_id).module_json
        examples = store.input_examples.get(manifest.input_specs)
        return manifest.artifact_id, write_artifact(folder, manifest, library, module_json, examples, rules)
