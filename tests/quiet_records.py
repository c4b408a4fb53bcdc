"""What a busy host says of records must not decide tests that are about something else."""

import sqlite3
from contextlib import closing
from pathlib import Path


def as_on_a_quiet_host(home: Path) -> None:
    """Let no record in the store of ``home`` be in doubt for what else ran on this host."""
    with closing(sqlite3.connect(home / "tunefarm.db")) as database:
        database.execute("UPDATE tuning_records SET foreign_load = 0")
        database.commit()
