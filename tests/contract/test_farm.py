"""What every farm keeps: one over this host's processor, over a card, over a board, and one behind a broker.

The card is this host's processor driven by the card's code; the board is an RPC server on loopback.
"""

import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from tests.acceptance.hostile.measuring_farm import SETTINGS
from tests.compiling.place import place_at
from tests.farm.workers import PATIENT_S, await_ready, gather, reason_of
from tests.gateway.board import Board, gateway_settings_of
from tests.workers.measuring import slow_device
from tests.workers.workloads import (
    dispatch,
    export_order,
    matmul,
    not_a_number,
    rounded_too_early,
    slow,
    square_root,
    task,
    tiled,
    untouched,
)
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import (
    ComparisonOrder,
    Dispatch,
    Exported,
    Failed,
    Measurement,
    Purpose,
    Stopped,
    Timing,
)
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_workers.cuda.cuda_farm import CudaFarm
from tunefarm_workers.cuda.cuda_settings import CudaSettings
from tunefarm_workers.gateway.gateway_farm import GatewayFarm
from tunefarm_workers.lane.local_farm import LocalFarm
from tunefarm_workers.worker.device_farm import DeviceFarm
from tunefarm_workers.worker.preloads import SESSION

EXTENT = 32
LARGE_EXTENT = 256
"""As many candidates of this size as a farm accepts take longer than their cancellation."""
UNTUNED = Trace(text="[[],[]]")
INVALID_SCHEDULE, WRONG_RESULT = FailureReason.INVALID_SCHEDULE, FailureReason.WRONG_RESULT
HOSTED: Final = ("local", "card", "board")
_numbers = count(1)


def farms(*quick: str, of: Sequence[str] = (*HOSTED, "celery")) -> pytest.MarkDecorator:
    """Parameters of ``open_farm``, with those that ``make test`` leaves out marked.

    The card's code also runs in tests/cuda, and its sessions are those of the board. Behind the broker is a local farm.
    """
    marks = {farm: pytest.mark.faults if farm == "card" else pytest.mark.extended for farm in of if farm not in quick}
    params = [pytest.param(farm, marks=marks.get(farm, ())) for farm in of]
    return pytest.mark.parametrize("open_farm", params, indirect=True, scope="module")


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer.start(SESSION) as server:
        assert server.ready(60), server.failure
        yield server


@pytest.fixture(scope="module")
def open_farm(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Farm]]:
    """Open farms for one job after another, over the same device."""
    home: Path = tmp_path_factory.mktemp("home")
    with ExitStack() as parts:
        if request.param == "celery":
            place = parts.enter_context(place_at(home))
            await_ready(place.store, place.start("lane"))
            yield lambda: place.open_farm("lane")
            return
        fork_server = request.getfixturevalue("fork_server")
        if request.param == "local":
            yield lambda: LocalFarm(fork_server, scratch=home / uuid4().hex, known=slow_device(), settings=SETTINGS)
        elif request.param == "card":
            yield lambda: CudaFarm(
                fork_server, CudaSettings(device_type="cpu", build_lanes=2), scratch=home / uuid4().hex
            )
        else:
            board = parts.enter_context(Board.running(home))
            yield lambda: GatewayFarm(fork_server, gateway_settings_of(board), scratch=home / uuid4().hex)


@pytest.fixture(scope="module")
def farm(open_farm: Callable[[], Farm]) -> Iterator[Farm]:
    """One for all tests; the last of them closes it."""
    with closing(open_farm()) as opened:
        yield opened


def attempt(exploration_id: str, trace: Trace, purpose: Purpose = Purpose.SEARCH) -> Dispatch:
    fresh = {"dispatch_id": uuid4().hex, "nonce": uuid4().hex, "fence": 3}
    return dispatch(exploration_id, trace, next(_numbers), purpose).model_copy(update=fresh)


def measured(farm: Farm, exploration_id: str, trace: Trace, purpose: Purpose = Purpose.SEARCH) -> Measurement:
    farm.submit(one := attempt(exploration_id, trace, purpose))
    return gather(farm, 1)[one.dispatch_id]


def failure_of(result: object) -> FailureReason:
    assert isinstance(result, Failed), result
    return result.failure.reason


@farms("local", "board", "celery")
def test_farm_returns_each_attempt_once(farm: Farm):
    module = matmul(EXTENT)
    farm.open_task(task(module, "fine"))
    sent = [attempt("fine", trace) for trace in (*(tiled(module, rows) for rows in (2, 8)), slow(module))]
    for one in sent:
        farm.submit(one)
    farm.set_incumbent("fine", 1.0)
    assert select.select([farm.wakeup_fileno()], [], [], PATIENT_S)[0]
    found = gather(farm, len(sent))
    assert found.keys() == {one.dispatch_id for one in sent}
    for one in sent:
        measurement = found[one.dispatch_id]
        assert (measurement.nonce, measurement.fence) == (one.nonce, one.fence)
        assert (measurement.exploration_id, measurement.candidate_number) == ("fine", one.candidate.number)
        assert measurement.device_fingerprint == farm.device.fingerprint
        assert reason_of(measurement) is None
        assert measurement.stages.build_s > 0
    assert farm.collect(0.0) == []
    assert farm.suspects() == []
    assert farm.room() >= 1
    farm.close_task("fine")
    farm.close_task("never opened")


