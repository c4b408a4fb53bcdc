"""Settings of a tuner from the environment."""

from pydantic import Field, SecretStr

from tunefarm_schemas.farm.broker import DEFAULT_PREFIX
from tunefarm_services.settings import Settings


class TunerSettings(Settings):
    """Each field is an environment variable with the prefix ``TUNEFARM_``. Printing hides secrets."""

    broker_url: SecretStr | None = None
    """URL of the Redis that connects workers, redis:// or rediss://. Without it, this host measures by itself."""
    broker_prefix: str = DEFAULT_PREFIX
    """Prefix of all keys in that Redis; the same as the workers'."""
    jobs_at_once: int | None = Field(default=None, ge=1, le=256)
    """Number of jobs that one tuner runs at once. None: one if this host measures by itself, else eight."""
    poll_s: float = Field(default=0.5, gt=0)
    """Interval at which a tuner with a free place looks for work."""
    outage_s: float = Field(default=300.0, ge=0)
    """How long a job waits for an unavailable database before the tuner releases it."""
    keep_trials_days: float | None = Field(default=None, ge=0)
    """Retention of the trials of explorations without an active job; unlimited if absent. Records are always kept."""
    keep_events_days: float | None = Field(default=90.0, ge=0)
    """Retention of the events of finished jobs."""
    keep_uploads_hours: float | None = Field(default=48.0, ge=0)
    keep_lanes_days: float | None = Field(default=14.0, ge=0)
    """How long a lost lane stays listed."""
    keep_edge_reports_days: float | None = Field(default=30.0, ge=0)
    """Retention of the reports of edge devices. Their sums by device and release stay."""
    keep_releases_days: float | None = Field(default=90.0, ge=0)
    """How long a publication of releases stays after the next one. The current one always stays."""
