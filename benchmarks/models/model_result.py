"""All rivals on one model, and the figures of its row."""

from benchmarks.models.compiling import CompiledInfo
from benchmarks.models.rival_turns import RivalResult
from benchmarks.models.rivals import OTHERS
from tunefarm_schemas.frozen import Frozen
from tunefarm_workers.timing.ratio_interval import Ratio, ratio_over


class ModelResult(Frozen):
    """One model.

    Attributes:
        model: its name.
        threads: of each rival.
        tolerance: of relative errors.
        rivals: in the order of the table; those that were timed have as many samples as there were rounds, or one.
        compiled: what each of ours took to compile, by rival.
    """

    model: str
    threads: int
    tolerance: float
    rivals: tuple[RivalResult, ...]
    compiled: dict[str, CompiledInfo]

    def rival(self, name: str) -> RivalResult | None:
        """The rival, if it ran."""
        return next((each for each in self.rivals if each.rival == name), None)

    def seconds(self, name: str) -> Ratio | None:
        """The median seconds per call with their 95% interval; None without samples. A single call has no interval."""
        rival = self.rival(name)
        return ratio_over([[rival.seconds]]) if rival is not None and rival.seconds else None

    def is_equal(self, name: str) -> bool:
        """Whether its outputs equal torch's within tolerance."""
        rival = self.rival(name)
        return rival is not None and rival.ready is not None and rival.ready.error <= self.tolerance

    def speedup(self, name: str, over: str) -> Ratio | None:
        """How many times faster ``name`` is than ``over``, by paired rounds; None if either was not timed."""
        ours, theirs = self.rival(name), self.rival(over)
        if ours is None or theirs is None or not ours.seconds or not theirs.seconds:
            return None
        rounds = max(len(ours.seconds), len(theirs.seconds))
        pairs = zip(_repeated(theirs, rounds), _repeated(ours, rounds), strict=False)
        return ratio_over([[[their_s / our_s for their_s, our_s in pairs]]])

    def best_other(self) -> str | None:
        """The fastest of those that a user would run instead, with equal outputs."""
        found = {name: seconds.mean for name in OTHERS if self.is_equal(name) and (seconds := self.seconds(name))}
        return min(found, key=lambda name: found[name]) if found else None


def _repeated(rival: RivalResult, rounds: int) -> tuple[float, ...]:
    """Its samples; a single call, which was too slow for rounds, is paired with each sample of the other."""
    return rival.seconds * rounds if len(rival.seconds) == 1 else rival.seconds