@farms("local", "board")
def test_farm_reports_failure_and_measures_next_candidate(farm: Farm):
    module = matmul(EXTENT)
    farm.open_task(task(module, "failing"))
    assert failure_of(measured(farm, "failing", Trace(text='[["nonsense"],[]]')).result) is INVALID_SCHEDULE
    wrong = measured(farm, "failing", rounded_too_early(module), Purpose.VERIFY)
    assert failure_of(wrong.result) is WRONG_RESULT
    assert wrong.worst_error is None or wrong.worst_error > 1.0
    assert isinstance(measured(farm, "failing", tiled(module), Purpose.VERIFY).result, Timing)


@farms("local", "board")
def test_farm_stops_losers_except_for_verification(farm: Farm):
    module = matmul(EXTENT)
    farm.open_task(task(module, "slower"))
    farm.set_incumbent("slower", 1e-7)
    stopped = measured(farm, "slower", untouched(module)).result
    assert isinstance(stopped, Stopped)
    assert stopped.at_least_s > 1e-7
    verified = measured(farm, "slower", untouched(module), Purpose.VERIFY)
    assert isinstance(verified.result, Timing)
    assert len(verified.result.samples_s) >= 3
    assert verified.inputs_checked == 3
    assert verified.worst_error is not None
    assert verified.worst_error <= 1.0


@farms("local", "celery")
def test_cancel_returns_attempts_early(farm: Farm):
    module = matmul(LARGE_EXTENT)
    farm.open_task(task(module, "canceled"))
    room = farm.room()
    for _ in range(room):
        farm.submit(attempt("canceled", slow(module)))
    time.sleep(0.3)
    farm.cancel_all()
    found = gather(farm, room)
    assert FailureReason.CANCELED in {reason_of(measurement) for measurement in found.values()}
    assert isinstance(measured(farm, "canceled", tiled(module)).result, Timing)


@farms("local", of=HOSTED)
def test_device_farm_cancels_only_named_attempts(farm: DeviceFarm):
    module = matmul(LARGE_EXTENT)
    for _ in range(2):
        farm.open_task(task(module, "partly canceled"))
    unwanted = [attempt("partly canceled", slow(module)) for _ in range(farm.room())]
    farm.submit(wanted := attempt("partly canceled", tiled(module)))
    for one in unwanted:
        farm.submit(one)
    farm.cancel([*(one.dispatch_id for one in unwanted), "never submitted"])
    found = gather(farm, 1 + len(unwanted))
    assert isinstance(found[wanted.dispatch_id].result, Timing)
    assert FailureReason.CANCELED in {reason_of(found[one.dispatch_id]) for one in unwanted}
    assert farm.trouble() == ""
    assert farm.processor.architecture


@farms("local", "board")
def test_farm_compares_and_exports_schedules(farm: Farm):
    module = matmul(EXTENT)
    farm.open_task(task(module, "finish"))
    nonsense, wrong = Trace(text="nonsense"), rounded_too_early(module)
    order = ComparisonOrder(exploration_id="finish", traces=(tiled(module), nonsense, wrong, None), seconds_each=0.05)
    first, second, third, last = farm.compare(order, lambda: True).results
    assert [type(result) for result in (first, last)] == [Timing, Timing]
    assert (failure_of(second), failure_of(third)) == (INVALID_SCHEDULE, WRONG_RESULT)
    exported = farm.export(export_order("finish", tiled(module), processes=2), lambda: True)
    assert isinstance(exported, Exported), exported
    assert exported.library.startswith(b"\x7fELF")
    assert len(exported.process_latencies_s) == 2
    for trace, reason in ((nonsense, INVALID_SCHEDULE), (wrong, WRONG_RESULT)):
        failed = farm.export(export_order("finish", trace), lambda: True)
        assert failure_of(failed) is reason


@farms("board", "celery")
def test_comparison_and_export_end_when_canceled(farm: Farm):
    module = matmul(EXTENT)
    farm.open_task(task(module, "unwanted"))
    # An hour each: without the cancellation, the time limit of the test ends it.
    order = ComparisonOrder(exploration_id="unwanted", traces=(slow(module), None), seconds_each=3600.0)
    began_s = time.monotonic()
    results = farm.compare(order, lambda: time.monotonic() < began_s + 0.3).results
    assert {failure_of(result) for result in results} == {FailureReason.CANCELED}
    order = export_order("unwanted", tiled(module), processes=200)
    began_s = time.monotonic()
    exported = farm.export(order, lambda: time.monotonic() < began_s + 0.2)
    assert failure_of(exported) is FailureReason.CANCELED
    assert isinstance(measured(farm, "unwanted", tiled(module)).result, Timing)


@farms("board")
def test_farm_uses_positive_inputs_where_needed(farm: Farm):
    farm.open_task(task(square_root(), "positive"))
    assert isinstance(measured(farm, "positive", UNTUNED).result, Timing)


@farms("celery")
def test_function_without_finite_results_is_bad_input(farm: Farm):
    farm.open_task(task(not_a_number(), "odd"))
    farm.submit(attempt("odd", UNTUNED))
    with pytest.raises(BadInput, match="cannot be verified"):
        gather(farm, 2)


@farms("local", "board", "celery")
def test_farm_closes_twice_and_frees_its_device(open_farm: Callable[[], Farm], farm: Farm):
    for _ in range(2):
        farm.close()
    with closing(open_farm()) as another:
        assert another.device.fingerprint == farm.device.fingerprint
