"""Request rates over sliding windows, shared by all processes with the same memory."""

import os

from hypothesis import given
from hypothesis import strategies as st
from limits import parse

from tunefarm_services.api.access.request_rates import SLOTS, RequestRates


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


def test_rate_admits_its_quota_and_then_reports_the_wait():
    clock = Clock()
    rates, limit = RequestRates(clock), parse("3/minute")
    assert [rates.counted(limit, "token", "a") == 0 for _ in range(5)] == [True, True, True, False, False]
    assert rates.counted(limit, "token", "b") == 0
    wait_s = rates.wait_s(limit, "token", "a")
    clock.now_s += wait_s - 0.5
    assert rates.wait_s(limit, "token", "a") > 0
    clock.now_s += 0.6
    assert rates.counted(limit, "token", "a") == 0


@given(st.lists(st.floats(0.0, 20.0), max_size=60), st.integers(1, 5))
def test_window_bounds_both_admission_and_waiting(pauses_s, amount):
    clock = Clock()
    rates, limit = RequestRates(clock), parse(f"{amount} per 10 seconds")
    passed_s = []
    for pause_s in pauses_s:
        clock.now_s += pause_s
        wait_s = rates.counted(limit, "token", "a")
        if wait_s == 0:
            passed_s.append(clock.now_s)
        assert wait_s <= 20.0
    for began_s in passed_s:
        assert sum(began_s <= at_s < began_s + 10.0 for at_s in passed_s) <= 2 * amount


def test_names_are_counted_separately():
    rates, limit = RequestRates(Clock()), parse("1/hour")
    names = [f"name {number}" for number in range(SLOTS // 8)]
    assert all(rates.counted(limit, "token", name) == 0 for name in names)
    assert sum(rates.wait_s(limit, "token", name) == 0 for name in names) <= len(names) // 50


def test_fork_shares_counts_with_its_parent():
    rates, limit = RequestRates(Clock()), parse("2/hour")
    assert rates.counted(limit, "token", "a") == 0
    pid = os.fork()
    if pid == 0:
        os._exit(int(rates.counted(limit, "token", "a") != 0))
    assert os.waitpid(pid, 0)[1] == 0
    assert rates.counted(limit, "token", "a") > 0
