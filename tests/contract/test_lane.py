"""What every lane keeps towards its farm and its tasks: the processor's lane, and that of a device with a session.

The device is this host's processor driven by the card's code.
"""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from tests.farm.workers import eventually, reason_of
from tests.servers.processes import runs
from tests.workers.measuring import slow_device
from tests.workers.workloads import TARGET, dispatch, matmul, not_a_number, slow, task, tiled
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput, UnverifiableFunction
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import Measurement, Result, Timing
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_workers.conversation.shared_memory import SharedMemory
from tunefarm_workers.correctness.inputs import INPUT_SETS
from tunefarm_workers.cuda.cuda_farm import access_of, facts_for
from tunefarm_workers.cuda.cuda_settings import CudaSettings
from tunefarm_workers.lane.lane_farm import FarmLane
from tunefarm_workers.lane.open_tasks import TaskOwner
from tunefarm_workers.lane.processor_lane import ProcessorLane
from tunefarm_workers.session.compiler.library_build import in_memory
from tunefarm_workers.session.compiler.local_compiler import LocalCompiler
from tunefarm_workers.session.device.session_messages import Toolchain
from tunefarm_workers.session.device_health import DeviceHealth, HealthSettings
from tunefarm_workers.session.session_lane import SessionLane
from tunefarm_workers.worker.preloads import SESSION

SOON_S = 180.0
MODULE, LARGE = matmul(32), matmul(256)
FAST, SLOW = tiled(MODULE), slow(LARGE)
SETTINGS = CudaSettings(device_type="cpu", build_lanes=2)
CANCELED, DEVICE_LOST = FailureReason.CANCELED, FailureReason.DEVICE_LOST
REPLACEMENTS = 3
"""How often a lane replaces the process of a task before it gives up."""
_numbers = count(1)


class LaneAndOwner(FarmLane, TaskOwner):
    """A lane with the part that its tasks call."""


class ServedFarm:
    """A lane with a running loop, and what it delivered."""

    def __init__(self, make: Callable[["ServedFarm"], LaneAndOwner]) -> None:
        self._others = processes()
        self.delivered: list[Measurement] = []
        self.refused: list[BadInput] = []
        self.is_closed = False
        self._opened: list[str] = []
        self.lane = make(self)
        self.lane.loop.start()

    def open(self, name: str, module: object = MODULE) -> None:
        self._opened.append(name)
        self.lane.loop.ask(lambda: self.lane.open_task(task(module, name)))

    def submit(self, name: str, trace: Trace) -> str:
        """Queue an attempt, and return its id."""
        one = dispatch(name, trace, next(_numbers)).model_copy(update={"dispatch_id": uuid4().hex})
        self.lane.loop.ask(lambda: self.lane.submit(one))
        return one.dispatch_id

    def results(self, amount: int) -> dict[str, Measurement]:
        """Wait for the next results, in all ``amount`` since the test began. Fails on duplicates."""

        def has_come() -> bool:
            self.lane.loop.raise_crash()
            return len(self.delivered) >= amount

        eventually(has_come, SOON_S, f"result {amount}")
        by_id = {measurement.dispatch_id: measurement for measurement in self.delivered}
        assert len(self.delivered) == len(by_id) == amount
        return by_id

    def await_child(self, idle: set[int]) -> None:
        """Wait until the lane works in a process that it did not have when it was ``idle``."""
        eventually(lambda: processes() - idle, SOON_S, "a child")

    def await_references(self, *names: str) -> None:
        """Wait until these tasks need no more children for their references."""
        for name in names:
            eventually(lambda name=name: self._knows_reference(name), SOON_S, "the reference")  # type: ignore[misc]

    def _knows_reference(self, name: str) -> bool:
        return self.lane.loop.ask(lambda: self.lane.tasks.with_reference(name, INPUT_SETS)) is not None

    def own_processes(self) -> set[int]:
        return processes() - self._others

    def replace_process(self, name: str) -> bool:
        """Replace the process of a task, as if it was lost."""
        return self.lane.loop.ask(lambda: self.lane.tasks.replace_process(self.lane.tasks[name]))

    def forget(self) -> None:
        """Close the tasks of a test, and forget what came of them."""
        for name in self._opened if not self.is_closed else ():
            self.lane.loop.ask(lambda name=name: self.lane.close_task(name))  # type: ignore[misc]
        for each in (self._opened, self.delivered, self.refused):
            each.clear()

    def close(self) -> None:
        """Close the lane as its farm does."""
        if not self.is_closed:
            self.lane.loop.close()
            self.lane.close()
        self.is_closed = True


