"""What the environment says about this process. Read once, then passed down."""

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Where tunefarm keeps its things. Each field is the environment variable of its name with ``TUNEFARM_`` before.

    Printing shows no secret: both URLs may carry a password.
    """

    model_config = SettingsConfigDict(env_prefix="TUNEFARM_", frozen=True, extra="ignore")

    home: Path = Field(default_factory=lambda: Path.home() / ".tunefarm")
    database_url: SecretStr | None = None
    """SQLAlchemy URL of SQLite or PostgreSQL; a SQLite file under ``home`` when absent."""
    blob_url: SecretStr | None = None
    """URL of an object store, such as ``s3://bucket/prefix``; a folder under ``home`` when absent."""
    busy_timeout_s: float = Field(default=10.0, gt=0)
    """How long to wait for another process's write before giving up."""
    callees: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Functions outside of their modules that a tenant's may call, by tenant; other tenants' may call none. They have
    to be in the processes that measure, and run there, confined like all that is measured. ``local`` is the tenant of
    what this machine tunes by itself. A worker has a list of its own, ``TUNEFARM_WORKER_CALLEES``."""
    require_confinement: bool = False
    """Measure on this host only where its kernel confines candidates fully. Workers ask for that by themselves."""

    def database(self) -> str:
        """The database's URL, with its password."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.home.expanduser().absolute() / 'tunefarm.db'}"

    def blobs(self) -> Path | str:
        """The folder or the URL of the blob store, with its password."""
        if self.blob_url is not None:
            return self.blob_url.get_secret_value()
        return self.home.expanduser().absolute() / "blobs"
