"""Processor time by component, queue lengths, and the measured window of a run."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import psutil
import redis

from benchmarks.farm.simulated_search import SimulatedSearch
from tunefarm_schemas.tuning.measurement import Failed, Measurement
from tunefarm_services.store import Store

SAMPLE_S: Final = 0.25


class TimedStore:
    """The store, with the processor time of calls to its repositories."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.cpu_s = 0.0
        self.lanes_lost = 0

    def __getattr__(self, name: str) -> "_TimedRepository":
        return _TimedRepository(self, getattr(self._store, name))


class _TimedRepository:
    def __init__(self, total: TimedStore, repository: object) -> None:
        self._total = total
        self._repository = repository

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._repository, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            began_s = time.thread_time()
            try:
                answer = method(*arguments, **named)
            finally:
                self._total.cpu_s += time.thread_time() - began_s
            self._total.lanes_lost += len(answer) if name == "mark_lost" else 0
            return answer

        return timed


class Meter:
    """Processor seconds so far, by component."""

    def __init__(self, workers: list[psutil.Popen], client: redis.Redis, store: TimedStore, server: int | None) -> None:
        used = cast("Mapping[str, float]", client.info("cpu"))
        machine = psutil.cpu_times()
        self.wall_s = time.monotonic()
        self.parts = {
            "tuner": time.process_time() - store.cpu_s,
            "store": store.cpu_s,
            "worker": sum(_cpu_s(worker) for worker in workers),
            "redis": float(used["used_cpu_user"]) + float(used["used_cpu_sys"]),
            "database": 0.0 if server is None else _family_cpu_s(server),
            "machine": machine.user + machine.nice + machine.system + machine.irq + machine.softirq,
        }


class Queues:
    """Samples the lengths of the broker's queues."""

    def __init__(self, client: redis.Redis, keys: Mapping[str, str]) -> None:
        self._client = client
        self._keys = keys
        self.longest = dict.fromkeys(keys, 0)

    def run(self, stop: threading.Event) -> None:
        """Sample until ``stop`` is set."""
        while not stop.wait(SAMPLE_S):
            for name, key in self._keys.items():
                length = self._client.xlen(key) if name == "replies" else self._client.llen(key)
                self.longest[name] = max(self.longest[name], int(length))


class MeterWindow:
    """The measured part of a run: a number of seconds after the warm-up."""

    def __init__(self, window_s: float, warm_up_s: float, read: Callable[[], Meter], search: SimulatedSearch) -> None:
        self.window_s = window_s
        self._warm_up_s = warm_up_s
        self._read = read
        self._search = search
        self._first_s: float | None = None
        self.numbers: list[int] = []
        self.before: Meter | None = None
        self.after: Meter | None = None

    def tick(self) -> bool:
        """Begin or end the window at its time; never ends the session."""
        now_s = time.monotonic()
        if self._first_s is None or self.after is not None:
            return True
        if self.before is None:
            if now_s - self._first_s > self._warm_up_s:
                self.before = self._read()
        elif now_s - self.before.wall_s > self.window_s:
            self.after = self._read()
            self._search.stop()
        return True

    def measured(self, measurement: Measurement) -> None:
        """Count a stored result."""
        self._first_s = self._first_s or time.monotonic()
        if self.before is not None and self.after is None and not isinstance(measurement.result, Failed):
            self.numbers.append(measurement.candidate_number)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _family_cpu_s(server: int) -> float:
    """Of a PostgreSQL server; the postmaster's children times include ended connections."""
    process = psutil.Process(server)
    gone = process.cpu_times()
    return sum(_cpu_s(each) for each in (process, *process.children())) + float(
        gone.children_user + gone.children_system
    )
