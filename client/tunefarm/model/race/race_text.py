"""The plans of a race with libraries, as lines of text."""

from tunefarm.model.race.race_result import RaceResult
from tunefarm_schemas.views.quantities import latency_text


def race_text(race: RaceResult) -> str:
    """A line for each plan with its time, the fastest first, and one for the plan that ships."""
    timed = sorted(race.timed, key=lambda each: each.latency_s or float("inf"))
    lines = [
        f"{'-' if each.latency_s is None else latency_text(each.latency_s):>12}  {each.plan.name}"
        + (f": {each.problem}" if each.problem else "")
        for each in timed
    ]
    return "\n".join([*lines, f"ships: {race.winner.plan.name}, {race.gain:.2f} times as fast as our kernels alone"])
