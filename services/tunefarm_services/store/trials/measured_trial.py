"""The effect of a measurement on its trial."""

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import BindParameter, Boolean, Connection, bindparam, case, or_, update

from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import Failed, Measurement, Purpose, Stopped, Timing, TrialState
from tunefarm_services.store.database.insert_once import insert_into, insert_once
from tunefarm_services.store.tables import MeasurementTable, TrialTable

_OF_TRIAL: Final = update(TrialTable).where(
    TrialTable.tenant == bindparam("of_tenant"),
    TrialTable.exploration_id == bindparam("of_exploration"),
    TrialTable.candidate_number == bindparam("of_number"),
)
_RESULT: Final[dict[str, BindParameter[object]]] = {
    "latency_s": bindparam("new_latency_s"),
    "at_least_s": bindparam("new_at_least_s"),
    "failure_reason": bindparam("new_reason"),
    "failure_message": bindparam("new_message"),
    "failure_under_load": bindparam("new_under_load"),
}
_IS_DONE: Final = {
    "state": TrialState.DONE.value,
    "is_counted": or_(TrialTable.is_counted, bindparam("now_counted", type_=Boolean())),
}
_DONE: Final = _OF_TRIAL.values(**_IS_DONE, **_RESULT)
_WAS_TIMED: Final = or_(TrialTable.latency_s.is_not(None), TrialTable.at_least_s.is_not(None))
_DONE_UNLESS_TIMED: Final = _OF_TRIAL.values(
    **_IS_DONE, **{name: case((_WAS_TIMED, getattr(TrialTable, name)), else_=new) for name, new in _RESULT.items()}
)
_REFUTED: Final = _OF_TRIAL.values(**_RESULT)


def store_measurement(connection: Connection, tenant: str, measurement: Measurement) -> bool:
    """Insert a measurement and update its trial; False, without changes, if it is already stored."""
    row = _measurement_values(tenant, measurement, _result_values(measurement))
    if not connection.execute(insert_once(connection, MeasurementTable), row).rowcount:
        return False
    _update_trials(connection, tenant, [measurement])
    return True


def store_new_measurements(
    connection: Connection, tenant: str, measurements: Sequence[Measurement], sent_again: Collection[int]
) -> list[Measurement]:
    """Insert measurements that are not stored yet and update their trials, in a constant number of statements.

    Returns those that count. Candidates in ``sent_again`` have a result of their second attempt, which overrides
    the first.
    """
    if not measurements:
        return []
    rows = [_measurement_values(tenant, each, _result_values(each)) for each in measurements]
    connection.execute(insert_into(connection, MeasurementTable), rows)
    counting = [each for each in measurements if not _is_superseded(each, sent_again)]
    _update_trials(connection, tenant, counting)
    return counting


def _is_superseded(measurement: Measurement, sent_again: Collection[int]) -> bool:
    is_first = measurement.purpose is Purpose.SEARCH and measurement.attempt == 1
    return is_first and measurement.candidate_number in sent_again


def _update_trials(connection: Connection, tenant: str, measurements: Sequence[Measurement]) -> None:
    done: list[dict[str, object]] = []
    unfinished: list[dict[str, object]] = []
    refuted: list[dict[str, object]] = []
    for measurement in measurements:
        of_trial = _result_values(measurement) | {
            "of_tenant": tenant,
            "of_exploration": measurement.exploration_id,
            "of_number": measurement.candidate_number,
        }
        if measurement.purpose is Purpose.SEARCH:
            spent = done if measurement.attempt == 1 or measurement.came_to_an_end else unfinished
            spent.append(of_trial | {"now_counted": is_spent(measurement)})
        elif is_wrong(measurement):
            refuted.append(of_trial)
    # Last, because a refutation by verification overrides a search result.
    for statement, values in ((_DONE, done), (_DONE_UNLESS_TIMED, unfinished), (_REFUTED, refuted)):
        if values:
            connection.execute(statement, values)


def is_spent(measurement: Measurement) -> bool:
    """Whether the trial is spent: a first attempt is not if it lost its device or was canceled."""
    result = measurement.result
    return measurement.attempt > 1 or not (isinstance(result, Failed) and result.failure.reason.may_be_tried_again)


def is_wrong(measurement: Measurement) -> bool:
    """Whether the schedule computed another result than its workload."""
    result = measurement.result
    return isinstance(result, Failed) and result.failure.reason is FailureReason.WRONG_RESULT


def _result_values(measurement: Measurement) -> dict[str, object]:
    result = measurement.result
    failure = result.failure if isinstance(result, Failed) else None
    return {
        "new_latency_s": result.latency_s if isinstance(result, Timing) else None,
        "new_at_least_s": result.at_least_s if isinstance(result, Stopped) else None,
        "new_reason": None if failure is None else failure.reason.value,
        "new_message": None if failure is None else failure.message,
        "new_under_load": None if failure is None else failure.under_load,
    }


def _measurement_values(tenant: str, measurement: Measurement, result: dict[str, object]) -> dict[str, object]:
    return {
        "tenant": tenant,
        "exploration_id": measurement.exploration_id,
        "candidate_number": measurement.candidate_number,
        "attempt": measurement.attempt,
        "purpose": measurement.purpose.value,
        "kind": measurement.result.kind,
        "latency_s": result["new_latency_s"],
        "failure_reason": result["new_reason"],
        "device_fingerprint": measurement.device_fingerprint,
        "document": measurement.model_dump_json(),
        "measured_at": utc_now(),
    }
