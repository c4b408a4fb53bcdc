"""Scheduled modules are timed as they are, and correct if they compute finite numbers."""

from tests.workers.measuring import RunningFarm, message_of, reason_of
from tests.workers.workloads import dispatch, matmul, not_a_number, square_root, task
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import Measurement, Timing
from tunefarm_schemas.tuning.trace import Trace

AS_IT_IS = Trace(text="[[],[]]")


def measured(running: RunningFarm, name: str, module: object) -> Measurement:
    running.farm.open_task(task(module, name).model_copy(update={"is_scheduled": True}))
    running.farm.submit(dispatch(name, AS_IT_IS))
    (measurement,) = running.collect(1).values()
    running.farm.close_task(name)
    return measurement


def test_given_schedule_is_timed_without_reference(running: RunningFarm) -> None:
    measurement = measured(running, "given", matmul(32))
    assert isinstance(measurement.result, Timing)
    assert measurement.worst_error == 0.0


def test_given_schedule_gets_positive_inputs(running: RunningFarm) -> None:
    assert isinstance(measured(running, "given root", square_root()).result, Timing)


def test_given_schedule_without_finite_output_fails_alone(running: RunningFarm) -> None:
    measurement = measured(running, "given nonsense", not_a_number())
    assert reason_of(measurement) is FailureReason.WRONG_RESULT
    assert "not finite" in message_of(measurement)
    assert isinstance(measured(running, "given again", matmul(16)).result, Timing)
