"""What the environment says about a tuner."""

from pydantic import Field, SecretStr

from tunefarm_schemas.farm.broker import DEFAULT_PREFIX
from tunefarm_services.settings import Settings


class TunerSettings(Settings):
    """Each field is the environment variable of its name with ``TUNEFARM_`` before. Printing shows no secret."""

    broker_url: SecretStr | None = None
    """Redis, as redis:// or rediss://, through which workers are reached; without it this host measures itself."""
    broker_prefix: str = DEFAULT_PREFIX
    """What the names of all keys in that Redis begin with; the workers' is the same."""
    jobs_at_once: int | None = Field(default=None, ge=1, le=256)
    """How many jobs one tuner works on side by side. None: one where this host measures itself, else eight."""
    poll_s: float = Field(default=0.5, gt=0)
    """How often a tuner with a free place looks for work."""
    outage_s: float = Field(default=300.0, ge=0)
    """How long a database that went away is waited for before a job is given up to whoever leases it next."""
    keep_trials_days: float | None = Field(default=None, ge=0)
    """How long the trials of an exploration that nobody works on are kept; for ever when absent. Records stay."""
    keep_events_days: float | None = Field(default=90.0, ge=0)
    """How long the events of a finished job are kept."""
    keep_uploads_hours: float | None = Field(default=48.0, ge=0)
    keep_lanes_days: float | None = Field(default=14.0, ge=0)
    """How long a lane that is gone is still shown."""
