"""Lanes, and the requests to them."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, select, update

from tunefarm_schemas.farm.lane import OPERATOR_TENANT, Lane, LaneRequest, LaneState
from tunefarm_services.store.catalog.lane_history_repository import note_checks, note_request, note_states
from tunefarm_services.store.database.insert_once import insert_into
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.tables import LaneTable

_ALL: Final = select(LaneTable.document).where(LaneTable.tenant == OPERATOR_TENANT).order_by(LaneTable.lane_id)
_OF_CLASS: Final = _ALL.where(LaneTable.device_class_id == bindparam("device_class_id"))
_BY_ID: Final = _ALL.where(LaneTable.lane_id == bindparam("lane_id"))
_REQUESTED: Final = select(LaneTable.lane_id, LaneTable.request).where(
    LaneTable.tenant == OPERATOR_TENANT, LaneTable.request != LaneRequest.NONE.value
)
# Lanes that signed off are not lost.
_EXPECTED: Final = LaneTable.state.not_in([LaneState.LOST.value, LaneState.DRAINED.value, LaneState.REFUSED.value])
_SILENT: Final = (
    select(LaneTable.lane_id, LaneTable.document)
    .where(LaneTable.tenant == OPERATOR_TENANT, LaneTable.heard_s < bindparam("before_s"), _EXPECTED)
    .order_by(LaneTable.lane_id)
    .with_for_update()
)
_CHANGE: Final = update(LaneTable).where(LaneTable.tenant == OPERATOR_TENANT, LaneTable.lane_id == bindparam("of_lane"))


class LaneRepository(Repository):
    """The current lanes of the farm. Lanes belong to its operator, not to a tenant."""

    def put(self, lane: Lane) -> None:
        """Store the latest state of a lane; a pending request stays."""
        self.put_all([lane])

    @retried
    def put_all(self, lanes: Sequence[Lane]) -> None:
        """Store several lanes in one transaction. The last of several states of a lane wins."""
        latest = {lane.lane_id: lane for lane in lanes}
        if not latest:
            return
        with self._database.writing() as connection:
            heard_s = self._database.now_s(connection)
            # Sorted, so that two writers cannot deadlock.
            rows = [_values(latest[lane_id], heard_s) for lane_id in sorted(latest)]
            note_states(connection, list(latest.values()), heard_s)
            note_checks(connection, list(latest.values()), heard_s)
            statement = insert_into(connection, LaneTable)
            heard = {name: statement.excluded[name] for name in ("device_class_id", "state", "heard_s", "document")}
            connection.execute(statement.on_conflict_do_update(index_elements=["tenant", "lane_id"], set_=heard), rows)

    def find(self, device_class_id: str | None = None) -> list[Lane]:
        """All lanes by id, or those of one device class."""
        query, values = (_ALL, {}) if device_class_id is None else (_OF_CLASS, {"device_class_id": device_class_id})
        with self._database.reading() as connection:
            documents = connection.execute(query, values).scalars().all()
            return [Lane.model_validate_json(document) for document in documents]

    def get(self, lane_id: str) -> Lane:
        """One lane. Raises NotFound."""
        with self._database.reading() as connection:
            document = connection.execute(_BY_ID, {"lane_id": lane_id}).scalar()
            if document is None:
                raise NotFound("lane", lane_id)
            return Lane.model_validate_json(document)

    @retried
    def request(self, lane_id: str, request: LaneRequest, *, token_id: str | None = None) -> None:
        """Request something of a lane, or withdraw the request with ``NONE``. Raises NotFound.

        ``token_id`` of who requests it is kept in the lane's history.
        """
        with self._database.writing() as connection:
            if connection.execute(_CHANGE.values(request=request.value), {"of_lane": lane_id}).rowcount == 0:
                raise NotFound("lane", lane_id)
            lane = Lane.model_validate_json(connection.execute(_BY_ID, {"lane_id": lane_id}).scalar_one())
            note_request(connection, lane, request, token_id, self._database.now_s(connection))

    def requests(self) -> dict[str, LaneRequest]:
        """The pending requests by lane id."""
        with self._database.reading() as connection:
            return {row.lane_id: LaneRequest(row.request) for row in connection.execute(_REQUESTED)}

    @retried
    def mark_lost(self, silent_s: float) -> list[Lane]:
        """Mark as lost each lane that has sent nothing for ``silent_s`` seconds; return the newly lost ones."""
        with self._database.writing() as connection:
            now_s = self._database.now_s(connection)
            before_s = now_s - silent_s
            rows = connection.execute(_SILENT, {"before_s": before_s}).all()
            reason = f"no heartbeat for {silent_s:g} s"
            lost = [
                Lane.model_validate_json(row.document).model_copy(update={"state": LaneState.LOST, "reason": reason})
                for row in rows
            ]
            note_states(connection, lost, now_s)
            for lane in lost:
                _mark(connection, lane)
            return lost


def _mark(connection: Connection, lane: Lane) -> None:
    values = {"state": lane.state.value, "document": lane.model_dump_json()}
    connection.execute(_CHANGE.values(values), {"of_lane": lane.lane_id})


def _values(lane: Lane, heard_s: float) -> dict[str, object]:
    return {
        "tenant": OPERATOR_TENANT,
        "lane_id": lane.lane_id,
        "device_class_id": lane.device.device_class.device_class_id,
        "state": lane.state.value,
        "request": LaneRequest.NONE.value,
        "heard_s": heard_s,
        "document": lane.model_dump_json(),
    }
