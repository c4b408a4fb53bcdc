"""Rows of a store written by an attacker with access to its file; each is used as records and their schedules are."""

import json
import random
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any, Final

from fuzz.confined_targets import FORBIDDEN, ConfinedDoor
from fuzz.mutation import SCALARS, mutated_bytes, mutated_json
from fuzz.seeds import TARGET, seeds
from tunefarm.local.machine import LocalMachine
from tunefarm.records.local_records import LocalRecords
from tunefarm.records.record_place import ModuleQuery
from tunefarm.startup.fork_servers import start_fork_server
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.views.record import CodeForm
from tunefarm_services.settings import Settings
from tunefarm_services.store import StoreError

COLUMNS: Final = (
    *(("tuning_records", "trace"),) * 6,
    *(("targets", "canonical"),) * 3,
    ("workloads", "arguments"),
    *(("tuning_records", name) for name in ("latency_s", "status", "source", "status_reason", "created_at", "abi")),
    *(("workloads", name) for name in ("name", "family", "tvm_version", "structural_hash")),
)
"""Columns that are read back, weighted by how much of them TVM reads."""


class RowTarget:
    """A store with one record of each seed; each case changes one value of a copy."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tunefarm-fuzz-")
        self._good = Path(self._folder.name) / "good"
        self._home = Path(self._folder.name) / "home"
        with LocalMachine(Settings(home=self._good), start_fork_server()) as machine:
            module, trace = Path(self._folder.name) / "module.json", Path(self._folder.name) / "trace.json"
            for seed in seeds():
                module.write_text(seed.module_json, encoding="utf-8")
                trace.write_text(seed.traces[0], encoding="utf-8")
                LocalRecords(machine).publish(ModuleQuery(str(module), None, TARGET, "stable"), str(trace), 1e-5)
        self._values = self._stored()
        self._door = ConfinedDoor()

    def make(self, chance: random.Random) -> str:
        """Create the table, column, row and the new value."""
        table, column = chance.choice(COLUMNS)
        row = chance.randrange(len(self._values[table, column]))
        return json.dumps([table, column, row, _changed(self._values[table, column][row], chance)])

    def check(self, case: str) -> str | None:
        """List the records, show each one's schedule, and export all of them as TVM's database."""
        table, column, row, value = json.loads(case)
        if (table, column) not in COLUMNS:
            raise ValueError(f"{table}.{column} is no column of a case")
        shutil.rmtree(self._home, ignore_errors=True)
        shutil.copytree(self._good, self._home)
        # Both names are among COLUMNS.
        statement = f"UPDATE {table} SET {column} = ? WHERE rowid = (SELECT rowid FROM {table} LIMIT 1 OFFSET ?)"
        database = sqlite3.connect(self._home / "tunefarm.db")
        try:
            database.execute(statement, (value, row))
            database.commit()
        except (sqlite3.IntegrityError, OverflowError, UnicodeEncodeError):
            return None  # such a value cannot stand there
        finally:
            database.close()
        return self._door.judged(self._used)

    def close(self) -> None:
        """End the fork server and remove the stores."""
        self._door.close()
        self._folder.cleanup()

    def _used(self) -> str | None:
        machine = LocalMachine(Settings(home=self._home), self._door.fork_server)
        try:
            place = LocalRecords(machine)
            records = place.listed(None, 100)
            for record in records:
                try:
                    place.code(record, CodeForm.LOWERED)
                    script = place.code(record, CodeForm.SCHEDULED).text
                except BadInput:
                    continue
                if forbidden := FORBIDDEN.search(script):
                    return f"a displayed schedule contains {forbidden.group()}"
            place.export(str(self._home / "database"), [record.record_id for record in records])
        except StoreError:
            return None
        finally:
            machine.store.close()
        return None

    def _stored(self) -> dict[tuple[str, str], list[Any]]:
        database = sqlite3.connect(self._good / "tunefarm.db")
        try:
            return {
                (table, column): [value for (value,) in database.execute(f"SELECT {column} FROM {table}")]
                for table, column in set(COLUMNS)
            }
        finally:
            database.close()


def _changed(value: Any, chance: random.Random) -> Any:
    if isinstance(value, str) and value.startswith(("{", "[")) and chance.random() < 0.8:
        return mutated_json(value, chance)
    if isinstance(value, str) and chance.random() < 0.6:
        return mutated_bytes(value.encode(), chance).decode("utf-8", "replace")
    return chance.choice([each for each in SCALARS if not isinstance(each, int) or abs(each) < 2**63])
