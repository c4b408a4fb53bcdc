"""The fast fill stores exactly what storing the records one by one would."""

from pathlib import Path

import pytest

from benchmarks.store.record_fill import RecordFill
from benchmarks.store.store_scale import StoreScale, main
from benchmarks.store.synthetic_records import CHUNK_RECORDS, TENANT, SyntheticRecords
from tunefarm_schemas.tuning.record import MatchKind, RecordStatus
from tunefarm_services.store import Store

RECORDS = 500


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/scale.db"


def test_fill_stores_fastest_verified_record_of_each_key(url: str, tmp_path: Path):
    store = Store.open(url, tmp_path / "blobs")
    made = SyntheticRecords(RECORDS, seed=0)
    fill = RecordFill(url, made)
    fill.run(lambda _chunks: None)
    records = store.records.page(TENANT, limit=RECORDS + 1)
    fastest: dict[object, float] = {}
    for record in records:
        if record.status is RecordStatus.VERIFIED:
            fastest[record.key] = min(record.latency_s, fastest.get(record.key, record.latency_s))
    assert len(records) == RECORDS
    for key in made.queries(50):
        told = [m.record.latency_s for m in store.best_records.matches(TENANT, key) if m.match is MatchKind.EXACT]
        assert told == ([fastest[key]] if key in fastest else [])
    fill.close()
    store.close()


def test_synthetic_traces_are_as_long_as_real_ones():
    lengths = [len(str(row[8])) for row in SyntheticRecords(RECORDS, seed=0).chunk(0)]
    assert min(lengths) > 1_500
    assert max(lengths) < 8_000


def test_stopped_fill_can_be_resumed(url: str, tmp_path: Path):
    Store.open(url, tmp_path / "blobs").close()
    made = SyntheticRecords(RECORDS, seed=0)
    first = RecordFill(url, made)
    first.run(lambda _chunks: None)
    first.close()
    again = RecordFill(url, SyntheticRecords(RECORDS, seed=0))
    assert again.run(lambda _chunks: pytest.fail("filled twice")) == made.chunks == 1
    again.close()
    assert RECORDS < CHUNK_RECORDS


def test_store_scale_command_prints_quantiles_and_sizes(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    result = tmp_path / "result.json"
    assert main(["--database", url, "--records", str(RECORDS), "--queries", "20", "--json", str(result)]) == 0
    told = StoreScale.model_validate_json(result.read_text())
    assert 0 < told.p50_ms <= told.p99_ms <= told.p99_9_ms <= told.longest_ms
    assert told.size_bytes["file"] > RECORDS * 1_500
    assert "| sqlite | 500 |" in capsys.readouterr().out
