"""How a farm's time divides into stages."""

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import Measurement


class FarmStatistics(Frozen):
    """Totals over all attempts, in seconds. Builds run in parallel, so their total may exceed the elapsed time.

    ``still_s`` is the time for which builds and bystanders were held still.
    """

    attempts: int = 0
    start_s: float = 0.0
    build_s: float = 0.0
    wait_s: float = 0.0
    run_s: float = 0.0
    still_s: float = 0.0

    def with_measurement(self, measurement: Measurement, still_s: float) -> "FarmStatistics":
        """The totals including one more attempt."""
        stages = measurement.stages
        return FarmStatistics(
            attempts=self.attempts + 1,
            start_s=self.start_s + stages.start_s,
            build_s=self.build_s + stages.build_s,
            wait_s=self.wait_s + stages.wait_s,
            run_s=self.run_s + stages.run_s,
            still_s=still_s,
        )
