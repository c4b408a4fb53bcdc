"""Decides between two plans by interleaved timing."""

from collections.abc import Sequence
from typing import Final, Protocol

from tunefarm.model.race.race_clock import RaceClock
from tunefarm.model.timing.model_times import TURN_S
from tunefarm_schemas.bad_input import BadInput
from tunefarm_workers.timing.ratio_interval import Ratio, ratio_over

MARGIN: Final = 0.01
"""Plans that differ by less are equally fast."""
CLEAR: Final = 0.1
"""A difference that few turns suffice for."""
FEW_TURNS: Final = 3
MIN_TURNS: Final = 5
"""The interval of fewer turns is their range or less, so that they decide by chance."""


class Contender(Protocol):
    """A plan that runs when it is its turn. ``first_s`` are the seconds of a run when it was opened."""

    first_s: float

    def sample_s(self) -> float:
        """Take one turn; seconds of one run. Raises BadInput if it fails."""


def is_decided(ratios: Sequence[float]) -> bool:
    """Whether further turns are not worth their time.

    They are not if the interval of the ratios shows which plan is faster, or that both are equally fast.
    """
    if len(ratios) < FEW_TURNS:
        return False
    found = interval(ratios)
    if len(ratios) < MIN_TURNS:
        return found.high < 1 - CLEAR or found.low > 1 + CLEAR
    is_even = found.low >= 1 - MARGIN and found.high <= 1 + MARGIN
    return is_even or _is_below(found, MARGIN) or (found.low > 1 and found.mean > 1 + MARGIN)


def is_better(ratios: Sequence[float], *, has_fewer_libraries: bool) -> bool:
    """Whether the challenger replaces the best plan.

    It does if it is shown to be faster by more than ``MARGIN``. If neither plan is shown to be faster, the one with
    fewer libraries stays or becomes the best; with equally many, the best plan stays.

    Args:
        ratios: of the challenger's seconds to those of the best plan, for each turn.
        has_fewer_libraries: whether the challenger needs fewer libraries than the best plan.
    """
    if not ratios:
        return False
    found = interval(ratios)
    if _is_below(found, MARGIN if len(ratios) > 1 else CLEAR):
        return True
    return has_fewer_libraries and not (found.low > 1 and found.mean > 1 + MARGIN)


def interval(ratios: Sequence[float]) -> Ratio:
    """The median of the ratios of turns with its interval: load that lasts longer than a turn slows both plans."""
    return ratio_over([[ratios]])


def ratios_by_turns(
    challenger: Contender, best: Contender, clock: RaceClock, share: float
) -> tuple[list[float], BadInput | None]:
    """The challenger's seconds over those of the best plan, for each turn, and why the challenger failed, if it did.

    Turns end when they decide, or when ``share`` of the seconds that the race has left are spent. If not even one turn
    fits into them, the runs at the opening of both plans are compared. The plans are timed while this process has the
    device; every other turn begins with the other plan.
    """
    ratios: list[float] = []
    turn_s, reserve_s = challenger.first_s + best.first_s, (1 - share) * max(clock.left_s(), 0.0)

    def has_another() -> bool:
        return not is_decided(ratios) and clock.left_s() >= turn_s + (reserve_s if ratios else 0.0)

    while has_another():
        with clock.own_turn():
            ends_s = clock.now_s() + TURN_S
            while True:
                began_s = clock.now_s()
                best_s = best.sample_s() if len(ratios) % 2 else None
                try:
                    challenger_s = challenger.sample_s()
                except BadInput as error:
                    return ratios, error
                ratios.append(challenger_s / (best.sample_s() if best_s is None else best_s))
                turn_s = clock.now_s() - began_s
                if not has_another() or clock.now_s() + turn_s > ends_s:
                    break
    return ratios or [challenger.first_s / best.first_s], None


def _is_below(found: Ratio, margin: float) -> bool:
    return found.high < 1 and found.mean < 1 - margin
