"""Settings from the environment. Read once, then passed as an argument."""

from pathlib import Path

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Where tunefarm stores its data. Each field is read from the environment variable ``TUNEFARM_`` plus its name.

    The URLs are secrets, because they may contain a password.
    """

    model_config = SettingsConfigDict(env_prefix="TUNEFARM_", frozen=True, extra="ignore")

    home: Path = Field(default_factory=lambda: Path.home() / ".tunefarm")
    database_url: SecretStr | None = None
    """SQLAlchemy URL of SQLite or PostgreSQL; by default a SQLite file under ``home``."""
    blob_url: SecretStr | None = None
    """URL of an object store, such as ``s3://bucket/prefix``; by default a folder under ``home``."""
    busy_timeout_s: float = Field(default=10.0, gt=0, le=3600)
    """How long to wait for another process's write before giving up."""
    require_confinement: bool = False
    """Measure only if the kernel of this host confines candidates fully. Workers always require it."""
    callees: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """External functions that the modules of a tenant may call, by tenant (``local`` without a service). Other tenants
    may call none. The functions must exist in the processes that measure, and run there confined like a candidate."""

    @field_validator("home")
    @classmethod
    def _nameable(cls, home: Path) -> Path:
        """Reject question marks: they would start the options of the database URL, so that another file is opened."""
        if home == Path():
            raise ValueError("the path is empty or the current folder; use a folder only for tunefarm")
        if not str(home).isprintable() or "?" in str(home):
            raise ValueError("the path must not contain control characters or question marks")
        try:
            home.expanduser()
        except RuntimeError as error:
            raise ValueError(f"{home} is not the folder of a user") from error
        return home

    def database(self) -> str:
        """The database's URL, with its password."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.home.expanduser().absolute() / 'tunefarm.db'}"

    def blobs(self) -> Path | str:
        """The folder of the blob store, or its URL with its password."""
        if self.blob_url is not None:
            return self.blob_url.get_secret_value()
        return self.home.expanduser().absolute() / "blobs"
