"""What is fuzzed: a way to make a case, and an oracle over the real part that takes it."""

import random
from typing import Protocol


class Target(Protocol):
    """One door. A case is text, so that a finding can be kept as a file and looked at."""

    def make(self, chance: random.Random) -> str:
        """A case. The same state of ``chance`` makes the same one."""

    def check(self, case: str) -> str | None:
        """Give the case to the real part. What went wrong, in one sentence; None when all is well."""

    def close(self) -> None:
        """End the processes that this target started."""
