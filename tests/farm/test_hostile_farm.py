"""Hostile messages and candidates for a real worker of root or an ordinary user, and hostile replies to the tuner."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.farm.conftest import LONG_TIMES
from tests.farm.workers import (
    PATIENT_S,
    START,
    Worker,
    await_ready,
    dispatch_of,
    gather,
    lane_of,
    registrar,
    simulated_task,
)
from tests.foreign import corpus
from tests.server_of_user import BECOME_ORDINARY, EACH_USER, ORDINARY, ORDINARY_ID, give_to
from tests.servers.redis_server import RedisServer
from tests.workers import workloads
from tests.workers.adversary.test_reaching_processes import reaching
from tests.workers.measuring import message_of, misdeed, reason_of
from tunefarm_sandbox.channel.measurement_outbox import MeasurementOutbox
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.farm.farm_message import Compared, ExportEnded, Measured, reply
from tunefarm_schemas.farm.order_link import parsed_reply
from tunefarm_schemas.farm.redelivery import RedeliveryPolicy
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import (
    Comparison,
    ComparisonOrder,
    ExportOrder,
    Failed,
    Measurement,
    Purpose,
    Timing,
)
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.store import Store
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.tuner.farm.celery_farm import CeleryFarm
from tunefarm_services.tuner.farm.celery_farm_pool import LanePool
from tunefarm_services.tuner.farm.farm_replies import FarmReplies

LANE = "tests.farm.hostile_lane:build"
WITHIN_S = 180.0


class HostileFarm:
    """The tuner's side of one lane."""

    def __init__(self, farm: CeleryFarm, worker: Worker) -> None:
        self.farm = farm
        self.worker = worker
        self._numbers = iter(range(1 << 30))

    def open(self, module_json: str, target: str = workloads.TARGET) -> str:
        exploration_id = f"exploration-{next(self._numbers)}"
        task = workloads.task(workloads.matmul(64), exploration_id, target=target)
        self.farm.open_task(task.model_copy(update={"module_json": module_json}))
        return exploration_id

    def measure(self, opened: str, traces: Sequence[Trace], purpose: Purpose = Purpose.VERIFY) -> list[Measurement]:
        """The measurements, in the order of the traces."""
        sent = [workloads.dispatch(opened, trace, next(self._numbers), purpose) for trace in traces]
        for dispatch in sent:
            self.farm.submit(dispatch)
        found = gather(self.farm, len(sent), WITHIN_S)
        return [found[dispatch.dispatch_id] for dispatch in sent]

    def export(self, opened: str, trace: Trace) -> Failed:
        failed = self.farm.export(workloads.export_order(opened, trace), lambda: True)
        assert isinstance(failed, Failed), failed
        return failed


@dataclass(frozen=True)
class HostileLane:
    """A real worker that runs as the test's user, with its broker, store and blobs."""

    worker: Worker
    broker_url: str
    store: Store
    blobs: Path


@pytest.fixture(scope="module", params=EACH_USER)
def lane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileLane]:
    home = tmp_path_factory.mktemp("home")
    program = BECOME_ORDINARY + START if request.param == ORDINARY else START
    store = Store.open(f"sqlite:///{home}/tunefarm.db", home / "blobs")
    with RedisServer() as broker:
        socket = Path(broker.url.removeprefix("unix://"))
        give_to(request.param, home, home / "blobs", socket.parent, socket)
        with (
            Worker(broker.url, home, "lane", farm=LANE, program=program) as worker,
            registrar(store, broker.url, lost_s=PATIENT_S),
        ):
            await_ready(store, worker)
            yield HostileLane(worker, broker.url, store, home / "blobs")
    store.close()


@pytest.fixture
def hostile(lane: HostileLane) -> Iterator[HostileFarm]:
    ready = lane_of(lane.store, "lane")
    assert ready is not None
    pool = LanePool.registered(lane.store.lanes, ready.device, ready.code_generator)
    farm = CeleryFarm(lane.broker_url, pool, BlobStore(lane.blobs), policy=LONG_TIMES)
    try:
        yield HostileFarm(farm, lane.worker)
    finally:
        farm.close()


