"""If a device becomes slower during a search, each of its trials is repeated exactly once."""

from collections import Counter
from collections.abc import Callable

from tests.store.sample import TENANT
from tests.tuner.conftest import wait_finished
from tests.tuner.instant_farm import InstantFarm, latency_of
from tests.tuner.search.test_searching import matmul, random_job
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.job import JobOutcome
from tunefarm_schemas.tuning.measurement import Dispatch, Failed, Measurement, Result, Timing
from tunefarm_services.store import Store

Tuner = Callable[..., object]
TRIALS = 12
MEASURED_BEFORE = 3
LOST = Failed(failure=TrialFailure(reason=FailureReason.DEVICE_LOST, message="The device became slower than it was."))


class QuarantinedFarm(InstantFarm):
    """Measures a few candidates, then loses those in flight; all of them are suspect during the quarantine."""

    def __init__(self) -> None:
        super().__init__()
        self._measured = 0
        self.delivered: list[Measurement] = []
        self._asked_for_suspects = 0

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        answered = self._answer(self._result)
        self.delivered += answered
        return answered

    def suspects(self) -> list[Measurement]:
        is_quarantined = any(isinstance(measurement.result, Failed) for measurement in self.delivered)
        self._asked_for_suspects += is_quarantined
        return list(self.delivered) if is_quarantined and self._asked_for_suspects <= 3 else []

    def _result(self, dispatch: Dispatch) -> Result:
        # Second attempts may be interleaved with first ones of other candidates.
        self._measured += dispatch.attempt == 1
        if dispatch.attempt == 1 and MEASURED_BEFORE < self._measured <= 2 * MEASURED_BEFORE:
            return LOST
        latency_s = latency_of(dispatch.candidate.trace.text)
        return Timing(latency_s=latency_s, samples_s=(latency_s, latency_s))


def test_lost_and_suspect_candidates_are_repeated_once(store: Store, tuner: Tuner) -> None:
    made: list[QuarantinedFarm] = []

    def farm_for(lease: object, job: object) -> QuarantinedFarm:
        made.append(QuarantinedFarm())
        return made[-1]

    job = random_job(store, matmul(64), TRIALS)
    with tuner(farm_for):
        wait_finished(store, job)
    ended = store.jobs.get(TENANT, job.job_id)
    assert ended.outcome is JobOutcome.SUCCEEDED, ended.message
    (farm,) = made
    attempts = Counter((dispatch.candidate.number, dispatch.attempt) for dispatch in farm.submitted)
    assert set(attempts.values()) == {1}
    lost = {m.candidate_number for m in farm.delivered if m.result == LOST}
    assert len(lost) == MEASURED_BEFORE
    assert lost <= {number for number, attempt in attempts if attempt == 2}
    (exploration,) = store.explorations.of_job(TENANT, job.job_id)
    assert exploration.spent.trials == TRIALS
