"""Limits on time that follow from what the untuned function, and builds and kernels of its task, have taken so far."""

from collections import deque
from statistics import median

_REMEMBERED = 64
_KNOWN_ENOUGH = 4
_FIRST_BUILD_S = 4.0
_MIN_BUILD_S = 1.0
"""A busy host once let a build of 0.1 s use more than 0.6 s of the processor: caches and pages were others'."""
_BUILD_FACTOR = 6.0
_UNTUNED_BUILD_FACTOR = 25.0
"""Schedules that are worth anything have some times the code of the function as it is written."""
_WALL_FACTOR = 5.0
_FIRST_RUN_S = 20.0
_MIN_RUN_S = 1.0
_MIN_FIRST_RUN_S = 4.0
"""Before anything is known to be faster than the untuned function, also a slow kernel is timed whole."""
_MIN_COLD_RUN_S = 4.0
"""Caches are flushed before every call, which takes longer than most kernels."""
_RUN_FACTOR = 60.0
_STAGES = 3
"""In which a candidate's kernel runs: for the first time, on a quiet device, and on further inputs."""
_INPUT_FACTOR = 5.0
"""Inputs of tens of MB take longer to make than the kernel takes to run; more so beside builds."""


class Deadlines:
    """Adaptive deadlines of one task, in seconds."""

    def __init__(
        self,
        *,
        first_build_s: float = _FIRST_BUILD_S,
        first_run_s: float = _FIRST_RUN_S,
        cold_cache: bool = False,
        measures_here: bool = True,
    ) -> None:
        """Where it is not measured on this host, what the untuned function takes here says nothing."""
        self._measures_here = measures_here
        self._first_build_s = first_build_s
        self._least_run_s = _MIN_COLD_RUN_S if cold_cache else _MIN_RUN_S
        self._first_run_s = max(first_run_s, self._least_run_s)
        self._builds_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._input_set_s = 0.0
        self._untuned_build_s = self._untuned_s = 0.0

    def untuned(self, build_cpu_s: float, latency_s: float) -> None:
        """Learn what the untuned function took of the processor to build, and about what a call of it takes."""
        if self._measures_here:
            self._untuned_build_s, self._untuned_s = build_cpu_s, latency_s

    def fed(self, input_set_s: float) -> None:
        """Learn how long it takes to make one set of inputs."""
        self._input_set_s = input_set_s

    def built(self, cpu_s: float) -> None:
        """Learn what one build took of the processor."""
        self._builds_s.append(cpu_s)

    @property
    def build_cpu_s(self) -> float:
        """Processor time that a build may take; being held still or waiting for a core costs nothing."""
        if not self._untuned_build_s and len(self._builds_s) < _KNOWN_ENOUGH:
            return self._first_build_s
        own_s = _BUILD_FACTOR * median(self._builds_s) if len(self._builds_s) >= _KNOWN_ENOUGH else 0.0
        return min(self._first_build_s, max(_MIN_BUILD_S, _UNTUNED_BUILD_FACTOR * self._untuned_build_s, own_s))

    def lifetime_cpu_s(self, threads: int, input_sets: int) -> float:
        """Processor time after which the kernel itself ends a candidate, should its supervisor not be there to do so.

        More than every deadline of its stages allows, with ``threads`` threads that are never idle.
        """
        stages_s = _STAGES * self.run_wall_s(None, input_sets)
        return _WALL_FACTOR * max(self._first_build_s, 1.0) + threads * stages_s

    @property
    def build_wall_s(self) -> float:
        """Time by the clock, while it is not held still, after which a build that does not even compute is given up."""
        return _WALL_FACTOR * max(self.build_cpu_s, 1.0)

    def run_wall_s(self, incumbent_s: float | None, input_sets: int) -> float:
        """Time by the clock after which one is given up even if others kept it from running."""
        return _WALL_FACTOR * self.run_s(incumbent_s, input_sets)

    def run_s(self, incumbent_s: float | None, input_sets: int = 0) -> float:
        """Time by the clock for all calls of one kernel, and for making ``input_sets`` sets of inputs for them."""
        feeding_s = _INPUT_FACTOR * input_sets * self._input_set_s
        if incumbent_s is not None:
            return min(self._first_run_s, max(self._least_run_s, _RUN_FACTOR * incumbent_s)) + feeding_s
        if not self._untuned_s:
            return self._first_run_s + feeding_s
        least_s = max(self._least_run_s, _MIN_FIRST_RUN_S)
        return min(self._first_run_s, max(least_s, _RUN_FACTOR * self._untuned_s)) + feeding_s
