"""Alembic, run on an open connection."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def configuration(connection: Connection) -> Config:
    """Alembic's configuration for the migrations of this package, bound to ``connection``."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parents[1] / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def migrate(connection: Connection, revision: str) -> None:
    """Migrate up or down to ``revision`` within the caller's transaction."""
    config = configuration(connection)
    if revision == "base" or _is_behind(
        config, revision, MigrationContext.configure(connection).get_current_revision()
    ):
        command.downgrade(config, revision)
    else:
        command.upgrade(config, revision)


def _is_behind(config: Config, revision: str, current: str | None) -> bool:
    """Whether ``revision`` comes before the ``current`` one."""
    if current is None or revision in ("head", current):
        return False
    scripts = ScriptDirectory.from_config(config)
    return revision in {script.revision for script in scripts.iterate_revisions(current, "base")}
