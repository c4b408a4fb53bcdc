"""The port of the record commands to records on this machine or on a service."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tunefarm_schemas.kernel_library.rules import LibraryRules
from tunefarm_schemas.tuning.device import HOT_CACHE
from tunefarm_schemas.tuning.record import RecordMatch, RecordStatus, TuningRecord
from tunefarm_schemas.tuning.workload import Abi

if TYPE_CHECKING:
    from tunefarm.intake.intake_request import IntakeRequest
    from tunefarm_schemas.views.database import ImportReport
    from tunefarm_schemas.views.record import CodeForm, RecordCode, RecordInField, RecordTrials


@dataclass(frozen=True)
class ModuleQuery:
    """The module whose records are wanted, as typed.

    ``device_class`` is the id of a device class or a prefix of it; None for the default of the place.
    """

    module: str
    function: str | None
    target: str
    abi: Abi
    protocol_id: str = HOT_CACHE.protocol_id
    device_class: str | None = None

    def request(self, trace: str | None = None) -> "IntakeRequest":
        """The request for the intake. ``trace`` is a file with a trace's JSON or ``FILE.py:FUNCTION``, for any machine.

        Raises:
            BadInput: the module or the trace cannot be read.
        """
        from tunefarm.intake.intake_request import IntakeRequest
        from tunefarm.intake.module_source import parse_module_source
        from tunefarm.intake.python_input import seed_source_of_text
        from tunefarm_schemas.host_cores import usable_physical_cores

        return IntakeRequest(
            module=parse_module_source(self.module),
            function=self.function,
            all_functions=False,
            target=self.target,
            abi=self.abi,
            space=None,
            seeds=() if trace is None else (seed_source_of_text("trace", trace),),
            host_cores=usable_physical_cores(),
            elsewhere=trace is not None,
        )


@dataclass(frozen=True)
class Written:
    """The number of records that an export wrote, and the numbers left out with their reasons."""

    records: int
    left_out: tuple[tuple[int, str], ...] = ()


class RecordPlace(Protocol):
    """Access to records. Raises BadInput, and the errors of its store or service."""

    def listed(self, status: RecordStatus | None, limit: int) -> Sequence[TuningRecord]:
        """Records, the newest first."""

    def best(self, query: ModuleQuery) -> Sequence[RecordMatch]:
        """The best records for a module, each with its kind of match."""

    def named(self, record_id: str) -> TuningRecord:
        """The record whose id is, or begins with, ``record_id``."""

    def workload_name(self, record: TuningRecord) -> str:
        """The name of the record's workload."""

    def code(self, record: TuningRecord, form: "CodeForm") -> "RecordCode":
        """A text of the record's code."""

    def trials(self, record: TuningRecord) -> "RecordTrials":
        """The fastest trials of the record's search."""

    def field(self, record: TuningRecord) -> "RecordInField | None":
        """What devices report of releases with the record; None if the token may not see that."""

    def export(self, folder: str, record_ids: Sequence[str]) -> Written:
        """Write records as TVM's JSON database."""

    def take_in(self, folder: str) -> "ImportReport":
        """Import records of TVM's JSON database as claimed."""

    def publish(self, query: ModuleQuery, trace: str, latency_s: float) -> TuningRecord:
        """Publish a schedule of a module as claimed. ``trace`` is as typed."""

    def retract(self, record: TuningRecord, reason: str) -> None:
        """Retract a record."""

    def write_artifact(self, record: TuningRecord, folder: Path, rules: LibraryRules) -> tuple[str, Path]:
        """Write the record's library, manifest and function; returns the artifact's id and the library's path.

        ``rules`` permit what the library may do beyond the default.
        """
