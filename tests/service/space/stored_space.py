"""Trials of a made space, stored by a bench, whose truth is known."""

import math
import random

from tests.store.sample import Bench, failed, timing
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.frozen import canonical_json
from tunefarm_schemas.tuning.measurement import Candidate, Dispatch, Result, Stopped
from tunefarm_schemas.tuning.trace import Trace

TILES = ((32, 1), (16, 2), (8, 4), (4, 8), (2, 16), (1, 32))
CHOICES = (0, 16, 64, 512)


def steps(block: str = "product", postprocessors: int = 1) -> list[object]:
    """Two tiles and a choice; the number of postprocessors differs between traces of one sketch."""
    return [
        ["GetSBlock", [], [block, "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2"]],
        ["SamplePerfectTile", ["l1"], [2, 64], ["v3", "v4"]],
        ["SamplePerfectTile", ["l2"], [2, 64], ["v5", "v6"]],
        ["SampleCategorical", [], [list(CHOICES), [0.25] * 4], ["v7"]],
        ["Annotate", ["b0", "v7"], ["meta_schedule.unroll_explicit"], []],
        ["EnterPostproc", [], [], []],
        *[["Unannotate", ["b0"], ["meta_schedule.parallel"], []]] * postprocessors,
    ]


def trace_text(first: int, second: int, choice: int, **of_steps: object) -> str:
    return canonical_json([steps(**of_steps), [[2, TILES[first]], [3, TILES[second]], [4, choice]]])  # type: ignore[arg-type]


def put_trial(bench: Bench, number: int, trace: str, score: float, result: Result) -> None:
    sent = bench.dispatch(number)
    of_trial = {"trace": Trace(text=trace), "predicted_score": score}
    candidate = Candidate.model_validate(sent.candidate.model_dump() | of_trial)
    dispatch = Dispatch.model_validate(sent.model_dump() | {"candidate": candidate})
    bench.store.trials.put(bench.lease, [candidate], [dispatch])
    bench.commit(dispatch, result)


def put_space(bench: Bench, trials: int, first_number: int = 0) -> None:
    """Trials whose latency follows from the first tile, and a little from the choice; every third was stopped."""
    chance = random.Random(0)
    for number in range(first_number, first_number + trials):
        first, second, choice = chance.randrange(6), chance.randrange(6), chance.randrange(4)
        latency_s = 1e-4 * math.exp(first + 0.3 * choice + chance.gauss(0.0, 0.2))
        text = trace_text(first, second, choice, postprocessors=1 + choice)
        result = (timing(latency_s), Stopped(at_least_s=latency_s), timing(latency_s))[number % 3]
        kept = failed(FailureReason.RUN_TIMEOUT) if number % 20 == 19 else result
        put_trial(bench, number, text, -math.log(latency_s) + chance.gauss(0.0, 0.5), kept)
