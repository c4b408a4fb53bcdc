"""The seconds of a race."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from tunefarm.model.timing.model_times import TURN_S
from tunefarm_workers.timing.host_turn import own_turn


class RaceClock:
    """Counts the seconds that a race has left, without those in which it waits for other processes that measure."""

    def __init__(
        self,
        race_s: float,
        now_s: Callable[[], float] = time.monotonic,
        turn: Callable[[float], AbstractContextManager[None]] = own_turn,
    ) -> None:
        """Start it. ``turn`` holds the device for about as many seconds as it is given."""
        self.now_s = now_s
        self._turn = turn
        self._ends_s = now_s() + race_s

    def left_s(self) -> float:
        """Seconds that are left; negative after the end."""
        return self._ends_s - self.now_s()

    @contextmanager
    def own_turn(self) -> Iterator[None]:
        """Have the device for the duration of the context; blocks until no other process has it."""
        began_s = self.now_s()
        with self._turn(TURN_S):
            self._ends_s += self.now_s() - began_s
            yield
