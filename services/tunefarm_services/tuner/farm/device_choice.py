"""Choice of the device class that measures for a job."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tunefarm_schemas.farm.lane import KINDS_FOR_TARGET, Lane, LaneKind, LaneState
from tunefarm_schemas.farm.processor import processor_for
from tunefarm_schemas.tuning.device import Device
from tunefarm_schemas.tuning.job import Job
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.store.catalog.lane_repository import LaneRepository
from tunefarm_services.store.catalog.target_repository import TargetRepository
from tunefarm_services.store.trials.exploration_repository import ExplorationRepository
from tunefarm_services.tuner.farm.no_device import NoDevice

_COMING_BACK: Final = frozenset({LaneState.STARTING, LaneState.QUARANTINED, LaneState.MAINTENANCE})


@dataclass(frozen=True)
class ChosenDevice:
    """A device class and a code generator, whose measurements are comparable."""

    device_class_id: str
    code_generator: str
    device: Device
    kind: LaneKind


class DeviceChoices(Protocol):
    """What a choice of a device depends on."""

    @property
    def targets(self) -> TargetRepository:
        """The targets."""
        ...

    @property
    def lanes(self) -> LaneRepository:
        """The registered lanes."""
        ...

    @property
    def explorations(self) -> ExplorationRepository:
        """The explorations."""
        ...


def choose_device(store: DeviceChoices, job: Job) -> ChosenDevice | NoDevice:
    """The device class for a job, from the live lanes.

    The job's own choice, if any. Otherwise lanes of the host's kind are preferred to boards behind a gateway, then
    classes where the tenant has already tuned the workload, whose trials are reused, then classes with more room.
    """
    target = store.targets.get(job.spec.tasks[0].target_id, tenant=job.tenant)
    named = job.spec.device_class_id
    offered = [lane for lane in store.lanes.find(named) if lane.kind in KINDS_FOR_TARGET.get(target.kind, ())]
    able = _able(offered, target)
    fitting = [lane for lane in able if _has_cores(lane, target)]
    live = [lane for lane in fitting if lane.state.takes_work]
    if not live:
        return NoDevice(_why_none(target, named, offered))
    pools: dict[tuple[str, str], list[Lane]] = defaultdict(list)
    for lane in live:
        pools[lane.device.device_class.device_class_id, lane.code_generator].append(lane)
    known = _known_classes(store.explorations, job)
    order = KINDS_FOR_TARGET[target.kind]
    (device_class_id, code_generator), best = max(
        pools.items(),
        key=lambda pool: (
            -order.index(pool[1][0].kind),
            known.get(pool[0], 0),
            sum(lane.room - lane.in_flight for lane in pool[1]),
            pool[0],
        ),
    )
    return ChosenDevice(device_class_id, code_generator, best[0].device, best[0].kind)


def _able(lanes: Sequence[Lane], target: Target) -> list[Lane]:
    """Lanes whose processor runs the target's code, or is unknown."""
    needed = processor_for(target)
    return [lane for lane in lanes if lane.processor.runs_code_for(needed)]


def _has_cores(lane: Lane, target: Target) -> bool:
    """Whether the lane has a core for each thread of the kernel, or an unknown number of cores."""
    return lane.kind != "cpu" or not lane.cores or target.num_cores <= len(lane.cores)


def _known_classes(explorations: ExplorationRepository, job: Job) -> dict[tuple[str, str], int]:
    """Trials of the job's first workload, by device class and code generator."""
    task = job.spec.tasks[0]
    spent: dict[tuple[str, str], int] = defaultdict(int)
    for exploration in explorations.of_workload(job.tenant, task.workload_id):
        key = exploration.key
        if key.target_id == task.target_id:
            spent[key.device_class_id, key.code_generator] += exploration.spent.trials
    return spent


def _why_none(target: Target, named: str | None, offered: Sequence[Lane]) -> str:
    """``offered`` are the lanes of the target's kind."""
    which = f"device class {named}" if named is not None else f"kind {target.kind}"
    if needed := processor_for(target).text:
        which = f"{which} for {needed}"
    able = _able(offered, target)
    fitting = [lane for lane in able if _has_cores(lane, target)]
    if any(lane.state in _COMING_BACK for lane in fitting):
        return f"no live device of {which}: those that fit are {_states(fitting)}; the job waits for one"
    if fitting:
        return f"no live device of {which}: all are {_states(fitting)}; the job waits for one"
    if any(lane.state.takes_work for lane in able):
        return f"no live device of {which} has the {target.num_cores} cores that the target asks for"
    if others := {lane.processor.text for lane in offered if lane.state.takes_work}:
        return f"no live device of {which}: those that are live are {', '.join(sorted(others))}; the job waits for one"
    return f"no live device of {which}; the job waits for one"


def _states(lanes: Sequence[Lane]) -> str:
    return ", ".join(sorted({lane.state.value for lane in lanes}))
