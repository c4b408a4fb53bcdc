"""Answers report rates, so that a client slows down before it is rejected."""

import re

import pytest

from tests.api.people import caller_of, person_of
from tunefarm_services.api.problems.problem import FORMS, ApiProblem, ProblemKind

REST = re.compile(r'"([a-z0-9-]+)";r=([0-9]+);t=([0-9]+)')


def rest_of(answer) -> dict[str, tuple[int, int]]:
    """The remaining quota of each policy, and the seconds until it is renewed."""
    return {name: (int(left), int(more_s)) for name, left, more_s in REST.findall(answer.headers["ratelimit"])}


def test_each_answer_reports_the_remaining_rate(app_with, store):
    alice = person_of(app_with(rate_limit="3/hour;1000/day"), store, "alice")
    answers = [alice.get("/v1/jobs") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    for answer in answers:
        policies = {'"token-3600s";q=3;w=3600', '"token-86400s";q=1000;w=86400'}
        assert set(answer.headers["ratelimit-policy"].split(", ")) == policies
    assert [rest_of(answer)["token-3600s"][0] for answer in answers] == [2, 1, 0, 0]
    assert all(0 < rest_of(answer)["token-3600s"][1] <= 2 * 3600 for answer in answers)
    refused = answers[-1]
    assert int(refused.headers["retry-after"]) == rest_of(refused)["token-3600s"][1]
    assert refused.json()["fix"] == f"Retry after {refused.headers['retry-after']} s."


def test_errors_report_the_remaining_rate(alice):
    for answer in (alice.get("/v1/jobs/none"), alice.get("/v1/jobs?no_such=1"), alice.get("/nowhere")):
        assert "token-1s" in rest_of(answer)


def test_invalid_token_gets_rate_header_when_limited(app_with):
    stranger = caller_of(app_with(refused_rate_limit="2/hour"), "Bearer tfk_0000000000000000_" + "A" * 43)
    answers = [stranger.get("/v1/jobs") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [401, 401, 429]
    assert "ratelimit" not in answers[0].headers
    assert rest_of(answers[2])["stranger-3600s"][0] == 0
    assert int(answers[2].headers["retry-after"]) > 0


@pytest.mark.parametrize("kind", [kind for kind in ProblemKind if FORMS[kind].status in {429, 503}])
def test_retryable_refusals_have_retry_after(kind):
    assert int(ApiProblem(kind, "Later.").response().headers["retry-after"]) > 0
    assert ApiProblem(kind, "Later.", headers={"Retry-After": "7"}).response().headers["retry-after"] == "7"
