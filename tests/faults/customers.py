"""People who always want something of the farm, and ask until they are answered."""

import json
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from uuid import uuid4

import httpx

from tests.faults.whole_farm import WholeFarm
from tests.service.conftest import module_json
from tunefarm_schemas.tuning.job import JobState
from tunefarm_services.store import LOCAL_TENANT, StoreUnavailable

EXTENTS = (24, 32, 40, 48)
AT_ONCE = 4
"""So many jobs are unfinished at any time."""
CUSTOMERS = 6
"""More than jobs, because one whose request died with its bearer may wait a minute for the answer."""
LABEL = "wish"
ANSWER_S = 75.0
"""A request whose bearer was killed may be claimed again after a minute."""
AGAIN_S = 0.3


@dataclass(frozen=True)
class Wish:
    """One job that somebody wants. Its name is a label of the job, and the key that makes repeats harmless."""

    name: str
    body: dict

    @classmethod
    def of(cls, extent: int, trials: int, **more: object) -> Self:
        name = str(uuid4())
        return cls(name, {"module": module_json(extent), "effort": {"trials": trials}, "labels": {LABEL: name}, **more})

    @property
    def trials(self) -> int:
        return self.body["effort"]["trials"]


@dataclass
class Customers:
    """Each sends a request with one key until it is answered, over any number of outages."""

    farm: WholeFarm
    generator: random.Random
    wishes: dict[str, Wish] = field(default_factory=dict)
    """All of them, by name."""
    job_ids: dict[str, str] = field(default_factory=dict)
    """What those that were answered were told."""
    _enough: threading.Event = field(default_factory=threading.Event)
    _gives_up: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _trouble: list[BaseException] = field(default_factory=list)

    def __enter__(self) -> Self:
        for extent in EXTENTS:
            module_json(extent)  # made here, because TVM is no friend of threads
        self._threads = [threading.Thread(target=self._live) for _ in range(CUSTOMERS)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave(0.0)

    def leave(self, patience_s: float) -> None:
        """Ask for nothing more; who waits for an answer does so for ``patience_s`` at most."""
        self._enough.set()
        deadline_s = time.monotonic() + patience_s
        for thread in self._threads:
            while thread.is_alive():
                if time.monotonic() > deadline_s:
                    self._gives_up.set()
                self.farm.revive()
                thread.join(0.1)
        if self._trouble:
            raise self._trouble[0]

    def _live(self) -> None:
        try:
            while not self._enough.wait(0.1):
                if self._unfinished() < AT_ONCE:
                    self._ask()
        except BaseException as trouble:  # noqa: BLE001 - raised where the customers leave
            self._trouble.append(trouble)

    def _unfinished(self) -> int:
        try:
            finished = self.farm.store.jobs.page(LOCAL_TENANT, state=JobState.FINISHED, limit=10_000)
        except StoreUnavailable:
            return AT_ONCE
        return len(self.job_ids) - len(finished)

    def _ask(self) -> None:
        with self._lock:
            chance = self.generator
            extent, trials, fresh = chance.choice(EXTENTS), chance.randint(12, 32), chance.random() < 0.6
            wish = Wish.of(extent, trials, fresh=fresh, seed=chance.randrange(1000))
            self.wishes[wish.name] = wish
        job_id = answered(self.farm, wish, self._gives_up.is_set)
        if job_id is not None:
            with self._lock:
                self.job_ids[wish.name] = job_id


def answered(farm: WholeFarm, wish: Wish, gives_up: Callable[[], bool] = lambda: False) -> str | None:
    """The id of the job that ``wish`` asks for, or None of one that was given up."""
    headers = {"Idempotency-Key": wish.name}
    while not gives_up():
        with suppress(OSError, httpx.HTTPError):
            url = json.loads((farm.home / "api.json").read_text())["url"]
            headers["Authorization"] = f"Bearer {(farm.home / 'token').read_text().strip()}"
            answer = httpx.post(f"{url}/v1/jobs", json=wish.body, headers=headers, timeout=30.0)
            if answer.status_code == 202:
                return str(answer.json()["job_id"])
            assert answer.status_code in {409, 503}, (answer.status_code, answer.text)
        time.sleep(AGAIN_S)
    return None
