"""Figures of the service's benchmarks."""

import json
import random
from pathlib import Path

from benchmarks.load.load_figures import by_route, samples_in
from benchmarks.report.slope import slope_of
from benchmarks.service.installed_size import installed_bytes
from benchmarks.service.process_family import ProcessSample
from benchmarks.service.soak_figures import role_figures

MEGABYTE = 1e6


def noisy(growth_per_s: float, *, seed: int = 0, likeness: float = 0.0) -> tuple[list[float], list[float]]:
    chance, level = random.Random(seed), 0.0
    times_s = [10.0 * number for number in range(360)]
    values = []
    for time_s in times_s:
        level = likeness * level + chance.gauss(0, MEGABYTE)
        values.append(100 * MEGABYTE + growth_per_s * time_s + level)
    return times_s, values


def test_slope_rarely_reports_correlated_noise_as_growth():
    slopes = [slope_of(*noisy(0.0, seed=seed, likeness=0.8)) for seed in range(60)]
    assert sum(not slope.is_within_noise for slope in slopes if slope) <= 5


def test_slope_detects_growth_of_five_megabytes_per_hour():
    slope = slope_of(*noisy(5 * MEGABYTE / 3600))
    assert slope is not None
    assert not slope.is_within_noise
    assert slope.low < 5 * MEGABYTE < slope.high


def test_slope_of_constant_samples_is_zero():
    slope = slope_of([1.0 * n for n in range(50)], [17.0] * 50)
    assert slope is not None
    assert (slope.growth_per_hour, slope.is_within_noise) == (0.0, True)


def test_role_figures_report_restarted_process():
    samples = [ProcessSample(10.0 * n, 1 + n // 30, "tuner", 10**8, 20, 4) for n in range(60)]
    (figures,) = role_figures(samples, interval_s=10.0)
    assert (figures.starts, figures.verdict) == (2, "was restarted")


def test_quantiles_are_by_route_without_warm_up(tmp_path: Path):
    samples = [[number, f"GET {number % 2}", number / 1e3, 200, ""] for number in range(200)]
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    even, odd = by_route(samples_in(path, 100.0))
    assert (even.requests, even.p50_s, even.longest_s) == (50, 0.15, 0.198)
    assert (odd.route, odd.errors) == ("GET 1", 0)


def test_installed_size_of_role_includes_requirements():
    client, laptop = installed_bytes("tunefarm", ()), installed_bytes("tunefarm", ("local",))
    assert {"pydantic", "httpx", "tunefarm-schemas"} <= client.keys()
    assert "apache-tvm" not in client
    assert client.keys() < laptop.keys()
    assert laptop["apache-tvm"] > 50 * MEGABYTE
