"""Latency of best-record queries in a store with millions of records.

    python -m benchmarks.store.store_scale --database postgresql://... --records 10000000

fills the database, which must be empty or partially filled by this command, prints the rate and the time left, and then
queries the best record repeatedly. A stopped fill can be resumed.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from benchmarks.store.record_fill import RecordFill
from benchmarks.store.synthetic_records import CHUNK_RECORDS, TENANT, SyntheticRecords
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.record import RecordKey
from tunefarm_services.store import Store

_WARM_UP_QUERIES = 100


class StoreScale(Frozen):
    """Latencies of sequential queries through the store's port. ``answers`` counts them by kind of match."""

    engine: str
    records: int
    queries: int
    p50_ms: float
    p99_ms: float
    p99_9_ms: float
    longest_ms: float
    answers_per_query: dict[str, float]
    fill_records_per_s: float | None = Field(description="None if nothing had to be filled.")
    size_bytes: dict[str, int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill, query, report."""
    options = _options(arguments)
    made = SyntheticRecords(options.records, options.seed)
    with tempfile.TemporaryDirectory(prefix="tunefarm-scale-") as blobs:
        store = Store.open(options.database, Path(blobs), busy_timeout_s=60.0)
        fill = RecordFill(options.database, made)
        try:
            records_per_s = _fill(fill, made)
            result = _measure(store, made, options.queries, records_per_s, fill.size_bytes())
        finally:
            fill.close()
            store.close()
    print(_table(result))
    if options.json is not None:
        options.json.write_text(result.model_dump_json(indent=2) + "\n", encoding="utf-8")
    else:
        print(json.dumps(result.model_dump()))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", required=True, help="sqlite:////path/file.db or postgresql://...")
    parser.add_argument("--records", type=int, required=True, help="number of records in the store")
    parser.add_argument("--queries", type=int, default=2000, help="number of queries")
    parser.add_argument("--seed", type=int, default=0, help="selects records and queries")
    parser.add_argument("--json", type=Path, default=None, help="file for the result (default: standard output)")
    return parser.parse_args(arguments)


def _fill(fill: RecordFill, made: SyntheticRecords) -> float | None:
    """Insert missing records; return the records per second, or None if there were none."""
    started_s = time.perf_counter()
    chunks_now = 0

    def show(chunks: int) -> None:
        nonlocal chunks_now
        chunks_now += 1
        rate = chunks_now * CHUNK_RECORDS / (time.perf_counter() - started_s)
        left_s = (made.chunks - chunks) * CHUNK_RECORDS / rate
        stored = min(chunks * CHUNK_RECORDS, made.records)
        line = f"\r{stored:,} of {made.records:,} records, {rate:,.0f} records/s, {left_s / 60:.1f} min left   "
        print(line, end="", file=sys.stderr, flush=True)

    fill.run(show)
    if chunks_now == 0:
        return None
    records_per_s = chunks_now * CHUNK_RECORDS / (time.perf_counter() - started_s)
    print(file=sys.stderr)
    fill.update_statistics()
    return records_per_s


def _measure(
    store: Store, made: SyntheticRecords, queries: int, records_per_s: float | None, size_bytes: dict[str, int]
) -> StoreScale:
    keys = made.queries(queries + _WARM_UP_QUERIES)
    _run_queries(store, keys[:_WARM_UP_QUERIES])
    latencies_s, answers = _run_queries(store, keys[_WARM_UP_QUERIES:])
    ordered = sorted(latencies_s)
    return StoreScale(
        engine="sqlite" if "file" in size_bytes else "postgresql",
        records=made.records,
        queries=queries,
        p50_ms=_quantile_ms(ordered, 0.5),
        p99_ms=_quantile_ms(ordered, 0.99),
        p99_9_ms=_quantile_ms(ordered, 0.999),
        longest_ms=ordered[-1] * 1e3,
        answers_per_query={kind: count / queries for kind, count in sorted(answers.items())},
        fill_records_per_s=records_per_s,
        size_bytes=size_bytes,
    )


def _run_queries(store: Store, keys: Sequence[RecordKey]) -> tuple[list[float], Counter[str]]:
    latencies_s: list[float] = []
    answers: Counter[str] = Counter()
    for key in keys:
        started_s = time.perf_counter()
        matches = store.best_records.matches(TENANT, key)
        latencies_s.append(time.perf_counter() - started_s)
        answers.update(match.match.value for match in matches)
    return latencies_s, answers


def _quantile_ms(ordered_s: Sequence[float], share: float) -> float:
    return ordered_s[min(int(share * len(ordered_s)), len(ordered_s) - 1)] * 1e3


def _table(result: StoreScale) -> str:
    size = sum(result.size_bytes.values()) / 2**30
    return "\n".join(
        (
            "| engine | records | GiB | p50 ms | p99 ms | p99.9 ms | longest ms |",
            "|---|---|---|---|---|---|---|",
            f"| {result.engine} | {result.records:,} | {size:.2f} | {result.p50_ms:.2f} | {result.p99_ms:.2f} "
            f"| {result.p99_9_ms:.2f} | {result.longest_ms:.2f} |",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
