"""Hostile database lines, read by the children that both imports use."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.foreign import corpus
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.views.database import RefusedLine
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_services.exchange.database_messages import ReadRecord
from tunefarm_services.exchange.database_reading import ReadingLimits, read_database

LIMITS = ReadingLimits(Limits(memory_bytes=8 << 30), line_s=60.0)


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer.start([LOAD_TVM, "tunefarm_services.exchange.database_child"]) as server:
        assert server.ready(120), server.failure
        yield server


def read(
    fork_server: ForkServer, workloads: list[str], records: list[str], callees: tuple[str, ...] = ()
) -> tuple[list[ReadRecord], list[RefusedLine]]:
    batches = list(read_database(lambda: fork_server, workloads, records, callees=callees, limits=LIMITS))
    return [r for batch in batches for r in batch.records], [r for batch in batches for r in batch.refused]


def test_hostile_lines_are_refused_and_good_ones_read(fork_server: ForkServer) -> None:
    hostile = [
        *((item.name, corpus.record_line(item.value)) for item in corpus.traces()),
        *((item.name, corpus.record_line(corpus.good_trace(), item.value)) for item in corpus.targets()),
        *((item.name, item.value) for item in corpus.lines()),
    ]
    good = corpus.record_line(corpus.good_trace())
    records, refused = read(
        fork_server, [corpus.workload_line(corpus.module_json())], [good, *(line for _, line in hostile), good]
    )
    through = {name for number, (name, _) in enumerate(hostile, 2) if number not in {each.line for each in refused}}
    assert through == set()
    assert len(hostile) > 150
    assert {record.line for record in records} <= {1, len(hostile) + 2}
    assert records
    assert all(each.reason for each in refused)
    assert not Path(corpus.MARKER).exists()


def test_hostile_workloads_are_refused_one_by_one(fork_server: ForkServer) -> None:
    items = [item for item in corpus.modules() if "nodes" in item.value]
    cyclic = corpus.workload_line(corpus.CYCLE, "1")
    lines = [cyclic, *(corpus.workload_line(item.value, "1") for item in items)]
    lines.append(corpus.workload_line(corpus.module_json()))
    good = corpus.record_line(corpus.good_trace(), number=len(lines) - 1)
    of_the_cycle = corpus.record_line(corpus.good_trace())
    records, refused = read(fork_server, lines, [of_the_cycle, good])
    assert {each.line for each in refused if each.file == "workloads"} == set(range(1, len(lines)))
    assert [(record.line) for record in records] == [2]
    reasons = {each.line: each.reason for each in refused if each.file == "workloads"}
    hash_alone = {items[line - 2].name for line, reason in reasons.items() if "the hash is not" in reason}
    assert hash_alone == set(), "refused for a reason that an attacker would have put right"


def test_only_allowed_callees_are_accepted(fork_server: ForkServer) -> None:
    [trace] = [item.value for item in corpus.traces() if item.name == "pad value: call_extern, plain"]
    workloads = [corpus.workload_line(corpus.module_json())]
    assert len(read(fork_server, workloads, [corpus.record_line(trace)], ("mkdir",))[0]) == 1
    assert read(fork_server, workloads, [corpus.record_line(trace)], ("rmdir",))[0] == []


def test_repeated_lines_are_reported_once(fork_server: ForkServer) -> None:
    lines = [corpus.record_line(corpus.good_trace(), times=f"[{n}e-6]") for n in range(1, 40)]
    batches = list(
        read_database(
            lambda: fork_server, [corpus.workload_line(corpus.module_json())], lines, callees=(), limits=LIMITS
        )
    )
    assert sum(len(batch.records) for batch in batches) == 1
    assert sum(batch.repeated for batch in batches) == 38


def test_reader_buffers_a_bounded_number_of_lines(fork_server: ForkServer) -> None:
    """Memory stays bounded for files of any length."""
    trace = corpus.good_trace()
    begun = answered = furthest_ahead = 0

    def lines() -> Iterator[str]:
        nonlocal begun
        for begun in range(1, 4001):
            yield corpus.record_line(trace, times=f"[{begun}e-9]") if begun % 100 else "no record"

    workloads = [corpus.workload_line(corpus.module_json())]
    for batch in read_database(lambda: fork_server, workloads, lines(), callees=(), limits=LIMITS):
        furthest_ahead = max(furthest_ahead, begun - answered)
        answered += len(batch.records) + len(batch.refused) + batch.repeated
    assert answered == 4000
    assert furthest_ahead <= 2048
