"""The space of a task as text."""

from collections.abc import Iterator

from tunefarm_schemas.views.jobs.space import Importance, SketchView, SpaceView
from tunefarm_schemas.views.quantities import counted, latency_text
from tunefarm_schemas.visible_text import visible_line

BAR_CHARACTERS = 20


def space_text(view: SpaceView) -> str:
    """Importance of decisions for each sketch, the fastest trial's decisions, and the ranks of the model."""
    return "\n".join(_lines(view))


def _lines(view: SpaceView) -> Iterator[str]:
    if not view.sketches:
        yield "There are no measured trials whose traces can be read."
        return
    yield f"Share of the variance of log latency, over {counted(view.sampled, 'sampled trial')}, with a 95 % interval"
    if view.sketch_importance is not None:
        yield f"  {_bar(view.sketch_importance)}  which sketch"
    for sketch in view.sketches:
        yield from _sketch_lines(view, sketch)
    yield "Pairs that the model ranked correctly before they were measured (50 % is chance)"
    for window in view.windows:
        share = f"{window.share:.0%} ({window.low:.0%} to {window.high:.0%})"
        yield f"  trials {window.first} to {window.last}: {share}, {counted(window.pairs, 'pair')}"
    if not view.windows:
        yield "  no trial had a prediction"


def _sketch_lines(view: SpaceView, sketch: SketchView) -> Iterator[str]:
    best = latency_text(sketch.best_latency_s)
    yield f"Sketch {sketch.number}: {counted(sketch.trials, 'sampled trial')}, fastest {best}"
    fastest = next((each for each in view.fastest if each.sketch == sketch.number), None)
    for position, decision in enumerate(sketch.decisions):
        taken = "" if fastest is None else f" = {decision.text(fastest.decisions[position])}"
        yield f"  {_bar(decision.importance)}  {decision.kind} {visible_line(decision.subject)}{taken}"


def _bar(importance: Importance | None) -> str:
    if importance is None:
        return f"{'too few trials':<{BAR_CHARACTERS + 17}}"
    share = max(importance.share, 0.0)
    filled = "#" * round(share * BAR_CHARACTERS)
    return f"{filled:.<{BAR_CHARACTERS}} {share:4.0%} ({importance.low:3.0%} to {importance.high:4.0%})"
