"""The effort left to a job after earlier trials of its explorations."""

from tests.store.sample import TARGET, workload
from tunefarm_schemas.tuning.job import Effort, EffortSpent, Exploration, ExplorationKey, JobSpec, StopReason
from tunefarm_schemas.tuning.measurement import Candidate, CandidateOrigin, Measurement, Stages, Timing
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Task
from tunefarm_services.tuner.farm.attempts import dispatch_of
from tunefarm_services.tuner.job.effort_left import effort_left, only_seeds_are_left
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.search.search_messages import KnownTrialMessage

SEED = Trace(text='[[["GetSBlock",[],["C","main"],["b0"]]],[]]')


def run_that_spent(
    trials: int, seconds: float = 0.0, reason: StopReason | None = None, best_s: float | None = None
) -> ExplorationRun:
    key = ExplorationKey(
        tenant="local",
        workload_id=workload().workload_id,
        target_id=TARGET.target_id,
        device_class_id="d",
        code_generator="g",
        protocol_id="cpu-hot-cache/1",
        space_id="automatic",
        abi="stable",
    )
    return ExplorationRun(
        task=Task(workload_id=key.workload_id, target_id=key.target_id, name="matmul"),
        workload=workload(),
        target=TARGET,
        abi="stable",
        exploration=Exploration(
            exploration_id=key.exploration_id,
            key=key,
            spent=EffortSpent(trials=trials, seconds=seconds, stop_reason=reason),
            best_latency_s=best_s,
        ),
        best_latency_s=best_s,
    )


def candidate(run: ExplorationRun, number: int, trace: Trace) -> Candidate:
    return Candidate(
        exploration_id=run.exploration_id,
        number=number,
        trace=trace,
        module_hash=str(number),
        origin=CandidateOrigin.RANDOM,
    )


def run_that_measured(trials: int, *, best_at: int, reason: StopReason) -> ExplorationRun:
    run = run_that_spent(trials, reason=reason)
    for number in range(trials):
        latency_s = 1e-5 if number >= best_at else 2e-5
        proposed = candidate(run, number, SEED)
        dispatch = dispatch_of(proposed, fence=1, attempt=1)
        timing = Timing(latency_s=latency_s, samples_s=(latency_s,))
        run.add_known(
            KnownTrialMessage(candidate=proposed, measurement=Measurement.answering(dispatch, timing, Stages()))
        )
    return run


def spec(effort: Effort, *seeds: Trace) -> JobSpec:
    task = Task(workload_id="w", target_id="t", name="matmul")
    return JobSpec(tasks=(task,), effort=effort, protocol_id="cpu-hot-cache/1", seed_traces=seeds)


def test_new_exploration_gets_full_effort() -> None:
    asked = Effort(trials=64, seconds=30)
    assert effort_left(spec(asked), [run_that_spent(0)]) == asked


def test_effort_left_is_requested_minus_spent() -> None:
    left = effort_left(spec(Effort(trials=96, seconds=30)), [run_that_spent(64, 12.0)])
    assert left == Effort(trials=32, seconds=18)


def test_no_effort_left_after_equal_effort() -> None:
    assert effort_left(spec(Effort(trials=64)), [run_that_spent(64)]) is None
    assert effort_left(spec(Effort(trials=64, seconds=10)), [run_that_spent(20, 10.0)]) is None


def test_no_effort_left_in_exhausted_space() -> None:
    run = run_that_spent(9, reason=StopReason.SPACE_EXHAUSTED)
    assert effort_left(spec(Effort(trials=64)), [run]) is None


def test_no_effort_left_at_target_latency() -> None:
    effort = Effort(trials=64, target_latency_s=1e-5)
    assert effort_left(spec(effort), [run_that_spent(8, best_s=0.9e-5)]) is None
    assert effort_left(spec(effort), [run_that_spent(8, best_s=1.1e-5)]) is not None


def test_plateau_ends_only_jobs_with_plateau_effort() -> None:
    run = run_that_measured(40, best_at=20, reason=StopReason.PLATEAU)
    assert effort_left(spec(Effort(trials=64, plateau_trials=16)), [run]) is None
    assert effort_left(spec(Effort(trials=64)), [run]) == Effort(trials=24)


def test_plateau_does_not_answer_longer_plateau() -> None:
    run = run_that_measured(40, best_at=20, reason=StopReason.PLATEAU)
    assert effort_left(spec(Effort(trials=64, plateau_trials=32)), [run]) is not None


def test_untried_seed_is_measured_after_spent_effort() -> None:
    run = run_that_spent(64)
    assert effort_left(spec(Effort(trials=64), SEED), [run]) == Effort(trials=1)
    run.add_candidate(3, SEED)
    assert effort_left(spec(Effort(trials=64), SEED), [run]) is None


def test_seed_equals_candidate_with_postprocessors() -> None:
    given = Trace(text='[[["A",[],[],[]],["SamplePerfectTile",[],[],[]]],[[1,[2,2]]]]')
    tried = '[[["A",[],[],[]],["SamplePerfectTile",[],[],[]],["EnterPostproc",[],[],[]],["B",[],[],[]]],[[1,[%s]]]]'
    run = run_that_spent(64)
    run.add_candidate(3, Trace(text=tried % "4,1"))
    assert effort_left(spec(Effort(trials=64), given), [run]) == Effort(trials=1)
    assert only_seeds_are_left(spec(Effort(trials=64), given), [run])
    run.add_candidate(4, Trace(text=tried % "2,2"))
    assert effort_left(spec(Effort(trials=64), given), [run]) is None


def test_untried_task_keeps_its_share_of_effort() -> None:
    runs = [run_that_spent(512, 40.0), run_that_spent(0)]
    assert effort_left(spec(Effort(trials=512, seconds=60)), runs) == Effort(trials=256, seconds=30)
    assert effort_left(spec(Effort(trials=2000)), runs) == Effort(trials=1488)


def test_tasks_share_one_budget() -> None:
    left = effort_left(spec(Effort(trials=64)), [run_that_spent(20), run_that_spent(30)])
    assert left == Effort(trials=14)
