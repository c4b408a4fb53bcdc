"""Adaptive time limits, from the times of the untuned function and of the task's builds and kernels so far."""

from collections import deque
from statistics import median

_REMEMBERED = 64
_KNOWN_ENOUGH = 4
_FIRST_BUILD_S = 4.0
_MIN_BUILD_S = 1.0
"""On a busy host a build of 0.1 s used more than 0.6 s of processor time: its cache lines and pages were evicted."""
_BUILD_FACTOR = 6.0
_UNTUNED_BUILD_FACTOR = 25.0
"""Useful schedules have several times the code of the unscheduled function."""
_WALL_FACTOR = 5.0
_FIRST_RUN_S = 20.0
_MIN_RUN_S = 1.0
_MIN_FIRST_RUN_S = 4.0
"""Without an incumbent a slow kernel is timed in full as well."""
_MIN_COLD_RUN_S = 4.0
"""Flushing the caches before every call takes longer than most kernels."""
_RUN_FACTOR = 60.0
_STAGES = 3
"""A candidate's kernel runs in three stages: warm-up, timing, and checks on further inputs."""
_INPUT_FACTOR = 5.0
"""Generating inputs of tens of MB takes longer than the kernel, and longer still beside builds."""


class Deadlines:
    """Deadlines of one task, in seconds.

    - Before anything is known: ``first_build_s`` and ``first_run_s``, which stay the upper bounds.
    - Builds: a multiple of the median build, or of the untuned function's build if that is longer, and at least
      ``min_build_s``. They are limited in processor time, which others' load does not change.
    - Runs: a multiple of the incumbent's latency, or of the untuned function's while there is no incumbent. Waiting
      for a core, or for pages from a disk, does not count.
    - By the clock, five times as much: a child that only waits ends as well.
    """

    def __init__(
        self,
        *,
        first_build_s: float = _FIRST_BUILD_S,
        min_build_s: float = _MIN_BUILD_S,
        first_run_s: float = _FIRST_RUN_S,
        cold_cache: bool = False,
        measures_here: bool = True,
    ) -> None:
        """``measures_here`` is false where the device is not this host: the untuned function's times are ignored."""
        self._measures_here = measures_here
        self._first_build_s = first_build_s
        self._min_build_s = min_build_s
        self._min_run_s = _MIN_COLD_RUN_S if cold_cache else _MIN_RUN_S
        self._first_run_s = max(first_run_s, self._min_run_s)
        self._builds_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._input_set_s = 0.0
        self._untuned_build_s = self._untuned_s = 0.0

    def record_untuned(self, build_cpu_s: float, latency_s: float) -> None:
        """Record the untuned function's processor time to build, and its approximate latency."""
        if self._measures_here:
            self._untuned_build_s, self._untuned_s = build_cpu_s, latency_s

    def record_inputs(self, input_set_s: float) -> None:
        """Record how long one set of inputs takes to generate."""
        self._input_set_s = input_set_s

    def record_build(self, cpu_s: float) -> None:
        """Record the processor time of one build."""
        self._builds_s.append(cpu_s)

    @property
    def build_cpu_s(self) -> float:
        """Processor time that a build may use. Being held still or waiting for a core does not count."""
        if not self._untuned_build_s and len(self._builds_s) < _KNOWN_ENOUGH:
            return self._first_build_s
        own_s = _BUILD_FACTOR * median(self._builds_s) if len(self._builds_s) >= _KNOWN_ENOUGH else 0.0
        return min(self._first_build_s, max(self._min_build_s, _UNTUNED_BUILD_FACTOR * self._untuned_build_s, own_s))

    def lifetime_cpu_s(self, threads: int, input_sets: int) -> float:
        """RLIMIT_CPU of a candidate, which ends it even if its supervisor died.

        It exceeds what the stages' deadlines allow to ``threads`` threads that are never idle.
        """
        stages_s = _STAGES * self.run_wall_s(None, input_sets)
        return _WALL_FACTOR * max(self._first_build_s, 1.0) + threads * stages_s

    @property
    def build_wall_s(self) -> float:
        """Elapsed time, without being held still, after which a build that hangs without computing is ended."""
        return _WALL_FACTOR * max(self.build_cpu_s, 1.0)

    def run_wall_s(self, incumbent_s: float | None, input_sets: int) -> float:
        """Elapsed time after which a run is ended even if it waited for a core."""
        return _WALL_FACTOR * self.run_s(incumbent_s, input_sets)

    def run_s(self, incumbent_s: float | None, input_sets: int = 0) -> float:
        """Elapsed time for all calls of one kernel and for generating ``input_sets`` sets of inputs."""
        feeding_s = _INPUT_FACTOR * input_sets * self._input_set_s
        if incumbent_s is not None:
            return min(self._first_run_s, max(self._min_run_s, _RUN_FACTOR * incumbent_s)) + feeding_s
        if not self._untuned_s:
            return self._first_run_s + feeding_s
        min_s = max(self._min_run_s, _MIN_FIRST_RUN_S)
        return min(self._first_run_s, max(min_s, _RUN_FACTOR * self._untuned_s)) + feeding_s