def failures_of(found: dict[str, Measurement]) -> dict[str, Result]:
    """The results that are failures. An attempt that is slower than another may be stopped early."""
    return {ident: measurement.result for ident, measurement in found.items() if reason_of(measurement) is not None}


def processes() -> set[int]:
    """All that live below this one."""
    return {process.pid for process in psutil.Process().children(recursive=True) if runs(process)}


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer.start(SESSION) as server:
        assert server.ready(60), server.failure
        yield server


@pytest.fixture(scope="module")
def compiler(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> LocalCompiler:
    scratch: Path = tmp_path_factory.mktemp("scratch")
    return LocalCompiler(fork_server, scratch, SETTINGS.farm_settings(), Toolchain())


@pytest.fixture(scope="module")
def references(compiler: LocalCompiler) -> Iterator[SharedMemory]:
    """The library of the reference kernels."""
    build = compiler.references(TARGET, 2)
    _, library = build.wait_for_references(lambda: True)
    build.close()
    with in_memory(library) as held:
        yield held


@pytest.fixture(scope="module", params=["processor", "session"])
def served(
    request: pytest.FixtureRequest, fork_server: ForkServer, compiler: LocalCompiler, references: SharedMemory
) -> Iterator[ServedFarm]:
    """One for all tests; the last of them closes it."""

    def processor_lane(farm: ServedFarm) -> LaneAndOwner:
        return ProcessorLane(  # type: ignore[return-value]
            fork_server, SETTINGS.farm_settings(), tuple, farm.delivered.append, farm.refused.append, lambda: None
        )

    def session_lane(farm: ServedFarm) -> LaneAndOwner:
        return SessionLane(  # type: ignore[return-value]
            *(fork_server, access_of(SETTINGS, facts_for(SETTINGS)), compiler, SETTINGS.farm_settings(), tuple),
            *(farm.delivered.append, farm.refused.append, lambda: None),
            host_target=TARGET,
            references=references,
            health=DeviceHealth(HealthSettings(), slow_device().reference),
        )

    served = ServedFarm(processor_lane if request.param == "processor" else session_lane)
    yield served
    served.close()


@pytest.fixture
def farm(served: ServedFarm) -> Iterator[ServedFarm]:
    yield served
    served.forget()


def test_attempts_of_several_tasks_are_delivered_once(farm: ServedFarm) -> None:
    for name in ("one", "other"):
        farm.open(name)
    sent = {farm.submit(name, FAST): name for _ in range(2) for name in ("one", "other")}
    found = farm.results(len(sent))
    assert {ident: measurement.exploration_id for ident, measurement in found.items()} == sent
    assert {ident: reason_of(measurement) for ident, measurement in found.items()} == dict.fromkeys(sent)
    assert farm.lane.trouble() == ""
    assert farm.lane.suspects() == []


def test_task_is_open_until_it_is_closed(farm: ServedFarm) -> None:
    farm.open("task")
    opened = farm.lane.tasks["task"]
    farm.open("task")
    assert farm.lane.tasks["task"] is opened
    for name in ("task", "task", "never opened"):
        farm.lane.loop.ask(lambda name=name: farm.lane.close_task(name))  # type: ignore[misc]
    eventually(lambda: not farm.own_processes(), SOON_S, "the end of the task's processes")
    with pytest.raises(KeyError):
        farm.lane.tasks["task"]
    farm.open("task")
    ident = farm.submit("task", FAST)
    assert isinstance(farm.results(1)[ident].result, Timing)


def test_module_that_cannot_be_read_is_refused(farm: ServedFarm) -> None:
    order = task(MODULE, "unreadable").model_copy(update={"module_json": "no module"})
    with pytest.raises(BadInput):
        farm.lane.loop.ask(lambda: farm.lane.open_task(order))
    with pytest.raises(KeyError):
        farm.lane.tasks["unreadable"]
    farm.open("unreadable")


def test_canceled_attempts_end_and_others_are_measured(farm: ServedFarm) -> None:
    farm.open("large", LARGE)
    farm.open("small")
    farm.await_references("large", "small")
    idle = processes()
    unwanted = [farm.submit("large", SLOW) for _ in range(6)]
    wanted = farm.submit("small", FAST)
    farm.await_child(idle)
    farm.lane.loop.ask(lambda: farm.lane.cancel([*unwanted, "never submitted"]))
    assert len(farm.delivered) >= len(unwanted), "they end at once, whether they had begun or not"
    found = farm.results(len(unwanted) + 1)
    assert CANCELED in {reason_of(found[ident]) for ident in unwanted}
    assert isinstance(found[wanted].result, Timing)


def test_cancel_all_ends_queued_and_started_attempts(farm: ServedFarm) -> None:
    farm.open("large", LARGE)
    farm.await_references("large")
    idle = processes()
    sent = {farm.submit("large", SLOW) for _ in range(6)}
    farm.await_child(idle)
    for _ in range(2):
        farm.lane.loop.ask(farm.lane.cancel_all)
    found = farm.results(len(sent))
    assert found.keys() == sent
    assert CANCELED in {reason_of(measurement) for measurement in found.values()}
    farm.open("small")
    after = farm.submit("small", FAST)
    assert isinstance(farm.results(len(sent) + 1)[after].result, Timing)


def test_attempts_survive_loss_of_task_process(farm: ServedFarm) -> None:
    farm.open("task")
    farm.await_references("task")
    idle = processes()
    sent = {farm.submit("task", FAST) for _ in range(3)}
    farm.await_child(idle)
    assert farm.replace_process("task")
    found = farm.results(len(sent))
    assert found.keys() == sent
    assert failures_of(found) == {}


def test_task_whose_process_is_lost_too_often_fails_alone(farm: ServedFarm) -> None:
    farm.open("small")
    farm.open("large", LARGE)
    for _ in range(REPLACEMENTS):
        assert farm.replace_process("large")
    farm.await_references("large", "small")
    idle = processes()
    lost = farm.submit("large", SLOW)
    farm.await_child(idle)
    kept = farm.submit("small", FAST)
    assert not farm.replace_process("large")
    found = farm.results(2)
    assert reason_of(found[lost]) is DEVICE_LOST
    assert isinstance(found[kept].result, Timing)


@pytest.mark.parametrize(
    "served", [pytest.param("processor", marks=pytest.mark.extended), "session"], indirect=True, scope="module"
)  # test_farm.py refuses one in the processor's lane, behind a broker
def test_function_that_cannot_be_verified_is_refused_alone(farm: ServedFarm) -> None:
    farm.open("odd", not_a_number())
    farm.open("small")
    odd = farm.submit("odd", Trace(text="[[],[]]"))
    kept = farm.submit("small", FAST)
    eventually(lambda: farm.refused, SOON_S, "the refusal")
    (refusal,) = farm.refused
    assert isinstance(refusal, UnverifiableFunction)
    assert refusal.exploration_id == "odd"
    late = farm.submit("odd", Trace(text="[[],[]]"))
    found = farm.results(3)
    assert {reason_of(found[ident]) for ident in (odd, late)} == {CANCELED}
    assert isinstance(found[kept].result, Timing)


def test_closed_lane_has_no_children(farm: ServedFarm) -> None:
    farm.open("large", LARGE)
    farm.await_references("large")
    idle = processes()
    for _ in range(3):
        farm.submit("large", SLOW)
    farm.await_child(idle)
    farm.close()
    farm.lane.close()
    eventually(lambda: not farm.own_processes(), SOON_S, "the end of the children")
