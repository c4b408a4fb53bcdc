"""What the trials of an exploration say about its space and its cost model."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

DecisionKind = Literal["tile", "choice", "location"]


class _SpaceValue(BaseModel):
    model_config = ConfigDict(frozen=True)


class Importance(_SpaceValue):
    """How much of the variance of the logarithm of the latency something explains, from 0 to 1.

    It is the adjusted coefficient of determination of a least-squares fit whose terms are the values that occur. Its
    expectation without a relation is 0, however many values there are. Importances need not add up to 1: a search tries
    candidates whose decisions depend on each other.

    Attributes:
        share: 0 or less if nothing is explained.
        low: lower end of an approximate 95 % interval (Olkin and Finn 1995), which holds for independent trials.
        high: its upper end.
        terms: number of fitted terms.
        trials: number of trials.
    """

    share: float
    low: float
    high: float
    terms: int
    trials: int


class SpaceDecision(_SpaceValue):
    """A sampling decision of a sketch.

    Attributes:
        instruction: its number in the trace.
        kind: ``tile`` splits a loop into factors, ``choice`` takes one of some values, ``location`` moves a block.
        subject: the loop, annotation or block that it is about.
        parts: names of its numbers: one for each factor of a tile, otherwise one.
        choices: of a choice, the values to choose from; its decision is a position among them.
        importance: None with too few trials.
    """

    instruction: int
    kind: DecisionKind
    subject: str
    parts: tuple[str, ...]
    choices: tuple[float, ...]
    importance: Importance | None

    def text(self, numbers: Sequence[int]) -> str:
        """A decision as a schedule states it: a choice by its value, a tile by its factors."""
        if self.kind == "choice" and numbers and 0 <= numbers[0] < len(self.choices):
            return f"{self.choices[numbers[0]]:g}"
        return " x ".join(str(number) for number in numbers)


class SketchView(_SpaceValue):
    """A sketch of which there are trials, the most tried first.

    Attributes:
        number: its position in the list.
        trials: number of its trials in the sample.
        best_latency_s: of its trials among the sample and the fastest; None if none was timed to the end.
        decisions: in the order of the trace.
    """

    number: int
    trials: int
    best_latency_s: float | None
    decisions: tuple[SpaceDecision, ...]


class FastTrial(_SpaceValue):
    """One of the fastest trials. ``decisions`` has the numbers of each decision of its sketch.

    ``is_bound``: timing stopped early, so it takes at least ``latency_s``.
    """

    number: int
    latency_s: float
    is_bound: bool
    sketch: int
    decisions: tuple[tuple[int, ...], ...]


class RankWindow(_SpaceValue):
    """How well predictions ranked consecutive trials, each predicted before it was measured.

    Compares every two trials of the window. A failure is slower than all others, and a stopped trial counts with the
    time at which it was stopped. Not compared are equal predictions, two failures, and latencies within 2 % of each
    other, or within 10 % if one trial was stopped.

    Attributes:
        first: number of the first trial.
        last: number of the last trial.
        trials: number of trials with a prediction and a result.
        pairs: number of compared pairs.
        share: share of pairs that were ranked correctly; 0.5 is chance.
        low: lower end of an approximate 95 % interval (jackknife over trials).
        high: its upper end.
    """

    first: int
    last: int
    trials: int
    pairs: int
    share: float
    low: float
    high: float


class JudgedPrediction(_SpaceValue):
    """A trial's predicted score, higher is better, and what was measured.

    ``is_bound``: timing stopped early, so it takes at least ``latency_s``.
    """

    number: int
    predicted_score: float
    latency_s: float
    is_bound: bool


class SpaceView(_SpaceValue):
    """What the trials of an exploration say about its space and its cost model.

    Attributes:
        exploration_id: of the task.
        sampled: number of evenly chosen trials that importance was computed from. A stopped trial counts with the time
            at which it was stopped.
        unreadable: number of sampled trials whose trace has another form than TVM's; they are left out.
        sketch_importance: of the choice of the sketch; None with one sketch or too few trials.
        sketches: those with trials.
        fastest: the fastest trials that were timed to the end; if these are few, followed by the fastest of the sampled
            trials that were stopped.
        windows: how well the model ranked, in the order of the search.
        predictions: of trials in these windows.
    """

    exploration_id: str
    sampled: int
    unreadable: int
    sketch_importance: Importance | None
    sketches: tuple[SketchView, ...]
    fastest: tuple[FastTrial, ...]
    windows: tuple[RankWindow, ...]
    predictions: tuple[JudgedPrediction, ...]
