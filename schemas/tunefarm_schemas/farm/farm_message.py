"""Messages between tuners and lanes, sent through the broker.

Messages carry ids, digests, nonces and traces; modules and libraries travel as blobs, by digest. A tuner's farm sends
orders to any lane of a pool, a lane sends replies to the farm that sent the order and heartbeats to any registrar, and
registrars send answers to one lane.
"""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, TypeAdapter, model_validator

from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.farm.lane import Lane, LaneRequest
from tunefarm_schemas.frozen import Frozen, digest
from tunefarm_schemas.tuning.measurement import (
    Comparison,
    ComparisonOrder,
    Dispatch,
    ExportOrder,
    Measurement,
    Seconds,
    Share,
)
from tunefarm_schemas.tuning.workload import TensorArgument

MESSAGE_VERSION: Final = 2
"""Incremented when an old lane could misread a new order, or an old tuner a new reply. Lanes of another version get no
work. Heartbeats and answers keep the fields ``version``, ``lane_id`` and ``reason`` permanently, so that each side can
report the mismatch."""

MEASURE: Final = "tunefarm.measure"
COMPARE: Final = "tunefarm.compare"
EXPORT: Final = "tunefarm.export"

HEARTBEATS: Final = "heartbeats"
CANCELLATIONS: Final = "cancellations"


def queue_name(device_class_id: str, code_generator: str) -> str:
    """The queue of all lanes that produce comparable timings and use this version."""
    return f"lanes.{MESSAGE_VERSION}.{device_class_id[:16]}.{digest(code_generator)[:12]}"


def replies_key(farm_id: str) -> str:
    """The stream in which replies to one farm wait until they are acknowledged."""
    return f"replies.{farm_id}"


def farm_key(farm_id: str) -> str:
    """The key of a farm's liveness and of its cancellations."""
    return f"farm.{farm_id}"


def lane_channel(lane_id: str) -> str:
    """The channel on which one lane receives answers."""
    return f"lane.{lane_id}"


class MeasureMessage(Frozen):
    """One attempt. ``task_digest`` names the blob with the JSON of its ``MeasureTask``.

    ``epoch`` grows by one with each ``cancel_all`` of the farm, which cancels all earlier orders.
    """

    farm_id: str
    epoch: int
    job_id: str
    task_digest: str
    incumbent_s: float | None
    dispatch: Dispatch


class CompareMessage(Frozen):
    """An order to compare schedules, for one lane."""

    farm_id: str
    epoch: int
    job_id: str
    task_digest: str
    order_id: str
    order: ComparisonOrder


class ExportMessage(Frozen):
    """An order to export a schedule, for one lane."""

    farm_id: str
    epoch: int
    job_id: str
    task_digest: str
    order_id: str
    order: ExportOrder


class Measured(Frozen):
    """The result of an attempt."""

    kind: Literal["measured"] = "measured"
    lane_id: str
    measurement: Measurement


class Holding(Frozen):
    """All orders of one farm that a lane holds now: it has never received any other, or has answered it.

    ``instance`` distinguishes restarts of the lane's process.
    """

    kind: Literal["holding"] = "holding"
    lane_id: str
    instance: str
    ids: tuple[str, ...]


class Returned(Frozen):
    """An order taken from the queue but not begun, to be sent to another lane."""

    kind: Literal["returned"] = "returned"
    lane_id: str
    ids: tuple[str, ...]


class TaskMissing(Frozen):
    """The blob of a task is missing; the orders in ``ids`` need it."""

    kind: Literal["task_missing"] = "task_missing"
    lane_id: str
    task_digest: str
    ids: tuple[str, ...]


class Suspected(Frozen):
    """Attempts whose device turned out to have slowed down."""

    kind: Literal["suspected"] = "suspected"
    lane_id: str
    dispatch_ids: tuple[str, ...]


class Unverifiable(Frozen):
    """An exploration whose results cannot be checked, with the fields of its ``BadInput``."""

    kind: Literal["unverifiable"] = "unverifiable"
    lane_id: str
    exploration_id: str
    field: str
    problem: str
    fix: str


class Compared(Frozen):
    """The result of a comparison."""

    kind: Literal["compared"] = "compared"
    lane_id: str
    order_id: str
    comparison: Comparison


class ExportEnded(Frozen):
    """The result of an export: a library in the blob store, or the failure."""

    kind: Literal["export_ended"] = "export_ended"
    lane_id: str
    order_id: str
    failure: TrialFailure | None = None
    library_digest: str = ""
    entry: str = ""
    pack_entry: str | None = None
    packed_arguments: tuple[TensorArgument, ...] = ()
    process_latencies_s: tuple[Seconds, ...] = ()
    untuned_latencies_s: tuple[Seconds, ...] = ()
    foreign_load: Share = 0.0

    @model_validator(mode="after")
    def _has_a_failure_or_latencies(self) -> Self:
        if self.failure is None and not self.process_latencies_s:
            raise ValueError("process_latencies_s is empty, and there is no failure")
        return self


Reply = Annotated[
    Measured | Holding | Returned | TaskMissing | Suspected | Unverifiable | Compared | ExportEnded,
    Field(discriminator="kind"),
]
reply: Final[TypeAdapter[Reply]] = TypeAdapter(Reply)


class Cancellation(Frozen):
    """Cancels all orders of a farm up to ``epoch``, and the orders in ``order_ids``."""

    farm_id: str
    epoch: int = 0
    order_ids: tuple[str, ...] = ()


class Heartbeat(Frozen):
    """The current state of a lane."""

    version: int = MESSAGE_VERSION
    lane_id: str
    instance: str
    lane: Lane


class LaneAnswer(Frozen):
    """A registrar's answer to a heartbeat. ``reason`` states why a lane is not admitted."""

    version: int = MESSAGE_VERSION
    lane_id: str
    instance: str
    admitted: bool
    reason: str = ""
    request: LaneRequest = LaneRequest.NONE
