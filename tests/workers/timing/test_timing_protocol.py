"""How often a kernel is called depends on what is already known about it."""

from tunefarm_schemas.tuning.measurement import Stopped, Timing
from tunefarm_workers.timing.timing_protocol import take_time


class Kernel:
    """Takes the given seconds, and counts its calls."""

    def __init__(self, latency_s: float, *first_s: float) -> None:
        self.latency_s = latency_s
        self.first_s = list(first_s)
        self.calls = 0
        self.spent_s = 0.0

    def __call__(self, calls: int) -> float:
        seconds = self.first_s.pop(0) if self.first_s else self.latency_s
        self.calls += calls
        self.spent_s += calls * seconds
        return seconds


def test_full_protocol_without_incumbent() -> None:
    kernel = Kernel(1e-3)
    taken = take_time(kernel, None)
    assert isinstance(taken, Timing)
    assert len(taken.samples_s) >= 9
    assert 0.010 < kernel.spent_s < 0.060


def test_clear_loser_is_stopped_once_warm() -> None:
    for latency_s, calls in ((2e-5, 10), (2e-3, 4), (0.2, 2)):
        kernel = Kernel(latency_s)
        assert take_time(kernel, latency_s / 2) == Stopped(at_least_s=latency_s)
        assert kernel.calls == calls


def test_cold_start_does_not_stop_fast_kernel() -> None:
    assert isinstance(take_time(Kernel(34e-6, 311e-6, 84e-6, 77e-6), 36e-6), Timing)
    assert isinstance(take_time(Kernel(59e-6, 2e-3, 2.4e-3, 218e-6), 64e-6), Timing)
    assert isinstance(take_time(Kernel(0.9e-3, 5e-3), 1e-3), Timing)


def test_slightly_slower_kernel_is_stopped_early() -> None:
    kernel = Kernel(20e-6 * 1.2)
    assert isinstance(take_time(kernel, 20e-6), Stopped)
    assert kernel.spent_s < 0.004


def test_possible_winner_is_timed_in_full() -> None:
    taken = take_time(Kernel(20e-6 * 1.02), 20e-6)
    assert isinstance(taken, Timing)
    assert len(taken.samples_s) >= 9


def test_fast_kernel_is_called_often_per_sample() -> None:
    kernel = Kernel(1e-6)
    take_time(kernel, None)
    assert kernel.calls > 9_000


def test_disturbed_samples_are_repeated() -> None:
    disturbed = iter([1e-3] * 2 + [1e-3, 5e-3, 5e-3, 5e-3, 5e-3, 5e-3, 5e-3, 5e-3, 5e-3])
    taken = take_time(lambda calls: next(disturbed, 1e-3), None)
    assert isinstance(taken, Timing)
    assert taken.latency_s == 1e-3


def test_slow_kernel_is_called_rarely() -> None:
    kernel = Kernel(0.5)
    assert isinstance(take_time(kernel, None), Timing)
    assert kernel.calls <= 5
