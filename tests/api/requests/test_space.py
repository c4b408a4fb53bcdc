"""The space of a task, and trials by the reason of their failure."""

from tests.api.stored import furnished
from tests.service.space.stored_space import put_space
from tunefarm_schemas.views.jobs.space import SpaceView


def test_space_tells_importance_and_rank_accuracy(alice, store):
    mine = furnished(store, "alice")
    put_space(mine.bench, 80, first_number=2)
    answer = alice.get(f"/v1/jobs/{mine.job_id}/space?task=0")
    assert answer.status_code == 200, answer.text
    view = SpaceView.model_validate(answer.json())
    assert view.exploration_id == mine.exploration_id
    assert max(view.sketches[0].decisions, key=lambda each: each.importance.share).subject == "product, loop 0"
    assert view.windows[0].share > 0.7


def test_space_of_a_missing_task_is_not_found(alice, bob, store):
    mine = furnished(store, "alice")
    assert alice.get(f"/v1/jobs/{mine.job_id}/space?task=1").status_code == 404
    assert alice.get(f"/v1/jobs/{mine.job_id}/space?task=-1").status_code == 422
    assert bob.get(f"/v1/jobs/{mine.job_id}/space").status_code == 404


def test_trials_are_filtered_by_the_reason_of_their_failure(alice, store):
    mine = furnished(store, "alice")
    put_space(mine.bench, 60, first_number=2)
    for address in (f"/v1/jobs/{mine.job_id}/trials?", f"/v1/trials?exploration_id={mine.exploration_id}&"):
        page = alice.get(f"{address}reason=run_timeout&page_size=2").json()
        rest = alice.get(f"{address}reason=run_timeout&page_token={page['next_page_token']}").json()
        found = [each["number"] for each in page["items"] + rest["items"]]
        assert found == [19, 39, 59]
        other = alice.get(f"{address}reason=crash").json()["items"]
        assert [each["number"] for each in other] == [1]
    assert alice.get(f"/v1/jobs/{mine.job_id}/trials?reason=boredom").status_code == 422
