"""A plot of a load test."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.load.load_figures import READ_GOAL_S, LoadSample
from benchmarks.report.drawing import load_pyplot

READ_COLOUR, WRITE_COLOUR, GOAL_COLOUR = "#1f6f8b", "#b0522d", "#666666"


def plot_load(samples: Sequence[LoadSample], path: Path) -> None:
    """Plot each request over time and the distribution of latencies, as SVG and PNG."""
    pyplot = load_pyplot()
    figure, (over_time, distribution) = pyplot.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    began_s = min(sample.at_s for sample in samples)
    for label, colour, is_read in (("reads", READ_COLOUR, True), ("submissions", WRITE_COLOUR, False)):
        chosen = [sample for sample in samples if sample.route.startswith("GET") == is_read]
        latencies_ms = [sample.latency_s * 1e3 for sample in chosen]
        times_s = [sample.at_s - began_s for sample in chosen]
        over_time.plot(times_s, latencies_ms, ".", markersize=2, alpha=0.5, color=colour, rasterized=True, label=label)
        shares = [(place + 1) / len(chosen) for place in range(len(chosen))]
        distribution.step(sorted(latencies_ms), shares, color=colour, label=label)
    over_time.axhline(READ_GOAL_S * 1e3, color=GOAL_COLOUR, linewidth=1)
    distribution.axvline(READ_GOAL_S * 1e3, color=GOAL_COLOUR, linewidth=1, label="goal of reads")
    over_time.set(yscale="log", xlabel="time [s]", ylabel="latency [ms]", title="each request")
    distribution.set(xscale="log", xlabel="latency [ms]", ylabel="share of requests", title="share within")
    distribution.legend(loc="lower right")
    for suffix in (".svg", ".png"):
        figure.savefig(path.with_suffix(suffix), dpi=120)
    pyplot.close(figure)
