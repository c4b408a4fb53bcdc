"""Customers keep requesting jobs, and repeat a request until it is answered."""

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
"""The number of unfinished jobs at any time."""
CUSTOMERS = 6
"""More than jobs, because the repeat of an interrupted request may wait a minute for its answer."""
LABEL = "requested_job"
ANSWER_S = 300.0
"""The request of a killed process may be claimed again after a minute."""
AGAIN_S = 0.3


@dataclass(frozen=True)
class RequestedJob:
    """A requested job. Its name is a label of the job, and the idempotency key of the request."""

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
    requested_jobs: dict[str, RequestedJob] = field(default_factory=dict)
    """All requested jobs, by name."""
    job_ids: dict[str, str] = field(default_factory=dict)
    """The job ids of the answers, by name."""
    _enough: threading.Event = field(default_factory=threading.Event)
    _gives_up: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _trouble: list[BaseException] = field(default_factory=list)

    def __enter__(self) -> Self:
        for extent in EXTENTS:
            module_json(extent)  # in this thread, because TVM is not thread-safe
        self._threads = [threading.Thread(target=self._run) for _ in range(CUSTOMERS)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave(0.0)

    def leave(self, patience_s: float) -> None:
        """Send no further requests; requests in progress end within ``patience_s``."""
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

    def _run(self) -> None:
        try:
            while not self._enough.wait(0.1):
                if self._unfinished() < AT_ONCE:
                    self._ask()
        except BaseException as trouble:  # noqa: BLE001 - raised in ``leave``
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
            requested_job = RequestedJob.of(extent, trials, fresh=fresh, seed=chance.randrange(1000))
            self.requested_jobs[requested_job.name] = requested_job
        job_id = answered(self.farm, requested_job, self._gives_up.is_set)
        if job_id is not None:
            with self._lock:
                self.job_ids[requested_job.name] = job_id


def answered(farm: WholeFarm, requested_job: RequestedJob, gives_up: Callable[[], bool] = lambda: False) -> str | None:
    """The id of the job that answers ``requested_job``, or None if the request was given up."""
    headers = {"Idempotency-Key": requested_job.name}
    while not gives_up():
        with suppress(OSError, httpx.HTTPError):
            url = json.loads((farm.home / "api.json").read_text())["url"]
            headers["Authorization"] = f"Bearer {(farm.home / 'token').read_text().strip()}"
            answer = httpx.post(f"{url}/v1/jobs", json=requested_job.body, headers=headers, timeout=30.0, verify=False)
            if answer.status_code == 202:
                return str(answer.json()["job_id"])
            assert answer.status_code in {409, 503}, (answer.status_code, answer.text)
        time.sleep(AGAIN_S)
    return None
