"""Measurements: checked against their dispatches, stored once, then acknowledged."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    ARRAY,
    JSON,
    ColumnElement,
    Connection,
    Double,
    Integer,
    Select,
    any_,
    bindparam,
    case,
    cast,
    func,
    select,
    update,
)

from tunefarm_schemas.tuning.measurement import Measurement, Purpose, Timing
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.jobs.fence import require_exploration
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.tables import DispatchTable, ExplorationTable, MeasurementTable, TrialTable
from tunefarm_services.store.trials.measured_trial import is_spent, is_wrong, store_new_measurements

_AT_ONCE: Final = 500
_Attempt: TypeAlias = tuple[int, int, str]

# Separate queries instead of joins: without statistics of a new exploration, PostgreSQL expects a handful of rows and
# chooses nested loops over all of them.
_IS_COUNTED: Final = (
    select(TrialTable.is_counted)
    .where(
        TrialTable.tenant == DispatchTable.tenant,
        TrialTable.exploration_id == DispatchTable.exploration_id,
        TrialTable.candidate_number == DispatchTable.candidate_number,
    )
    .scalar_subquery()
)
_KIND: Final = (
    select(MeasurementTable.kind)
    .where(
        MeasurementTable.tenant == DispatchTable.tenant,
        MeasurementTable.exploration_id == DispatchTable.exploration_id,
        MeasurementTable.candidate_number == DispatchTable.candidate_number,
        MeasurementTable.attempt == DispatchTable.attempt,
        MeasurementTable.purpose == DispatchTable.purpose,
    )
    .scalar_subquery()
)
_DISPATCHES: Final = select(
    DispatchTable.candidate_number,
    DispatchTable.attempt,
    DispatchTable.purpose,
    DispatchTable.dispatch_id,
    DispatchTable.nonce,
    DispatchTable.fence,
    DispatchTable.job_id,
    _IS_COUNTED.label("is_counted"),
    _KIND.is_not(None).label("is_stored"),
).where(
    DispatchTable.tenant == bindparam("tenant"),
    DispatchTable.exploration_id == bindparam("exploration_id"),
)
# One array parameter, so that the statement does not depend on how many numbers there are.
_AMONG: Final[Mapping[str, ColumnElement[bool]]] = MappingProxyType(
    {
        "sqlite": DispatchTable.candidate_number.in_(
            select(func.json_each(bindparam("numbers", type_=JSON())).table_valued("value").c.value)
        ),
        # Without statistics, PostgreSQL uses the index by this range only.
        "postgresql": (DispatchTable.candidate_number == any_(bindparam("numbers", type_=ARRAY(Integer()))))
        & DispatchTable.candidate_number.between(bindparam("first"), bindparam("last")),
    }
)
_DISPATCHES_AMONG: Final[Mapping[str, Select[*tuple[Any, ...]]]] = MappingProxyType(
    {dialect: _DISPATCHES.where(among) for dialect, among in _AMONG.items()}
)
_OF_EXPLORATION: Final = update(ExplorationTable).where(
    ExplorationTable.tenant == bindparam("of_tenant"),
    ExplorationTable.exploration_id == bindparam("of_exploration"),
)
# PostgreSQL needs the type of a parameter that may be NULL.
_FOUND: Final[ColumnElement[float]] = cast(bindparam("latency_s"), Double())
_ADD_RESULTS: Final = _OF_EXPLORATION.values(
    spent_trials=ExplorationTable.spent_trials + bindparam("more_trials"),
    best_latency_s=case(
        (_FOUND.is_(None), ExplorationTable.best_latency_s),
        (ExplorationTable.best_latency_s <= _FOUND, ExplorationTable.best_latency_s),
        else_=_FOUND,
    ),
)
LOWEST_LATENCY: Final = (
    select(func.min(TrialTable.latency_s))
    .where(TrialTable.tenant == bindparam("of_tenant"), TrialTable.exploration_id == bindparam("of_exploration"))
    .scalar_subquery()
)
"""Of the trials of the exploration ``of_exploration``."""
_RECOMPUTE_BEST: Final = _OF_EXPLORATION.values(best_latency_s=LOWEST_LATENCY)


class MeasurementRepository(Repository):
    """Measurements of attempts."""

    @retried
    def commit(self, lease: Lease, measurements: Sequence[Measurement]) -> list[Measurement]:
        """Store measurements in one transaction and return the new ones; only these may reach the search.

        Ignores repeats, and results without the id, nonce and fence of a live dispatch of this lease. A trial is spent
        with its first result that does not call for another attempt. A wrong result in verification removes the
        trial's latency. Raises FenceLost.
        """
        with self._database.writing() as connection:
            fresh: list[Measurement] = []
            for exploration_id in dict.fromkeys(measurement.exploration_id for measurement in measurements):
                require_exploration(connection, lease, exploration_id)
                of_exploration = [each for each in measurements if each.exploration_id == exploration_id]
                for begin in range(0, len(of_exploration), _AT_ONCE):
                    fresh += _commit(connection, lease, exploration_id, of_exploration[begin : begin + _AT_ONCE])
            return fresh


def _commit(
    connection: Connection, lease: Lease, exploration_id: str, measurements: Sequence[Measurement]
) -> list[Measurement]:
    """Store those of one exploration and return the new ones. Locks its row, so that there is no other writer."""
    numbers = sorted({measurement.candidate_number for measurement in measurements})
    asked: dict[str, object] = {"tenant": lease.tenant, "exploration_id": exploration_id, "numbers": numbers}
    asked |= {"first": numbers[0], "last": numbers[-1]}
    found = connection.execute(_DISPATCHES_AMONG[connection.dialect.name], asked)
    dispatches = {(row.candidate_number, row.attempt, row.purpose): row for row in found}
    fresh: dict[_Attempt, Measurement] = {}
    for measurement in measurements:
        dispatch = dispatches.get(_attempt_of(measurement))
        if dispatch is not None and not dispatch.is_stored and _is_live(dispatch, lease, measurement):
            fresh.setdefault(_attempt_of(measurement), measurement)
    second = [key for key, row in dispatches.items() if key[1] > 1 and (row.is_stored or key in fresh)]
    sent_again = {number for number, _, purpose in second if purpose == Purpose.SEARCH.value}
    counting = store_new_measurements(connection, lease.tenant, list(fresh.values()), sent_again)
    counted = {number for (number, _, _), row in dispatches.items() if row.is_counted}
    _update_exploration(connection, lease.tenant, exploration_id, counting, counted)
    return list(fresh.values())


def _update_exploration(
    connection: Connection, tenant: str, exploration_id: str, counting: Sequence[Measurement], counted: set[int]
) -> None:
    of_exploration = {"of_tenant": tenant, "of_exploration": exploration_id}
    of_search = [measurement for measurement in counting if measurement.purpose is Purpose.SEARCH]
    more = len({measurement.candidate_number for measurement in of_search if is_spent(measurement)} - counted)
    latency_s = min((each.result.latency_s for each in of_search if isinstance(each.result, Timing)), default=None)
    if more or latency_s is not None:
        connection.execute(_ADD_RESULTS, of_exploration | {"more_trials": more, "latency_s": latency_s})
    if any(_may_void_latency(measurement) for measurement in counting):
        connection.execute(_RECOMPUTE_BEST, of_exploration)


def _may_void_latency(measurement: Measurement) -> bool:
    """Whether the trial's latency may be void: after a second attempt, or because its result is wrong."""
    return measurement.attempt > 1 if measurement.purpose is Purpose.SEARCH else is_wrong(measurement)


def _attempt_of(measurement: Measurement) -> _Attempt:
    return measurement.candidate_number, measurement.attempt, measurement.purpose.value


def _is_live(dispatch: AnyRow, lease: Lease, measurement: Measurement) -> bool:
    """Whether this lease sent the dispatch, and the measurement answers that very dispatch.

    A lane may be paused with a candidate until the attempt was declared lost and sent again, or until another tuner
    took the job over. Its late result must not count as that of the later attempt.
    """
    sent = (dispatch.dispatch_id, dispatch.nonce, dispatch.fence)
    is_ours = (dispatch.job_id, dispatch.fence) == (lease.job_id, lease.fence)
    return is_ours and sent == (measurement.dispatch_id, measurement.nonce, measurement.fence)