def module_json() -> str:
    return workloads.task(workloads.matmul(64), "any").module_json


def test_worker_runs_as_expected_user(hostile: HostileFarm, request: pytest.FixtureRequest) -> None:
    worker = psutil.Process(hostile.worker.process.pid)
    users = {process.uids().effective for process in (worker, *worker.children(recursive=True))}
    if ORDINARY in request.node.name:
        assert users == {ORDINARY_ID}
    else:
        assert worker.uids().effective == 0


def test_schedule_with_disallowed_calls_is_not_built(hostile: HostileFarm) -> None:
    opened = hostile.open(corpus.module_json())
    payloads = [Trace(text=json.dumps(item.value)) for item in corpus.traces() if item.name.startswith("pad value")]
    for measurement in hostile.measure(opened, payloads, Purpose.SEARCH):
        assert reason_of(measurement) is FailureReason.INVALID_SCHEDULE
        assert "not allowed" in message_of(measurement)
    compared = hostile.farm.compare(ComparisonOrder(exploration_id=opened, traces=tuple(payloads[:3])), lambda: True)
    assert len(compared.results) == 3
    for result in compared.results:
        assert isinstance(result, Failed)
        assert "not allowed" in result.failure.message
    assert "not allowed" in hostile.export(opened, payloads[0]).failure.message
    assert not Path(corpus.MARKER).exists()


def test_target_with_compiler_options_is_rejected(hostile: HostileFarm) -> None:
    target = next(item for item in corpus.targets() if "jit" in item.name).value
    opened = hostile.open(corpus.module_json(), json.dumps(target))
    with pytest.raises(BadInput, match="attribute jit"):
        hostile.measure(opened, [Trace(text="[[],[]]")])


def test_worker_user_processes_cannot_change_verdicts(hostile: HostileFarm) -> None:
    module = workloads.matmul(128)
    tiled = workloads.tiled(module)
    opened = hostile.open(workloads.task(module, "any").module_json)
    with reaching(hostile.worker.process.pid):
        first, constant, second = hostile.measure(opened, [tiled, misdeed("give a constant"), tiled])
    assert reason_of(constant) is FailureReason.WRONG_RESULT
    for right in (first, second):
        assert isinstance(right.result, Timing), right.result


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("attack", ["open the memory behind descriptors", "open the memory", "choose cores", "signal"])
def test_candidate_cannot_reach_worker_processes(hostile: HostileFarm, attack: str) -> None:
    opened = hostile.open(module_json())
    hostile.measure(opened, [workloads.tiled(workloads.matmul(64))])
    worker = psutil.Process(hostile.worker.process.pid)
    attacks = [misdeed(f"try {attack}: {each.pid}") for each in (worker, *worker.children(recursive=True))]
    assert len(attacks) > 3
    for measurement in hostile.measure(opened, attacks, Purpose.SEARCH):
        assert message_of(measurement) == "RuntimeError: PermissionError"


@pytest.mark.parametrize(
    ("deed", "words"),
    [("link a constructor", "runs when it is loaded"), ("link a counter", "bytes of state between calls")],
)
def test_library_with_foreign_code_is_refused_before_loading(hostile: HostileFarm, deed: str, words: str) -> None:
    failed = hostile.export(hostile.open(module_json()), misdeed(deed))
    assert failed.failure.reason is FailureReason.BUILD_ERROR
    assert words in failed.failure.message


def test_impossible_latency_is_failure(hostile: HostileFarm) -> None:
    opened = hostile.open(module_json())
    forged = hostile.measure(opened, [misdeed("tell three nanoseconds")])[0]
    assert isinstance(forged.result, Failed), forged.result
    assert isinstance(hostile.measure(opened, [workloads.tiled(workloads.matmul(64))])[0].result, Timing)


