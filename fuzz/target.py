"""A fuzz target: a generator of cases, and an oracle that runs the real code."""

import random
from typing import Protocol


class FuzzTarget(Protocol):
    """One entry point. A case is text, so that a finding can be stored as a readable file."""

    def make(self, chance: random.Random) -> str:
        """Create a case. The same state of ``chance`` creates the same one."""

    def check(self, case: str) -> str | None:
        """Run the real code on the case. Return the failure in one sentence; None if there is none."""

    def close(self) -> None:
        """End the processes that this target started."""
