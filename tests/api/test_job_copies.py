"""Jobs made from others, and two jobs side by side."""

from dataclasses import replace

import pytest

from tests.api.people import person_of
from tests.api.stored import furnished, lane, put_job, summarize
from tunefarm_schemas.tuning.job import Effort, JobState


def test_clone_has_the_tasks_of_the_job_and_what_was_changed(alice, store):
    job = put_job(store, "alice")
    answer = alice.post(
        f"/v1/jobs/{job.job_id}:clone",
        json={"effort": {"trials": 99}, "strategy": "random", "seed": 3, "labels": {"try": "2"}, "fresh": True},
    )
    assert answer.status_code == 202, answer.text
    clone = store.jobs.get("alice", answer.json()["job_id"])
    assert answer.headers["location"] == f"/v1/jobs/{clone.job_id}"
    assert (clone.spec.tasks, clone.state) == (job.spec.tasks, JobState.QUEUED)
    assert (clone.spec.effort, clone.spec.strategy, clone.spec.seed) == (Effort(trials=99), "random", 3)
    assert (clone.spec.labels, clone.spec.fresh) == ({"try": "2"}, True)


def test_clone_without_changes_repeats_the_request(alice, store):
    job = put_job(store, "alice")
    made = alice.post(f"/v1/jobs/{job.job_id}:clone", json={}).json()
    assert store.jobs.get("alice", made["job_id"]).spec == job.spec


def test_null_removes_a_limit_and_absence_keeps_it(alice, store):
    job = put_job(store, "alice")
    limits = {"seconds": 5.0, "plateau_trials": 7}
    limited = alice.post(f"/v1/jobs/{job.job_id}:clone", json={"effort": limits}).json()
    freed = alice.post(f"/v1/jobs/{limited['job_id']}:clone", json={"effort": {"seconds": None}}).json()
    assert freed["spec"]["effort"]["seconds"] is None
    assert freed["spec"]["effort"]["plateau_trials"] == 7


def test_more_trials_count_from_those_that_were_made_and_drop_other_limits(alice, store):
    mine = furnished(store, "alice")
    running = alice.post(f"/v1/jobs/{mine.job_id}:extend", json={"trials": 5}).json()
    assert running["spec"]["effort"]["trials"] == 10 + 5  # of 10 requested ones
    summarize(store, mine, 1e-3, (0.9e-3, 1.1e-3))
    ended = alice.post(f"/v1/jobs/{mine.job_id}:extend", json={"trials": 5}).json()
    assert ended["spec"]["effort"] == Effort(trials=2 + 5).model_dump()  # of 2 that were measured
    assert ended["spec"]["fresh_of"] == ""


def test_more_trials_of_a_fresh_job_continue_its_own_search(alice, store):
    job = put_job(store, "alice")
    fresh = alice.post(f"/v1/jobs/{job.job_id}:clone", json={"fresh": True}).json()["job_id"]
    second = alice.post(f"/v1/jobs/{fresh}:extend", json={"trials": 5}).json()
    third = alice.post(f"/v1/jobs/{second['job_id']}:extend", json={"trials": 5}).json()
    assert [each["spec"]["fresh_of"] for each in (second, third)] == [fresh, fresh]
    cloned = alice.post(f"/v1/jobs/{second['job_id']}:clone", json={}).json()
    assert cloned["spec"]["fresh_of"] == ""


