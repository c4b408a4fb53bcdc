"""What follows from a device's reports about a release."""

from dataclasses import dataclass, replace
from typing import Final

from tunefarm_schemas.edge.release import ReleaseVariant
from tunefarm_schemas.edge.report import InstallReport, LatencyReport, SelfTestReport
from tunefarm_services.fleet.gate import Quantiles

NEWEST_SHARE: Final = 0.1
"""Least weight of a report's quantiles, so that a device that has become slow shows soon."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The sum of a device's reports about one release. Claims: they stop rollouts and raise alerts, nothing else."""

    failure: str | None = None
    runs: int = 0
    quantiles: Quantiles | None = None

    def with_report(self, report: InstallReport | LatencyReport | SelfTestReport) -> "Evidence":
        """The sum with one more report."""
        match report:
            case InstallReport():
                return replace(self, failure=report.failure)
            case SelfTestReport():
                # A later success of the installation clears it.
                return self if report.passed else replace(self, failure="self_test_failed")
            case LatencyReport():
                return self._with_latency(report)

    def _with_latency(self, report: LatencyReport) -> "Evidence":
        new = Quantiles(report.p50_s, report.p95_s)
        runs = self.runs + report.runs
        if self.quantiles is None:
            return replace(self, runs=runs, quantiles=new)
        old, share = self.quantiles, max(report.runs / runs, NEWEST_SHARE)
        mixed = Quantiles(
            old.p50_s + share * (new.p50_s - old.p50_s),
            old.p95_s + share * (new.p95_s - old.p95_s),
        )
        return replace(self, runs=runs, quantiles=mixed)


def measured(variant: ReleaseVariant) -> Quantiles | None:
    """The latencies of a variant as measured for its manifest; None if nothing was measured."""
    if variant.latency_p50_s is None or variant.latency_p95_s is None:
        return None
    return Quantiles(variant.latency_p50_s, variant.latency_p95_s)


def drifts(field: Quantiles, reference: Quantiles, tolerance: float) -> bool:
    """Whether a device is slower than its manifest by more than the tolerance of its channel."""
    factor = 1 + tolerance
    return field.p50_s > factor * reference.p50_s or field.p95_s > factor * reference.p95_s
