"""The space of an exploration, from stored trials whose truth is known."""

import pytest

from tests.service.space.stored_space import put_space, put_trial, trace_text
from tests.store.conftest import store, url
from tests.store.sample import TENANT, Bench, bench, timing
from tunefarm_services.space.space_view import exploration_of_task, space_view
from tunefarm_services.store import NotFound, Store

__all__ = ["store", "url"]


@pytest.fixture
def holder(store: Store) -> Bench:
    return bench(store)


def test_the_decision_that_matters_is_the_most_important(holder: Bench) -> None:
    put_space(holder, 150)
    view = space_view(holder.store.samples, TENANT, holder.exploration_id)
    (sketch,) = view.sketches
    shares = {each.subject: each.importance.share for each in sketch.decisions if each.importance is not None}
    assert shares["product, loop 0"] > 0.8
    assert shares["product, loop 1"] < 0.1
    assert set(shares) == {"product, loop 0", "product, loop 1", "unroll_explicit"}
    assert (view.sampled, view.unreadable) == (143, 0)
    assert view.sketch_importance is None


def test_the_fastest_are_timed_trials_in_order_and_then_stopped_ones(holder: Bench) -> None:
    put_space(holder, 60)
    fastest = space_view(holder.store.samples, TENANT, holder.exploration_id).fastest
    timed = [each.latency_s for each in fastest if not each.is_bound]
    assert timed == sorted(timed)
    assert [each.is_bound for each in fastest] == sorted(each.is_bound for each in fastest)
    assert fastest[0].decisions[0] == (32, 1)
    assert len(timed) == 38


def test_a_model_that_ranks_well_has_a_high_share_in_each_window(holder: Bench) -> None:
    put_space(holder, 150)
    view = space_view(holder.store.samples, TENANT, holder.exploration_id)
    assert [(window.first, window.last) for window in view.windows] == [(0, 63), (64, 127), (128, 149)]
    assert all(0.75 < window.share < 1.0 for window in view.windows)
    assert len(view.predictions) == 143


def test_sketches_are_told_apart_and_compared(holder: Bench) -> None:
    for number in range(60):
        block, latency_s = ("fast", 1e-4) if number % 3 else ("slow", 1e-2)
        text = trace_text(number % 6, 0, 0, block=block)
        put_trial(holder, number, text, 0.0, timing(latency_s * (1 + number % 7 / 100)))
    view = space_view(holder.store.samples, TENANT, holder.exploration_id)
    assert [(each.number, each.trials) for each in view.sketches] == [(0, 40), (1, 20)]
    assert view.sketch_importance is not None
    assert view.sketch_importance.share > 0.99
    assert {each.sketch for each in view.fastest[:40]} == {0}


def test_traces_of_another_form_are_counted_and_left_out(holder: Bench) -> None:
    put_space(holder, 40)
    put_trial(holder, 40, '[[["SamplePerfectTile",[],[],["v"]]],[]]', 0.0, timing(1e-9))
    view = space_view(holder.store.samples, TENANT, holder.exploration_id)
    assert (view.sampled, view.unreadable) == (39, 1)
    assert view.fastest[0].number != 40


def test_implausible_numbers_of_damaged_rows_are_left_out(holder: Bench) -> None:
    damaged = timing(1e-3).model_copy(update={"latency_s": 1e300, "samples_s": (1e300, 1e300)})
    put_space(holder, 40)
    put_trial(holder, 40, trace_text(0, 0, 0), 1e300, timing(1e-300))
    put_trial(holder, 41, trace_text(0, 0, 0), -1e300, damaged)
    put_trial(holder, 42, trace_text(0, 0, 0), 1e300, timing(1e-4))
    view = space_view(holder.store.samples, TENANT, holder.exploration_id)
    assert not {40, 41} & {each.number for each in view.fastest}
    assert not {40, 41, 42} & {each.number for each in view.predictions}


def test_an_exploration_without_trials_is_an_empty_view(holder: Bench) -> None:
    view = space_view(holder.store.samples, TENANT, holder.exploration_id)
    assert (view.sampled, view.sketches, view.fastest, view.windows) == (0, (), (), ())


def test_equal_trials_give_equal_views(holder: Bench) -> None:
    put_space(holder, 80)
    assert space_view(holder.store.samples, TENANT, holder.exploration_id) == space_view(
        holder.store.samples, TENANT, holder.exploration_id
    )


def test_a_task_without_trials_is_not_found(holder: Bench) -> None:
    job = holder.store.jobs.get(TENANT, holder.lease.job_id)
    explorations = holder.store.explorations.of_job(TENANT, job.job_id)
    assert exploration_of_task(job, 0, explorations).exploration_id == holder.exploration_id
    for position, begun in ((1, explorations), (0, [])):
        with pytest.raises(NotFound, match="task with trials"):
            exploration_of_task(job, position, begun)
