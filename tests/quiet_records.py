"""Clears the foreign load of records, so that a busy host does not decide tests about something else."""

import sqlite3
from contextlib import closing
from pathlib import Path


def as_on_a_quiet_host(home: Path) -> None:
    """Make no record in the store of ``home`` doubtful because of other load on this host."""
    with closing(sqlite3.connect(home / "tunefarm.db")) as database:
        database.execute("UPDATE tuning_records SET foreign_load = 0")
        database.commit()
