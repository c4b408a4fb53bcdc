"""Scales and coordinates of drawings."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunefarm_schemas.views.jobs.space import FastTrial, JudgedPrediction, RankWindow, SketchView, SpaceDecision
from tunefarm_services.dashboard.drawings.model_plots import rank_plot, scatter_plot
from tunefarm_services.dashboard.drawings.parallel_coordinates import MAX_AXES, parallel_coordinates
from tunefarm_services.dashboard.drawings.scale import Tick, ordinal, path, scale_of, spaced

LATENCY = st.floats(1e-12, 1e9)


def tile(instruction: int, width: int) -> SpaceDecision:
    parts = tuple(f"factor {part + 1}" for part in range(width))
    return SpaceDecision(
        instruction=instruction, kind="tile", subject=f"loop {instruction}", parts=parts, choices=(), importance=None
    )


def sketch(*decisions: SpaceDecision) -> SketchView:
    return SketchView(number=0, trials=1, best_latency_s=1.0, decisions=decisions)


def fast(number: int, latency_s: float, *decisions: tuple[int, ...]) -> FastTrial:
    return FastTrial(number=number, latency_s=latency_s, is_bound=False, sketch=0, decisions=decisions)


def test_a_scale_maps_its_ends_inside_of_its_range() -> None:
    scale = scale_of([1e-6, 1e-3], 100.0, 0.0, is_log=True)
    assert 0.0 < scale(1e-3) < scale(1e-6) < 100.0
    assert [tick.text for tick in scale.ticks(lambda value: f"{value:g}")] == ["1e-06", "1e-05", "0.0001", "0.001"]


@given(st.lists(LATENCY, min_size=1, max_size=20))
@settings(max_examples=80)
def test_any_latencies_are_drawn_inside_of_the_drawing(latencies: list[float]) -> None:
    scale = scale_of(latencies, 300.0, 10.0, is_log=True)
    assert all(10.0 <= scale(latency) <= 300.0 for latency in latencies)
    assert all(10.0 <= tick.at <= 300.0 for tick in scale.ticks(str))
    assert len(scale.ticks(str)) <= 12


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=20))
@settings(max_examples=80)
def test_any_scores_are_drawn_inside_of_the_drawing(scores: list[float]) -> None:
    scale = scale_of(scores, 0.0, 500.0)
    assert all(0.0 <= scale(score) <= 500.0 for score in scores)
    assert len(scale.ticks(str)) <= 12


def test_values_of_a_decision_stand_at_equal_distances() -> None:
    assert ordinal([64, 1, 8, 8], 0.0, 100.0) == {1: 0.0, 8: 50.0, 64: 100.0}
    assert ordinal([3], 0.0, 100.0) == {3: 50.0}


def test_labels_that_would_overlap_are_left_out_but_not_the_last() -> None:
    kept = spaced([Tick(at, str(at)) for at in (0.0, 5.0, 12.0, 40.0, 44.0)], 10.0)
    assert [tick.at for tick in kept] == [0.0, 12.0, 44.0]


def test_a_path_joins_its_points() -> None:
    assert path([(0.0, 1.5), (2.0, 3.0)]) == "M0 1.5L2 3"
    assert path([]) == ""


def test_the_fastest_line_is_drawn_last_and_has_the_first_colour() -> None:
    trials = [fast(number, 1.0 + number, (2 ** (number % 3), 4), (number,)) for number in range(10)]
    drawing = parallel_coordinates(sketch(tile(1, 2), tile(2, 1)), trials)
    assert drawing is not None
    assert [line.trial.number for line in drawing.lines] == list(range(9, -1, -1))
    assert [line.group for line in drawing.lines] == [4, 4, 3, 3, 2, 2, 1, 1, 0, 0]
    assert [axis.name for axis in drawing.axes] == ["f1", "f2", "f1", "latency"]
    assert all(line.path.count("L") == 3 for line in drawing.lines)


def test_decisions_that_do_not_fit_are_counted() -> None:
    decisions = [tile(number, 4) for number in range(10)]
    drawing = parallel_coordinates(sketch(*decisions), [fast(0, 1.0, *[(1, 2, 3, 4)] * 10)])
    assert drawing is not None
    assert len(drawing.axes) == MAX_AXES + 1
    assert drawing.left_out == 4


@pytest.mark.parametrize("trials", [[], [fast(0, 1.0)]])
def test_without_trials_or_decisions_there_is_no_drawing(trials: list[FastTrial]) -> None:
    assert parallel_coordinates(sketch(), trials) is None


def test_plots_of_the_model_need_something_to_show() -> None:
    assert rank_plot([]) is None
    assert scatter_plot([]) is None
    window = RankWindow(first=0, last=0, trials=1, pairs=1, share=0.5, low=0.0, high=1.0)
    ranks = rank_plot([window])
    assert ranks is not None
    assert ranks.points[0].y == ranks.chance
    prediction = JudgedPrediction(number=7, predicted_score=1.0, latency_s=1e-3, is_bound=True)
    scatter = scatter_plot([prediction])
    assert scatter is not None
    assert scatter.points[0].is_bound
