"""One complete example of every message of the farm."""

from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.farm.farm_message import (
    Cancellation,
    Compared,
    CompareMessage,
    ExportEnded,
    ExportMessage,
    Heartbeat,
    Holding,
    LaneAnswer,
    Measured,
    MeasureMessage,
    Returned,
    Suspected,
    TaskMissing,
    Unverifiable,
)
from tunefarm_schemas.farm.lane import Lane, LaneRequest
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import Comparison, ComparisonOrder, Dispatch, ExportOrder, Measurement
from tunefarm_schemas.tuning.workload import TensorArgument

_ORDER = {"farm_id": "20", "epoch": 2, "job_id": "12", "task_digest": "21"}


def farm_nouns(nouns: tuple[Frozen, ...], failure: TrialFailure, argument: TensorArgument) -> tuple[Frozen, ...]:
    """The messages, built from the examples in ``nouns``."""

    def one(kind):
        return next(noun for noun in nouns if isinstance(noun, kind))

    lane = one(Lane)
    return (
        MeasureMessage(**_ORDER, incumbent_s=0.00012, dispatch=one(Dispatch)),
        CompareMessage(**_ORDER, order_id="22", order=one(ComparisonOrder)),
        ExportMessage(**_ORDER, order_id="23", order=one(ExportOrder)),
        Measured(lane_id="host/0", measurement=one(Measurement)),
        Holding(lane_id="host/0", instance="24", ids=("10", "22")),
        Returned(lane_id="host/0", ids=("10",)),
        TaskMissing(lane_id="host/0", task_digest="21", ids=("10",)),
        Suspected(lane_id="host/0", dispatch_ids=("10",)),
        Unverifiable(lane_id="host/0", exploration_id="0d", field="module", problem="It is odd.", fix="Even it."),
        Compared(lane_id="host/0", order_id="22", comparison=one(Comparison)),
        ExportEnded(
            lane_id="host/0",
            order_id="23",
            failure=failure,
            library_digest="25",
            entry="main",
            pack_entry="pack",
            packed_arguments=(argument,),
            process_latencies_s=(0.00012, 0.00013),
            untuned_latencies_s=(0.0002, 0.0003),
            foreign_load=0.25,
        ),
        Cancellation(farm_id="20", epoch=2, order_ids=("22",)),
        Heartbeat(lane_id="host/0", instance="24", lane=lane),
        LaneAnswer(lane_id="host/0", instance="24", admitted=True, reason="", request=LaneRequest.DRAIN),
    )
