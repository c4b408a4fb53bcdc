import tvm

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.strategy.candidate_filter import CandidateFilter

FUNCTIONS = {name: tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(number)) for number, name in enumerate("ab")}
MODULES = {name: tvm.IRModule({name: function}) for name, function in FUNCTIONS.items()}


def scheduled(text: str, module_hash: str = "7", point: Point | None = None) -> Scheduled:
    return Scheduled(point, Trace(text=text), module_hash)


def filter_of(same: dict[str, str]) -> CandidateFilter:
    return CandidateFilter(lambda trace: MODULES[same[trace.text]])


def failed(reason: FailureReason, under_load: bool = False) -> TrialFailure:
    return TrialFailure(reason=reason, message="", under_load=under_load)


def test_filter_rejects_repeated_function() -> None:
    known = filter_of({"first": "a", "second": "a"})
    assert known.admit(scheduled("first"))
    assert not known.admit(scheduled("second"))


def test_filter_accepts_hash_collision() -> None:
    known = filter_of({"first": "a", "second": "b"})
    assert known.admit(scheduled("first"))
    assert known.admit(scheduled("second"))


def test_filter_rejects_stored_trials() -> None:
    known = filter_of({"first": "a"})
    known.note_tried("7", [Trace(text="first")])
    assert not known.admit(scheduled("first"))


def test_filter_readmits_candidate_once_after_lost_device() -> None:
    known = filter_of({"first": "a"})
    lost = scheduled("first", point=Point(0, (1, 2)))
    known.note_point(Point(0, (1, 2)))
    assert known.admit(lost)
    known.note_failure(lost, failed(FailureReason.DEVICE_LOST))
    assert known.is_new_point(Point(0, (1, 2)))
    assert known.admit(lost)
    known.note_failure(lost, failed(FailureReason.DEVICE_LOST))
    assert not known.admit(lost)


def test_filter_rejects_canceled_then_measured_candidate() -> None:
    known = filter_of({"first": "a", "second": "a"})
    known.note_tried("7", [Trace(text="first"), Trace(text="second")])
    known.note_failure(scheduled("first"), failed(FailureReason.CANCELED))
    assert not known.admit(scheduled("first"))
    assert not known.admit(scheduled("second"))


def test_filter_readmits_timed_out_candidate_of_busy_host() -> None:
    known = filter_of({"first": "a"})
    assert known.admit(scheduled("first"))
    known.note_failure(scheduled("first"), failed(FailureReason.RUN_TIMEOUT))
    assert not known.admit(scheduled("first"))
    known.note_failure(scheduled("first"), failed(FailureReason.RUN_TIMEOUT, under_load=True))
    assert known.admit(scheduled("first"))


def test_filter_recognises_repeated_schedule(matmul_space: SearchSpace) -> None:
    scheduler = Scheduler(matmul_space)
    known = CandidateFilter(scheduler.module_of)
    sketch = matmul_space.sketches[2]
    applied = scheduler.apply(Point(2, tuple(int(size) // 2 for size in sketch.sizes)))
    assert isinstance(applied, Scheduled)
    assert known.admit(applied)
    assert not known.admit(applied)
