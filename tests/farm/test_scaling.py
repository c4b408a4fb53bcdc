"""Throughput of several simulated devices with the tuner's code and a real store."""

import pytest

from benchmarks.farm.farm_scaling_point import run_point


@pytest.mark.faults
def test_eight_devices_measure_each_candidate_once():
    point = run_point(8, None, window_s=6.0)
    assert point.dispatched == point.measured > 200
    assert point.is_right(room=3), point
    assert (point.second_attempts, point.lanes_lost) == (0, 0)
    assert point.efficiency > 0.7, point
