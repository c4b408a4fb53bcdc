"""The locust clients. ``LOAD_FILLING`` is a file with the contents of the store.

Each client has its own token and waits 0.5 to 1.5 s between requests. Each request's time is written to the file
``LOAD_SAMPLES``, because locust's own statistics are rounded.
"""

import itertools
import json
import os
import time
import uuid
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from locust import FastHttpUser, between, events, task

FILLING: Final[dict[str, Any]] = json.loads(Path(os.environ["LOAD_FILLING"]).read_text(encoding="utf-8"))
TARGET: Final = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}

_numbers = itertools.count()
_samples: list[tuple[float, str, float, int, str]] = []


@events.request.add_listener
def _note(name: str, response_time: float, response: Any, exception: Any, **_more: object) -> None:
    status = 0 if response is None else int(response.status_code or 0)
    _samples.append((time.time(), name, response_time / 1e3, status, "" if exception is None else str(exception)[:200]))


@events.quitting.add_listener
def _write(**_more: object) -> None:
    lines = "".join(json.dumps(sample) + "\n" for sample in _samples)
    Path(os.environ["LOAD_SAMPLES"]).write_text(lines, encoding="utf-8")


class LoadClient(FastHttpUser):
    """A user who polls a job, lists resources, queries records, and sometimes submits a job."""

    wait_time = between(0.5, 1.5)
    connection_timeout = 30.0
    network_timeout = 30.0

    def on_start(self) -> None:
        """Choose a token and a job."""
        self._number = next(_numbers)
        tokens = FILLING["tokens"]
        self._headers = {"Authorization": f"Bearer {tokens[self._number % len(tokens)]}"}
        self._job_id = FILLING["job_ids"][self._number % len(FILLING["job_ids"])]
        self._etag = ""
        self._indices = itertools.count(self._number)

    @task(30)
    def poll_job(self) -> None:
        """Poll the job, as ``--wait`` does without an event stream."""
        self._read(f"/v1/jobs/{self._job_id}", "GET job")

    @task(5)
    def poll_unchanged_job(self) -> None:
        """Poll the job with the last ETag."""
        with self.client.get(
            f"/v1/jobs/{self._job_id}",
            headers={**self._headers, "If-None-Match": self._etag} if self._etag else self._headers,
            name="GET job (If-None-Match)",
            catch_response=True,
        ) as answer:
            if answer.status_code in {200, 304}:
                self._etag = answer.headers.get("etag", "") if answer.headers else ""
                answer.success()

    @task(8)
    def list_jobs(self) -> None:
        """The first page of jobs."""
        self._read("/v1/jobs?page_size=20", "GET jobs")

    @task(8)
    def list_records(self) -> None:
        """A page of the records of a workload."""
        query = self._one("best_queries")
        self._read(f"/v1/records?page_size=20&workload_id={query['workload_id']}", "GET records")

    @task(5)
    def get_record(self) -> None:
        """One record."""
        self._read(f"/v1/records/{self._one('record_ids')}", "GET record")

    @task(15)
    def best_record(self) -> None:
        """The best schedule of a known workload."""
        self._best(self._one("best_queries"), "GET records:best")

    @task(3)
    def best_record_for_named_target(self) -> None:
        """The same for a target that only TVM can parse."""
        query = {**self._one("best_queries"), "target": json.dumps(TARGET)}
        self._best(query, "GET records:best (target as JSON)")

    @task(6)
    def list_trials(self) -> None:
        """A page of an exploration's trials."""
        self._read(f"/v1/trials?page_size=20&exploration_id={self._one('exploration_ids')}", "GET trials")

    @task(4)
    def list_trials_of_job(self) -> None:
        """A page of a job's trials."""
        self._read(f"/v1/jobs/{self._one('searched_job_ids')}/trials?page_size=20", "GET job trials")

    @task(4)
    def list_tasks(self) -> None:
        """A job's tasks."""
        self._read(f"/v1/jobs/{self._one('searched_job_ids')}/tasks", "GET job tasks")

    @task(4)
    def list_events(self) -> None:
        """A job's events as a list."""
        self._read(f"/v1/events?page_size=50&job_id={self._one('searched_job_ids')}", "GET events")

    @task(1)
    def submit(self) -> None:
        """Submit a small job, sometimes twice with the same key, as after a lost response."""
        body = {"module": FILLING["module_json"], "target": TARGET, "effort": {"trials": 8}}
        headers = {**self._headers, "Idempotency-Key": str(uuid.uuid4())}
        job_id = self._submitted(body, headers, "POST jobs")
        if job_id is not None:
            self._job_id = job_id
            if next(self._indices) % 4 == 0 and self._submitted(body, headers, "POST jobs (repeated)") != job_id:
                events.request.fire(
                    request_type="POST",
                    name="POST jobs (repeated)",
                    response_time=0.0,
                    response_length=0,
                    response=None,
                    context={},
                    exception=AssertionError("another job for the same key"),
                )

    def _submitted(self, body: object, headers: dict[str, str], name: str) -> str | None:
        answer = self.client.post("/v1/jobs", json=body, headers=headers, name=name)
        return str(answer.json()["job_id"]) if answer.status_code == 202 else None

    def _read(self, path: str, name: str) -> None:
        self.client.get(path, headers=self._headers, name=name)

    def _best(self, query: dict[str, str], name: str) -> None:
        self._read(f"/v1/records:best?{urlencode(query)}", name)

    def _one(self, kind: str) -> Any:
        """The next object of a kind; each client begins at a different one."""
        objects = FILLING[kind]
        return objects[next(self._indices) * 7 % len(objects)]
