"""Whether any lane of the service can run a job."""

from collections.abc import Sequence

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.lane import KINDS_FOR_TARGET, LOCAL_WORKER, Lane, unmeasured_kind
from tunefarm_schemas.farm.processor import processor_for
from tunefarm_schemas.tuning.target import Target

WAIT_FIX = "or set deadline_s to wait for one that long."


def require_lane(
    lanes: Sequence[Lane], target: Target, device_class_id: str | None, *, deadline_s: float | None
) -> None:
    """Raise BadInput for a job that would wait without end.

    A deadline ends the wait for a lane that may still come; none of this version comes for an unmeasured kind.
    """
    reason = unmeasured_kind(target.kind)
    if reason is None and deadline_s is None:
        reason = unfit(lanes, target, device_class_id)
    if reason is not None:
        raise reason


def unfit(lanes: Sequence[Lane], target: Target, device_class_id: str | None) -> BadInput | None:
    """Why no lane can run a job in any state; None if one can.

    The target is of a kind that workers measure. A service without any lane is still starting, so only a named device
    class is checked.
    """
    of_class = [lane for lane in lanes if device_class_id in (None, lane.device.device_class.device_class_id)]
    if device_class_id is not None and not of_class:
        fix = f"Take the id of a device class from GET /v1/devices, {WAIT_FIX}"
        return BadInput("device_class_id", "no worker of this service has a device of this class.", fix)
    if not lanes:
        return None
    of_kind = [lane for lane in of_class if lane.kind in KINDS_FOR_TARGET[target.kind]]
    if not of_kind:
        kinds = ", ".join(sorted({lane.kind for lane in lanes}))
        fix = f"Start a worker that does (its kind: {' or '.join(KINDS_FOR_TARGET[target.kind])}), {WAIT_FIX}"
        return BadInput("target", f"no worker of this service measures {target.kind}; there are: {kinds}.", fix)
    needed = processor_for(target)
    able = [lane for lane in of_kind if lane.processor.runs_code_for(needed)]
    if not able:
        known = ", ".join(sorted({lane.processor.text for lane in of_kind}))
        fix = f"Start a worker on such a machine, {WAIT_FIX}"
        return BadInput("target", f"no worker of this service runs code for {needed.text}; there are: {known}.", fix)
    most = most_cores(able)
    if most is not None and target.num_cores > most and not any(lane.worker_name == LOCAL_WORKER for lane in able):
        fix = f"Ask for {most} or fewer as num-cores, {WAIT_FIX}"
        problem = f"no device of this service has the {target.num_cores} cores that it asks for; the most are {most}."
        return BadInput("target", problem, fix)
    return None


def most_cores(lanes: Sequence[Lane]) -> int | None:
    """The cores of the largest processor; None if a lane does not report its cores, or there is none."""
    if not lanes or not all(lane.kind == "cpu" and lane.cores for lane in lanes):
        return None
    return max(len(lane.cores) for lane in lanes)
