"""Settings of logs, metrics and traces from the environment."""

from typing import Literal

from pydantic_settings import BaseSettings, SettingsConfigDict


class TelemetrySettings(BaseSettings):
    """Each field is an environment variable with the prefix ``TUNEFARM_``."""

    model_config = SettingsConfigDict(env_prefix="TUNEFARM_", frozen=True, extra="ignore", env_ignore_empty=True)

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "text"] = "json"
    traces_endpoint: str | None = None
    """An OTLP collector's address, such as ``http://collector:4318``. No traces are exported if absent."""
    metrics_listen: str | None = None
    """HOST:PORT where a tuner or a worker serves ``/metrics`` and ``/healthz``. Nothing listens if absent."""
