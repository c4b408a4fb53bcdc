"""What the environment says about this process. Read once, then passed down."""

from pathlib import Path

from pydantic import Field, SecretStr, field_validator
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
    busy_timeout_s: float = Field(default=10.0, gt=0, le=3600)
    """How long to wait for another process's write before giving up."""
    require_confinement: bool = False
    """Measure on this host only where its kernel confines candidates fully. Workers ask for that by themselves."""
    callees: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Functions outside of their modules that a tenant's may call, by tenant (``local`` without a service); no other
    tenant's may call any. They have to be in the processes that measure, and run there, confined like all that is
    measured."""

    @field_validator("home")
    @classmethod
    def _nameable(cls, home: Path) -> Path:
        """A question mark would begin the options of the database's URL, and another file would be opened."""
        if home == Path():
            raise ValueError("the path is empty or the present folder; name a folder that is tunefarm's own")
        if not str(home).isprintable() or "?" in str(home):
            raise ValueError("the path must not contain control characters or question marks")
        try:
            home.expanduser()
        except RuntimeError as error:
            raise ValueError(f"{home} names no user's folder") from error
        return home

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