class ForgedReplies:
    """The tuner's side of a broker, with what a lane or a forger writes there."""

    def __init__(self, folder: Path) -> None:
        self.blobs = BlobStore(folder)
        self.outbox = MeasurementOutbox()
        self.state = FarmReplies(self.blobs, self.outbox, RedeliveryPolicy(), "job", lambda: 1)
        self.state.open_task(simulated_task())

    def receive(self, answer: Frozen, **forged: object) -> None:
        """Receive a reply, as JSON in which the fields ``forged`` are replaced."""
        text = json.dumps(json.loads(answer.model_dump_json()) | forged)
        self.state.receive(b"1-0", parsed_reply({b"m": text.encode()}, reply))

    def sent(self) -> list[str]:
        """The ids of the orders that are sent now."""
        return [entry.ident for entry, _, _ in self.state.next_orders(8)]

    def exported(self, ident: str) -> ExportEnded:
        return ExportEnded(
            lane_id="lane",
            order_id=ident,
            library_digest=self.blobs.put(b"library"),
            entry="main",
            process_latencies_s=(1e-3,),
        )


@pytest.fixture
def forged(tmp_path: Path) -> Iterator[ForgedReplies]:
    replies = ForgedReplies(tmp_path)
    yield replies
    replies.outbox.close()


@pytest.mark.parametrize(
    "fields",
    [
        {"process_latencies_s": [0.0]},
        {"process_latencies_s": [float("nan")]},
        {"process_latencies_s": []},
        {"untuned_latencies_s": [-1.0]},
        {"foreign_load": 2.0},
    ],
    ids=str,
)
def test_export_with_impossible_figures_is_discarded(forged: ForgedReplies, fields: dict[str, object]) -> None:
    ident, answer = forged.state.ask(ExportOrder(exploration_id="exploration", trace=None))
    assert forged.sent() == [ident]
    forged.receive(forged.exported(ident), **fields)
    assert not answer.done()
    assert len(forged.state.done_entries) == 1, "it is deleted from the broker"
    forged.receive(forged.exported(ident))
    assert answer.result(0.0).process_latencies_s == (1e-3,)


def compared(ident: str, results: int) -> Compared:
    timing = Timing(latency_s=1e-3, samples_s=(1e-3,))
    return Compared(lane_id="lane", order_id=ident, comparison=Comparison(results=(timing,) * results))


@pytest.mark.parametrize("wrong", [0, 1, 3])
def test_comparison_with_a_wrong_number_of_results_is_sent_again_and_lost_in_the_end(
    forged: ForgedReplies, wrong: int
) -> None:
    order = ComparisonOrder(exploration_id="exploration", traces=(None, None))
    (first, right), (second, lost) = forged.state.ask(order), forged.state.ask(order)
    assert forged.sent() == [first, second]
    for ident in (first, second):
        forged.receive(compared(ident, wrong))
    assert not right.done()
    assert sorted(forged.sent()) == sorted([first, second])
    forged.receive(compared(first, 2))
    assert len(right.result(0.0).results) == 2
    for _ in range(RedeliveryPolicy().max_resends - 1):
        forged.receive(compared(second, wrong))
        assert forged.sent() == [second]
    forged.receive(compared(second, wrong))
    failed = lost.result(0.0)
    assert isinstance(failed, Failed)
    assert failed.failure.reason is FailureReason.DEVICE_LOST
    assert f"{wrong} results for 2 schedules" in failed.failure.message


def test_answers_of_another_kind_end_no_order(forged: ForgedReplies) -> None:
    dispatch = dispatch_of()
    forged.state.submit(dispatch)
    exporting, exported = forged.state.ask(ExportOrder(exploration_id="exploration", trace=None))
    comparing, comparison = forged.state.ask(ComparisonOrder(exploration_id="exploration", traces=(None,)))
    assert len(forged.sent()) == 3
    for ident in (dispatch.dispatch_id, exporting):
        forged.receive(compared(ident, 1))
    for ident in (dispatch.dispatch_id, comparing):
        forged.receive(forged.exported(ident))
    assert not exported.done()
    assert not comparison.done()
    right = Measurement.answering(dispatch, Timing(latency_s=1e-3, samples_s=(1e-3,)))
    forged.receive(Measured(lane_id="lane", measurement=right))
    assert forged.outbox.take(0.0, lambda: None) == [right]
    forged.receive(forged.exported(exporting))
    forged.receive(compared(comparing, 1))
    assert exported.result(0.0).library == b"library"
    assert len(comparison.result(0.0).results) == 1
