"""Calls that copy jobs, and compare them."""

from collections.abc import Mapping

from tunefarm.http.calls.job_calls import job_view
from tunefarm.http.request import Flow, Reply, Request
from tunefarm_schemas.tuning.job import Strategy
from tunefarm_schemas.views.jobs.job import JobComparison, NewJob


def job_clone(
    job_id: str,
    *,
    effort: Mapping[str, float | int | None] | None = None,
    strategy: Strategy | None = None,
    seed: int | None = None,
    labels: Mapping[str, str] | None = None,
    fresh: bool | None = None,
) -> Flow[NewJob]:
    """Create a job for the same tasks; None keeps what the job has.

    ``effort`` names the limits to change, such as ``{"trials": 2000, "seconds": None}``; None removes a limit.
    With the same effort it is answered from the store, unless it is ``fresh``.
    """
    given = {
        "effort": None if effort is None else dict(effort),
        "strategy": strategy,
        "seed": seed,
        "labels": None if labels is None else dict(labels),
        "fresh": fresh,
    }
    job = yield from job_view(job_id)
    body = {name: value for name, value in given.items() if value is not None}
    reply: Reply = yield Request("POST", f"/jobs/{job.job_id}:clone", body=body, creates=True)
    return reply.read(NewJob)


def job_extension(job_id: str, trials: int) -> Flow[NewJob]:
    """Create a job that continues the search of a job with ``trials`` more. It waits while that job runs."""
    job = yield from job_view(job_id)
    reply: Reply = yield Request("POST", f"/jobs/{job.job_id}:extend", body={"trials": trials}, creates=True)
    return reply.read(NewJob)


def job_comparison(first_id: str, second_id: str) -> Flow[JobComparison]:
    """Compare two jobs: results by task, requests, failures, and the courses of their searches."""
    first = yield from job_view(first_id)
    second = yield from job_view(second_id)
    reply: Reply = yield Request("GET", "/jobs:compare", query={"first": first.job_id, "second": second.job_id})
    return reply.read(JobComparison)
