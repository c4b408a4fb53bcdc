"""What every farm and source of records of a search keeps: those of a replay, and those of its child."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.workers.workloads import dispatch
from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_schemas.tuning.job import Effort
from tunefarm_schemas.tuning.measurement import Candidate, Measurement, Stages, Timing
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.ports import KnownTrial, RecordsInMemory, RecordSource, SearchFarm
from tunefarm_search.replay.replay_farm import ReplayFarm
from tunefarm_search.replay.replay_table import ReplayTable
from tunefarm_services.tuner.search.search_child import OrderRecords, PipeFarm
from tunefarm_services.tuner.search.search_messages import (
    KnownTrialMessage,
    MeasuredMessage,
    Proposed,
    SearchOrder,
    SearchTaskMessage,
    StopSearching,
)

TABLE = ReplayTable.from_json((Path(__file__).parents[1] / "search" / "data" / "matmul_64_small.json").read_text())
TRACES = TABLE.traces()
ROOM = 4
KNOWN, CLAIMED, NEAR = TRACES[:3]


def candidates(amount: int) -> list[Candidate]:
    return [dispatch("known", TRACES[number], number).candidate for number in range(amount)]


def timed(number: int = 0) -> Measurement:
    sent = dispatch("known", TRACES[number], number)
    return Measurement.answering(sent, Timing(latency_s=1e-3, samples_s=(1e-3,)), Stages(build_s=0.5))


TRIAL = KnownTrial(candidates(1)[0], timed().result, build_s=0.5)


def tell(supervisor: Channel, *measured: Measurement) -> None:
    supervisor.send(MeasuredMessage(measurements=measured).model_dump_json().encode())


def supervise(supervisor: Channel) -> None:
    """Answer what is proposed until the search goes."""
    with suppress(ChannelClosed):
        while True:
            for candidate in Proposed.model_validate_json(supervisor.receive(None)).candidates:
                tell(supervisor, timed(candidate.number))


@pytest.fixture(params=["replay", "child"])
def farm(request: pytest.FixtureRequest) -> Iterator[SearchFarm]:
    if request.param == "replay":
        yield ReplayFarm(TABLE, depth=ROOM)
        return
    supervisor, far = Channel.pair()
    channel = Channel(far)
    thread = threading.Thread(target=supervise, args=(supervisor,))
    thread.start()
    yield PipeFarm(channel, ROOM)
    channel.close()
    thread.join()
    supervisor.close()


def test_search_farm_returns_each_result_once(farm: SearchFarm) -> None:
    assert farm.collect(0.0) == []
    assert farm.room() == ROOM
    farm.submit(candidates(3))
    assert farm.room() == ROOM - 3
    found: list[Measurement] = []
    while len(found) < 3:
        found += farm.collect(None)
    assert sorted(measured.candidate_number for measured in found) == [0, 1, 2]
    assert farm.collect(0.01) == []
    assert farm.room() == ROOM


def task_of(exploration_id: str, **known: object) -> SearchTaskMessage:
    return SearchTaskMessage(
        exploration_id=exploration_id, name="", weight=1.0, module_json="{}", target=TABLE.target, abi="stable",
        space=Space(), seed_traces=(), **{"known": (), **known},
    )  # fmt: skip


def sources() -> Sequence[RecordSource]:
    known = KnownTrialMessage(candidate=TRIAL.candidate, measurement=timed())
    task = task_of("known", known=(known,), claimed_traces=(CLAIMED,), near_traces=(NEAR,), model_json="{}")
    in_memory = RecordsInMemory(
        trials={"known": [TRIAL]}, claims={"known": [CLAIMED]}, traces={"known": [NEAR]}, models={"known": "{}"}
    )
    order = SearchOrder(
        tasks=(task, task_of("new")), strategy="random", effort=Effort(trials=1), seed=0, queue_depth=ROOM
    )
    return in_memory, OrderRecords(order)


@pytest.mark.parametrize("source", sources(), ids=["in memory", "of an order"])
def test_record_source_returns_records_of_exploration(source: RecordSource) -> None:
    assert list(source.known_trials("known")) == [TRIAL]
    assert (list(source.claimed_traces("known")), list(source.near_traces("known"))) == ([CLAIMED], [NEAR])
    assert source.model_snapshot("known") == "{}"
    assert not any((source.known_trials("new"), source.claimed_traces("new"), source.near_traces("new")))
    assert source.model_snapshot("new") is None


def test_repeated_result_frees_one_slot() -> None:
    supervisor, far = Channel.pair()
    farm = PipeFarm(Channel(far), ROOM)
    farm.submit(candidates(3))
    for attempt in (1, 2):
        tell(supervisor, timed().model_copy(update={"attempt": attempt}))
        assert len(farm.collect(10.0)) == 1
        assert farm.room() == 2
    supervisor.send(StopSearching().model_dump_json().encode())
    assert farm.collect(10.0) == []
    assert farm.stopped
