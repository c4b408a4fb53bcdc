"""Which records TVM's JSON database can represent, and the report of those that an export leaves out."""

from collections.abc import Iterable
from typing import Final

from tunefarm_schemas.tuning.record import RecordStatus, TuningRecord
from tunefarm_schemas.views.database import LeftOutRecords

PACKED: Final = (
    "packed: TVM's database cannot represent the function that packs their weights. TVM would pack them in every call, "
    "and the latencies would not apply. Export the library instead: tunefarm artifact build RECORD --output DIR"
)
CLAIMED: Final = "claimed: not measured here. Name those to export."
FIX: Final = "Export records of the stable ABI."


def holds(record: TuningRecord) -> bool:
    """Whether TVM's database can represent the record."""
    return record.key.abi == "stable"


def left_out(records: Iterable[TuningRecord]) -> tuple[LeftOutRecords, ...]:
    """Report ``records``, none of which was exported and none of which is retracted."""
    reasons = [CLAIMED if record.status is RecordStatus.CLAIMED else PACKED for record in records]
    return tuple(LeftOutRecords(records=reasons.count(each), reason=each) for each in dict.fromkeys(reasons))
