"""Helpers that measure traces."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from typing import Any

import tvm

from tests.slow_device import slow_device as slow_device
from tests.workers.hostile import PREFIX
from tests.workers.workloads import TARGET, dispatch, task
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import Failed, Measurement, Purpose
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_workers.lane.local_farm import LocalFarm

COLLECT_S = 180.0


class RunningFarm:
    """A farm that opens explorations on demand."""

    def __init__(self, farm: LocalFarm, callees: tuple[str, ...] = ()) -> None:
        """``callees`` are functions that modules may call by name."""
        self.farm = farm
        self._callees = callees
        self._numbers = count()
        self._opened = count()

    def open(
        self, module: tvm.IRModule, abi: str = "stable", target: str = TARGET, callees: tuple[str, ...] = ()
    ) -> str:
        exploration_id = f"exploration-{next(self._opened)}"
        self.farm.open_task(task(module, exploration_id, abi=abi, target=target, callees=callees or self._callees))
        return exploration_id

    def submit(self, exploration_id: str, trace: Trace, purpose: Purpose = Purpose.SEARCH) -> int:
        number = next(self._numbers)
        self.farm.submit(dispatch(exploration_id, trace, number, purpose))
        return number

    def collect(self, amount: int) -> dict[int, Measurement]:
        collected: dict[int, Measurement] = {}
        while len(collected) < amount:
            arrived = self.farm.collect(COLLECT_S)
            assert arrived, "nothing came"
            collected.update({measurement.candidate_number: measurement for measurement in arrived})
        return collected

    def measure(self, exploration_id: str, trace: Trace, purpose: Purpose = Purpose.SEARCH) -> Measurement:
        number = self.submit(exploration_id, trace, purpose)
        return self.collect(1)[number]


@contextmanager
def running_farms(make: Callable[..., Any], callees: tuple[str, ...] = ()) -> Iterator[Callable[..., RunningFarm]]:
    """Farms made with some settings changed, closed afterwards."""
    with ExitStack() as farms:
        yield lambda **changed: RunningFarm(farms.enter_context(closing(make(**changed))), callees)


def misdeed(name: str) -> Trace:
    return Trace(text=PREFIX + name)


def reason_of(measurement: Measurement) -> FailureReason:
    assert isinstance(measurement.result, Failed), measurement
    return measurement.result.failure.reason


def message_of(measurement: Measurement) -> str:
    assert isinstance(measurement.result, Failed), measurement
    return measurement.result.failure.message
