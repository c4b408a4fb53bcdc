"""The results of an exploration after second attempts."""

import pytest

from tests.tuner.job.test_effort_left import SEED, candidate, run_that_spent
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.measurement import (
    Failed,
    Measurement,
    Result,
    Stages,
    Stopped,
    Timing,
)
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.tuner.farm.attempts import dispatch_of
from tunefarm_services.tuner.search.exploration_run import ExplorationRun

FIRST_S, OTHER_S = 1e-5, 2e-5
OTHER = Trace(text=SEED.text.replace("main", "other"))


def timing(latency_s: float) -> Timing:
    return Timing(latency_s=latency_s, samples_s=(latency_s,))


def failed(reason: FailureReason) -> Failed:
    return Failed(failure=TrialFailure(reason=reason, message="It did."))


def take(run: ExplorationRun, number: int, result: Result, attempt: int = 1) -> bool:
    trace = OTHER if number else SEED
    run.add_candidate(number, trace)
    dispatch = dispatch_of(candidate(run, number, trace), fence=1, attempt=attempt)
    return run.measured(Measurement.answering(dispatch, result, Stages()), elapsed_s=1.0)


@pytest.fixture
def run() -> ExplorationRun:
    run = run_that_spent(0)
    assert take(run, 0, timing(FIRST_S))
    assert not take(run, 1, timing(OTHER_S))
    return run


@pytest.mark.parametrize("second", [timing(3e-5), Stopped(at_least_s=3e-5), failed(FailureReason.WRONG_RESULT)])
def test_second_attempt_replaces_first_latency(run: ExplorationRun, second: Result) -> None:
    assert not take(run, 0, second, attempt=2)
    assert (run.best_latency_s, run.fastest(1), run.trials_done) == (OTHER_S, [OTHER], 2)


@pytest.mark.parametrize("reason", [FailureReason.DEVICE_LOST, FailureReason.CANCELED, FailureReason.CRASH])
def test_aborted_second_attempt_keeps_first_latency(run: ExplorationRun, reason: FailureReason) -> None:
    assert not take(run, 0, failed(reason), attempt=2)
    assert (run.best_latency_s, run.fastest(1)) == (FIRST_S, [SEED])


def test_second_latency_improves_only_below_best(run: ExplorationRun) -> None:
    assert not take(run, 0, timing(1.5e-5), attempt=2)
    assert (run.best_latency_s, len(run.improvements)) == (1.5e-5, 1)
    assert take(run, 1, timing(0.5e-5), attempt=2)
    assert (run.best_latency_s, run.improvements[-1].latency_s) == (0.5e-5, 0.5e-5)
