"""Kills processes of a farm at random moments, and checks the store after each kill."""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import text

from tests.faults.orphans import GONE_S, family_of
from tests.faults.trials import Trials, assert_kept
from tests.faults.whole_farm import WholeFarm, owns_its_database
from tests.servers.processes import assert_gone
from tunefarm_services.store import StoreUnavailable

MAX_SEARCH_DEATHS = 2
"""One more, and a job is given up as poisoned, by design."""
MAX_PAUSE_S = 2.0
OUTAGE_S = 30.0
COUNTED_S = 5.0
END_S = 600.0

Answer = TypeVar("Answer")


@dataclass
class FarmKiller:
    """Kills random processes. A supervisor restarts them."""

    farm: WholeFarm
    generator: random.Random = field(default_factory=random.Random)
    victims: list[str] = field(default_factory=list)
    _had: set[str] = field(default_factory=set)
    _best_records_s: dict[tuple[str, ...], float] = field(default_factory=dict)

    def kill(self, times: int) -> None:
        before = self.look()
        while len(self.victims) < times:
            self._keep_running(self.generator.uniform(0.1, MAX_PAUSE_S))
            self._kill_one()
            after = self.look()
            assert_kept(before, after)
            before = after

    def wait_until_all_ended(self) -> None:
        deadline_s = time.monotonic() + END_S
        while open_jobs := self.ask("SELECT job_id, state, message, owner FROM jobs WHERE state <> 'finished'"):
            assert time.monotonic() < deadline_s, open_jobs
            self._keep_running(0.2)

    def look(self) -> Trials:
        """The trials in the store; checks that no best record has become slower since the last call."""
        best = self.ask(
            "SELECT workload_id, target_id, device_class_id, code_generator, protocol_id, abi, latency_s "
            "FROM best_records"
        )
        now_s = {tuple(row[:-1]): float(row[-1]) for row in best}
        for key, latency_s in self._best_records_s.items():
            assert now_s[key] <= latency_s, key
        self._best_records_s = now_s
        return Trials.asked(self.ask)

    def _kill_one(self) -> None:
        processes = self.farm.processes()
        if self._max_search_deaths() >= MAX_SEARCH_DEATHS:
            processes.pop("search", None)
        if owns_its_database():
            processes["database"] = [row[0] for row in self.ask(_CONNECTIONS)]
        role = self._drawn(sorted(processes))
        victim = self.generator.choice(processes[role])
        family, deaths = family_of(victim), self._all_search_deaths()
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
            self.victims.append(role)
        assert_gone(family, role, GONE_S)
        if role == "search":
            self._until_counted(deaths)

    def _drawn(self, roles: list[str]) -> str:
        """One of ``roles``; each present role is drawn once before any is drawn again."""
        if not (left := [role for role in roles if role not in self._had]):
            self._had.clear()
            left = roles
        drawn = self.generator.choice(left)
        self._had.add(drawn)
        return drawn

    def _until_counted(self, deaths_before: int) -> None:
        """Wait until the death is recorded, so that the next check does not underestimate the deaths of a job."""
        deadline_s = time.monotonic() + COUNTED_S
        while self._all_search_deaths() == deaths_before and time.monotonic() < deadline_s:
            self._keep_running(0.05)

    def _max_search_deaths(self) -> int:
        return int(self.ask("SELECT coalesce(max(search_deaths), 0) FROM jobs WHERE state <> 'finished'")[0][0])

    def _all_search_deaths(self) -> int:
        return int(self.ask("SELECT coalesce(sum(search_deaths), 0) FROM jobs")[0][0])

    def _keep_running(self, seconds: float) -> None:
        deadline_s = time.monotonic() + seconds
        while True:
            self.farm.revive()
            if time.monotonic() >= deadline_s:
                return
            time.sleep(min(0.1, max(deadline_s - time.monotonic(), 0.0)))

    def ask(self, query: str) -> Sequence[Any]:
        """The rows of the result, retried until the database answers."""
        return self._through_outages(lambda: self._asked(query))

    def _asked(self, query: str) -> Sequence[Any]:
        with self.farm.store.database.reading() as connection:
            return connection.execute(text(query)).all()

    def _through_outages(self, question: Callable[[], Answer]) -> Answer:
        deadline_s = time.monotonic() + OUTAGE_S
        while True:
            try:
                return question()
            except StoreUnavailable:
                assert time.monotonic() < deadline_s, "the database did not come back"
                time.sleep(0.05)


_CONNECTIONS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
