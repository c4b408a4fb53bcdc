"""Records wherever they are: the port that the record commands use."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tunefarm_schemas.kernel_library.rules import LibraryRules
from tunefarm_schemas.tuning.device import HOT_CACHE
from tunefarm_schemas.tuning.record import RecordMatch, RecordStatus, TuningRecord
from tunefarm_schemas.tuning.workload import Abi

if TYPE_CHECKING:
    from tunefarm.confined.record_view import RecordView
    from tunefarm.intake.intake_request import IntakeRequest
    from tunefarm_schemas.views.database import ImportReport
    from tunefarm_services.exchange.database_import import ImportOutcome


@dataclass(frozen=True)
class ModuleQuery:
    """Which module's records are asked for, as typed.

    ``device_class`` is the id of a class of devices, or the first characters of one; the place's own where it is None.
    """

    module: str
    function: str | None
    target: str
    abi: Abi
    protocol_id: str = HOT_CACHE.protocol_id
    device_class: str | None = None

    def request(self, trace: str | None = None) -> "IntakeRequest":
        """What the intake is asked. ``trace`` is the file of a trace's JSON or ``FILE.py:FUNCTION``, for any machine.

        Raises:
            BadInput: the module or the trace names nothing that can be read.
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
    """How many records an export wrote, and how many it left out for which reason."""

    records: int
    left_out: tuple[tuple[int, str], ...] = ()


class RecordPlace(Protocol):
    """Records, wherever they are. Raises BadInput, and what its store or service raises."""

    def listed(self, status: RecordStatus | None, limit: int) -> Sequence[TuningRecord]:
        """Records, the newest first."""

    def best(self, query: ModuleQuery) -> Sequence[RecordMatch]:
        """The best records for a module, and what matched."""

    def named(self, record_id: str) -> TuningRecord:
        """The record whose id is, or begins with, ``record_id``."""

    def workload_name(self, record: TuningRecord) -> str:
        """What the record's workload is called."""

    def view(self, record: TuningRecord) -> "RecordView":
        """What its trace makes of its workload."""

    def export(self, folder: str, record_ids: Sequence[str]) -> Written:
        """Write records as TVM's JSON database."""

    def take_in(self, folder: str) -> "ImportOutcome | ImportReport":
        """Take records of TVM's JSON database in, as claims."""

    def publish(self, query: ModuleQuery, trace: str, latency_s: float) -> TuningRecord:
        """Keep a schedule of a module as a claim. ``trace`` is as typed, the latency in seconds."""

    def retract(self, record: TuningRecord, reason: str) -> None:
        """Take a record back."""

    def write_artifact(self, record: TuningRecord, folder: Path, rules: LibraryRules) -> tuple[str, Path]:
        """Write the record's library, its manifest and its function; the artifact's id and the library's path.

        ``rules`` say what the library may do beyond what every kernel may.
        """
