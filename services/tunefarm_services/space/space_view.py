"""Reads the space of an exploration from a sample of its trials."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.tuning.job import Exploration, Job
from tunefarm_schemas.views.jobs.space import (
    FastTrial,
    Importance,
    JudgedPrediction,
    RankWindow,
    SketchView,
    SpaceDecision,
    SpaceView,
)
from tunefarm_services.space.importance import importance
from tunefarm_services.space.rank_windows import rank_window
from tunefarm_services.space.traced_decisions import DecidedTrace, DecisionPlace, TraceReader
from tunefarm_services.store import NotFound
from tunefarm_services.store.trials.sample_repository import PredictedTrial, SampleRepository, TracedTrial

SAMPLE: Final = 1_500
FASTEST: Final = 100
WINDOWS: Final = 24
WINDOW_TRIALS: Final = 64
MAX_PREDICTIONS: Final = 600
MIN_LATENCY_S, MAX_LATENCY_S = 1e-12, 1e9
MAX_SCORE: Final = 1e12


@dataclass(frozen=True)
class _ReadTrial:
    trial: TracedTrial
    trace: DecidedTrace


def space_view(samples: SampleRepository, tenant: str, exploration_id: str) -> SpaceView:
    """What the trials of an exploration say about its space; an empty view without trials."""
    reader = TraceReader()
    stored = samples.evenly(tenant, exploration_id, SAMPLE)
    sample = _read(reader, stored)
    fastest = _filled(_read(reader, samples.fastest(tenant, exploration_id, FASTEST)), sample)
    numbers = _sketch_numbers(sample, fastest)
    windows = samples.windows(tenant, exploration_id, WINDOWS, WINDOW_TRIALS)
    return SpaceView(
        exploration_id=exploration_id,
        sampled=len(stored),
        unreadable=len(stored) - len(sample),
        sketch_importance=_sketch_importance(sample),
        sketches=_sketches(sample, fastest, numbers),
        fastest=tuple(
            FastTrial(
                number=each.trial.number,
                latency_s=each.trial.latency_s,
                is_bound=each.trial.is_bound,
                sketch=numbers[each.trace.sketch_text],
                decisions=each.trace.decisions,
            )
            for each in fastest
        ),
        windows=_rank_windows(windows),
        predictions=_predictions(windows),
    )


def exploration_of_task(job: Job, position: int, explorations: Sequence[Exploration]) -> Exploration:
    """The exploration of a task of a job, among those that it has opened.

    Raises:
        NotFound: the job has no such task, or no tuner has begun with it.
    """
    by_task = {(each.key.workload_id, each.key.target_id): each for each in explorations}
    for task in job.spec.tasks[position : position + 1]:
        if (task.workload_id, task.target_id) in by_task:
            return by_task[task.workload_id, task.target_id]
    raise NotFound("task with trials at position", str(position))


def _is_time(latency_s: float) -> bool:
    """Whether a stored latency can be drawn: a damaged row must not break the page of all others."""
    return MIN_LATENCY_S <= latency_s <= MAX_LATENCY_S


def _read(reader: TraceReader, trials: Sequence[TracedTrial]) -> list[_ReadTrial]:
    read = ((trial, reader.read(trial.trace)) for trial in trials if _is_time(trial.latency_s))
    return [_ReadTrial(trial, trace) for trial, trace in read if trace is not None]


def _filled(timed: list[_ReadTrial], sample: Sequence[_ReadTrial]) -> list[_ReadTrial]:
    """The fastest trials: timed ones, and as many stopped ones as are missing."""
    stopped = [each for each in sample if each.trial.is_bound]
    return [*timed, *sorted(stopped, key=lambda each: (each.trial.latency_s, each.trial.number))][:FASTEST]


def _sketch_numbers(sample: Sequence[_ReadTrial], fastest: Sequence[_ReadTrial]) -> dict[str, int]:
    """Numbers sketches by how often they were tried."""
    counts = Counter(each.trace.sketch_text for each in sample)
    counts.update({each.trace.sketch_text: 0 for each in fastest})
    return {text: number for number, (text, _) in enumerate(counts.most_common())}


def _sketch_importance(sample: Sequence[_ReadTrial]) -> Importance | None:
    if len({each.trace.sketch_text for each in sample}) < 2:
        return None
    return importance([(each.trace.sketch_text,) for each in sample], _logarithms(sample))


def _sketches(
    sample: Sequence[_ReadTrial], fastest: Sequence[_ReadTrial], numbers: dict[str, int]
) -> tuple[SketchView, ...]:
    members: defaultdict[str, list[_ReadTrial]] = defaultdict(list)
    for each in sample:
        members[each.trace.sketch_text].append(each)
    timed: defaultdict[str, list[_ReadTrial]] = defaultdict(list)
    for each in (*sample, *fastest):
        if not each.trial.is_bound:
            timed[each.trace.sketch_text].append(each)
    return tuple(
        SketchView(
            number=number,
            trials=len(members[text]),
            best_latency_s=min((each.trial.latency_s for each in timed[text]), default=None),
            decisions=_decisions(members[text], (members[text] or timed[text])[0].trace.sketch),
        )
        for text, number in numbers.items()
    )


def _decisions(trials: Sequence[_ReadTrial], places: Sequence[DecisionPlace]) -> tuple[SpaceDecision, ...]:
    logarithms = _logarithms(trials)
    return tuple(
        SpaceDecision(
            instruction=place.instruction,
            kind=place.kind,
            subject=place.subject,
            parts=_parts(place),
            choices=place.choices,
            importance=importance([each.trace.decisions[position] for each in trials], logarithms),
        )
        for position, place in enumerate(places)
    )


def _parts(place: DecisionPlace) -> tuple[str, ...]:
    if place.kind == "tile":
        return tuple(f"factor {level + 1}" for level in range(place.width))
    return ("value",) if place.kind == "choice" else ("loop",)


def _logarithms(trials: Sequence[_ReadTrial]) -> list[float]:
    return [math.log(each.trial.latency_s) for each in trials]


def _rank_windows(windows: Sequence[Sequence[PredictedTrial]]) -> tuple[RankWindow, ...]:
    found = (rank_window(window) for window in windows)
    return tuple(window for window in found if window is not None)


def _predictions(windows: Sequence[Sequence[PredictedTrial]]) -> tuple[JudgedPrediction, ...]:
    timed = [
        JudgedPrediction(
            number=trial.number,
            predicted_score=trial.predicted_score,
            latency_s=trial.latency_s,
            is_bound=trial.is_bound,
        )
        for window in windows
        for trial in window
        if trial.latency_s is not None and _is_time(trial.latency_s) and abs(trial.predicted_score) <= MAX_SCORE
    ]
    return tuple(timed[:: len(timed) // MAX_PREDICTIONS + 1])
