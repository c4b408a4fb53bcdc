"""The drift of a device's reference kernels as a small drawing that needs no script."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_schemas.views.device import ReferenceSample

WIDTH: Final = 600
HEIGHT: Final = 120
MARGIN: Final = 6
_MIN_TOP: Final = 2.0


class DriftPlot(Frozen):
    """The ratio of one kernel's times to its calibrated time, as points of a drawing.

    Attributes:
        points: ``x,y`` of each sample, separated by spaces.
        calibrated_y: where the ratio is 1.
        top: the ratio at the upper edge; the lower edge is 0.
        latest: the latest ratio.
        worst: the largest ratio.
    """

    name: str
    points: str
    calibrated_y: float
    top: float
    latest: float
    worst: float


def drift_plots(calibrated: ReferenceKernelTimes, samples: Sequence[ReferenceSample]) -> list[DriftPlot]:
    """A plot of each kernel whose drift is judged; none without samples."""
    kernels = (
        ("compute", calibrated.compute_s, [sample.times.compute_s for sample in samples]),
        ("bandwidth", calibrated.bandwidth_s, [sample.times.bandwidth_s for sample in samples]),
        ("launch", calibrated.launch_s, [sample.times.launch_s for sample in samples]),
    )
    moments = [datetime.fromisoformat(sample.at).timestamp() for sample in samples]
    return [_plot(name, [now / then for now in times], moments) for name, then, times in kernels if times and then > 0]


def _plot(name: str, ratios: Sequence[float], moments: Sequence[float]) -> DriftPlot:
    top = max(_MIN_TOP, 1.1 * max(ratios))
    span_s = max(moments[-1] - moments[0], 1.0)
    points = [
        f"{MARGIN + (WIDTH - 2 * MARGIN) * (moment - moments[0]) / span_s:.1f},{_y(ratio, top):.1f}"
        for ratio, moment in zip(ratios, moments, strict=True)
    ]
    return DriftPlot(
        name=name,
        points=" ".join(points),
        calibrated_y=round(_y(1.0, top), 1),
        top=top,
        latest=ratios[-1],
        worst=max(ratios),
    )


def _y(ratio: float, top: float) -> float:
    return MARGIN + (HEIGHT - 2 * MARGIN) * (1 - ratio / top)
