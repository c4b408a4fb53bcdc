"""Fast, resumable filling of a store with synthetic records."""

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Final

from sqlalchemy import Connection, create_engine, insert, text

from benchmarks.store.synthetic_records import RECORD_COLUMNS, TENANT, Row, SyntheticRecords
from tunefarm_services.store.database.database import Database
from tunefarm_services.store.tables import BestRecordTable, RecordTable, WorkloadTable

_COLUMNS: Final = ", ".join(RECORD_COLUMNS)
_KEY: Final = "tenant, workload_id, target_id, device_class_id, code_generator, protocol_id, abi"
_PROGRESS: Final = "CREATE TABLE IF NOT EXISTS store_scale_progress (chunks INTEGER NOT NULL)"
_INSERT_RECORDS: Final = f"INSERT INTO tuning_records ({_COLUMNS}) SELECT {_COLUMNS} FROM made_records"
# The result must equal that of storing each record separately.
_BEST: Final = f"""
INSERT INTO best_records ({_KEY}, record_id, latency_s)
SELECT {_KEY}, record_id, latency_s FROM (
    SELECT {_KEY}, record_id, latency_s,
        row_number() OVER (PARTITION BY {_KEY} ORDER BY latency_s, record_id) AS place
    FROM made_records WHERE status = 'verified'
) AS ranked WHERE place = 1
ON CONFLICT ({_KEY}) DO UPDATE SET record_id = excluded.record_id, latency_s = excluded.latency_s
WHERE excluded.latency_s < best_records.latency_s
"""


class RecordFill:
    """Inserts the records of ``made`` into the database at ``url``, whose tables exist."""

    def __init__(self, url: str, made: SyntheticRecords) -> None:
        self._database = Database(url, busy_timeout_s=60.0)
        self._made = made

    def run(self, on_chunk: Callable[[int], None]) -> int:
        """Insert missing records, calling ``on_chunk`` with the number of chunks; return how many existed before."""
        done = first = self._prepare()
        while done < self._made.chunks:
            with self._database.writing() as connection:
                self._database.lift_time_limits(connection)
                self._put(connection, self._made.chunk(done))
                done += 1
                connection.execute(text("UPDATE store_scale_progress SET chunks = :done"), {"done": done})
            on_chunk(done)
        return first

    def update_statistics(self) -> None:
        """Update the database's statistics, as its background processes would."""
        if self._database.path is not None:
            with closing(sqlite3.connect(self._database.path, isolation_level=None)) as file:
                file.execute("ANALYZE")
                file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return
        engine = create_engine(self._database.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("VACUUM (ANALYZE) tuning_records"))
            connection.execute(text("VACUUM (ANALYZE) best_records"))
            connection.execute(text("VACUUM (ANALYZE) workloads"))
        engine.dispose()

    def size_bytes(self) -> dict[str, int]:
        """Disk space of the database: each table with its indices, or the file."""
        if self._database.path is not None:
            return {"file": self._database.path.stat().st_size}
        tables = [table.__tablename__ for table in (RecordTable, BestRecordTable, WorkloadTable)]
        with self._database.reading() as connection:
            size = text("SELECT pg_total_relation_size(CAST(:table AS regclass))")
            return {table: int(connection.execute(size, {"table": table}).scalar_one()) for table in tables}

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def _prepare(self) -> int:
        """Create the workloads and the progress table; return the number of stored chunks."""
        with self._database.writing() as connection:
            self._database.lift_time_limits(connection)
            connection.execute(text(_PROGRESS))
            done = connection.execute(text("SELECT chunks FROM store_scale_progress")).scalar()
            if done is not None:
                return int(done)
            connection.execute(insert(WorkloadTable), list(_workload_rows(self._made)))
            connection.execute(text("INSERT INTO store_scale_progress VALUES (0)"))
            return 0

    def _put(self, connection: Connection, rows: Iterable[Row]) -> None:
        if self._database.is_sqlite:
            # Writes back index pages, which change with every chunk, once for many chunks.
            connection.exec_driver_sql("PRAGMA cache_size = -500000")
            connection.exec_driver_sql("PRAGMA wal_autocheckpoint = 200000")
            connection.execute(
                text(f"CREATE TEMP TABLE made_records AS SELECT {_COLUMNS} FROM tuning_records WHERE false")
            )
            marks = ", ".join("?" * len(RECORD_COLUMNS))
            connection.exec_driver_sql(f"INSERT INTO made_records ({_COLUMNS}) VALUES ({marks})", list(rows))
        else:
            connection.execute(text("SET LOCAL synchronous_commit = off"))
            connection.execute(text("CREATE TEMP TABLE made_records (LIKE tuning_records) ON COMMIT DROP"))
            cursor = connection.connection.cursor()
            with cursor.copy(f"COPY made_records ({_COLUMNS}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            cursor.close()
        connection.execute(text(_INSERT_RECORDS))
        connection.execute(text(_BEST))
        if self._database.is_sqlite:
            connection.execute(text("DROP TABLE made_records"))


def _workload_rows(made: SyntheticRecords) -> Iterable[dict[str, object]]:
    for workload in made.workloads:
        yield {
            "tenant": TENANT,
            "workload_id": workload.workload_id,
            "structural_hash": workload.workload_id[:16],
            "tvm_version": "0.27.0.post1",
            "name": workload.name,
            "family": workload.family,
            "arguments": "[]",
            "floating_point_operations": workload.floating_point_operations,
            "created_at": "2026-01-02T03:04:05.000006+00:00",
        }
