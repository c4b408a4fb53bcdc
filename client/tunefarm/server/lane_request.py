"""Requests of an operator to a lane, such as to drain."""

from tunefarm.startup.installation import opened_store
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.lane import Lane, LaneRequest
from tunefarm_schemas.views.device import worker_id_of


def ask_lane(name: str, verb: str) -> tuple[str, str]:
    """Send a request to the lane with this id, name or worker id; returns the lane's id and current state.

    Writes to the farm's database, so it also works while no API runs. Raises BadInput, StoreError.
    """
    with opened_store() as store:
        lane = _the_one(store.lanes.find(), name)
        store.lanes.request(lane.lane_id, LaneRequest(verb))
        return lane.lane_id, lane.state.value


def _the_one(lanes: list[Lane], name: str) -> Lane:
    found = [lane for lane in lanes if name in (lane.lane_id, lane.worker_name, worker_id_of(lane))]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(lane.lane_id for lane in found)
        raise BadInput("LANE", f"{len(found)} lanes are named {name!r}.", f"Give the id of one: {ids}.")
    raise BadInput("LANE", f"there is no lane {name!r}.", "List them: tunefarm devices list")