@pytest.mark.parametrize("verb", ["clone", "extend"])
def test_repeated_request_makes_one_job(alice, store, verb):
    job = put_job(store, "alice")
    body = {"trials": 5} if verb == "extend" else {}
    ask = {"json": body, "headers": {"Idempotency-Key": "once"}}
    first, again = (alice.post(f"/v1/jobs/{job.job_id}:{verb}", **ask).json() for _ in range(2))
    assert first["job_id"] == again["job_id"]
    assert store.jobs.count("alice") == 2


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("clone", {"effort": {"trials": 0}}, "effort.trials"),
        ("clone", {"effort": {"trials": None}}, "effort.trials"),
        ("clone", {"strategy": "replay"}, "strategy"),
        ("clone", {"sead": 3}, "sead"),
        ("extend", {"trials": 0}, "trials"),
        ("extend", {"trials": 10_000_000}, "trials"),
        ("extend", {}, "trials"),
    ],
)
def test_unusable_copy_is_refused_with_its_field(alice, store, verb, body, field):
    job = put_job(store, "alice")
    answer = alice.post(f"/v1/jobs/{job.job_id}:{verb}", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert store.jobs.count("alice") == 1


def test_copy_that_no_lane_can_run_is_refused(alice, store):
    job = put_job(store, "alice")
    store.lanes.put(lane().model_copy(update={"kind": "cuda"}))
    answer = alice.post(f"/v1/jobs/{job.job_id}:clone", json={})
    assert (answer.status_code, answer.json()["field"]) == (422, "target")
    waiting = alice.post(f"/v1/jobs/{job.job_id}:clone", json={"deadline_s": 60})
    assert waiting.status_code == 202
    assert "waits for one" in waiting.json()["notes"][0]


def test_copies_count_as_open_jobs(app_with, store):
    job = put_job(store, "alice")
    alice = person_of(app_with(open_jobs_per_tenant=1), store, "alice")
    for verb, body in (("clone", {}), ("extend", {"trials": 1})):
        answer = alice.post(f"/v1/jobs/{job.job_id}:{verb}", json=body)
        assert (answer.status_code, "Retry-After" in answer.headers) == (429, True)


def test_copy_may_call_only_what_its_tenant_may_call_now(app_with, store):
    job = put_job(store, "alice")
    alice = person_of(app_with(callees={"alice": ("library_gemm",)}), store, "alice")
    made = alice.post(f"/v1/jobs/{job.job_id}:clone", json={}).json()
    assert made["spec"]["callees"] == ["library_gemm"]


def test_comparison_has_results_courses_failures_and_differences(alice, store):
    first = furnished(store, "alice")
    summarize(store, first, 2e-3, (1.9e-3, 2.1e-3))
    made = alice.post(f"/v1/jobs/{first.job_id}:clone", json={"seed": 4, "effort": {"trials": 20}}).json()
    answer = alice.get(f"/v1/jobs:compare?first={first.job_id}&second={made['job_id']}")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert [found[name]["job_id"] for name in ("first", "second")] == [first.job_id, made["job_id"]]
    assert (found["first"]["failures"], found["first"]["elapsed_s"]) == ({"crash": 1}, 4.0)
    (task,) = found["tasks"]
    assert task["ratio"] is None
    points = [(point["trials"], point["elapsed_s"]) for point in task["first"]["course"]]
    assert points == [(1, 2.0), (2, 4.0)]
    differences = {each["field"]: (each["first"], each["second"]) for each in found["differences"]}
    assert differences == {"seed": ("0", "4"), "effort.trials": ("10", "20")}


@pytest.mark.parametrize(("interval_s", "overlaps"), [((0.9e-3, 1.1e-3), False), ((0.9e-3, 1.95e-3), True)])
def test_comparison_says_whether_intervals_overlap(alice, store, interval_s, overlaps):
    mine = furnished(store, "alice")
    summarize(store, mine, 2e-3, (1.9e-3, 2.1e-3))
    spec = store.jobs.get("alice", mine.job_id).spec
    second = store.jobs.create("alice", spec)
    lease = store.leases.acquire("alice", second.job_id, "tuner", 60.0)
    assert lease is not None
    exploration = store.explorations.open(lease, store.explorations.get("alice", mine.exploration_id).key)
    assert exploration.exploration_id == mine.exploration_id
    summarize(store, replace(mine, job_id=second.job_id, lease=lease), 1e-3, interval_s)
    (task,) = alice.get(f"/v1/jobs:compare?first={mine.job_id}&second={second.job_id}").json()["tasks"]
    assert (task["ratio"], task["intervals_overlap"]) == (pytest.approx(2.0), overlaps)


def test_functions_of_one_job_only_have_no_ratio(alice, store):
    first, second = put_job(store, "alice", "one"), put_job(store, "alice", "two")
    tasks = alice.get(f"/v1/jobs:compare?first={first.job_id}&second={second.job_id}").json()["tasks"]
    assert [(task["first"] is None, task["second"] is None) for task in tasks] == [(False, True), (True, False)]
    assert [task["ratio"] for task in tasks] == [None, None]


def test_jobs_of_another_tenant_are_not_compared(alice, bob, store):
    mine, theirs = put_job(store, "alice"), put_job(store, "bob")
    assert alice.get(f"/v1/jobs:compare?first={mine.job_id}&second={theirs.job_id}").status_code == 404
    assert bob.get(f"/v1/jobs:compare?first={mine.job_id}&second={theirs.job_id}").status_code == 404
