"""Orders of a farm to lanes, and which answers fit them."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from tunefarm_schemas.farm.farm_message import Compared, ExportEnded
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Dispatch, ExportOrder, Measurement


@dataclass(frozen=True)
class FarmOrder:
    """An order to a lane: an attempt, or a comparison or an export with the future of its answer."""

    task_digest: str
    epoch: int
    dispatch: Dispatch | None = None
    question: ComparisonOrder | ExportOrder | None = None
    answer: "Future[Any] | None" = None

    @property
    def ids(self) -> dict[str, object]:
        """The ids of an attempt, for the log."""
        if self.dispatch is None:
            return {}
        candidate = self.dispatch.candidate
        return {"exploration_id": candidate.exploration_id, "candidate": candidate.number}

    def is_measured_by(self, measurement: Measurement) -> bool:
        """Whether a result has the nonce and ids of the attempt. Only a lane that received it knows the nonce."""
        dispatch = self.dispatch
        if dispatch is None:
            return False
        candidate = dispatch.candidate
        sent = (dispatch.nonce, dispatch.fence, dispatch.attempt, dispatch.purpose, candidate.exploration_id)
        got = (
            measurement.nonce,
            measurement.fence,
            measurement.attempt,
            measurement.purpose,
            measurement.exploration_id,
        )
        return sent == got and candidate.number == measurement.candidate_number

    def is_asked_by(self, message: Compared | ExportEnded) -> bool:
        """Whether it asks for answers of this kind. The id of an order alone does not say what it asks for."""
        return isinstance(self.question, ComparisonOrder if isinstance(message, Compared) else ExportOrder)

    def fault_of(self, message: Compared) -> str:
        """Why an answer to the comparison cannot be used; empty if it can."""
        schedules = len(self.question.traces) if isinstance(self.question, ComparisonOrder) else 0
        results = len(message.comparison.results)
        return "" if results == schedules else f"Its lane sent {results} results for {schedules} schedules."
