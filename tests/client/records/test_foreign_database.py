"""An untrusted database whose schedule calls a function is imported, then its workload is tuned."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.foreign import corpus

Run = Callable[..., Any]


def written(folder: Path, records: list[str]) -> None:
    folder.mkdir()
    (folder / "database_workload.json").write_text(corpus.workload_line(corpus.module_json()) + "\n")
    (folder / "database_tuning_record.json").write_text("\n".join(records) + "\n")


def test_import_rejects_pad_values_that_call_functions(tunefarm: Run, tmp_path: Path) -> None:
    traces = [item.value for item in corpus.traces() if item.name.startswith("pad value: call_extern")]
    written(tmp_path / "attack", [corpus.record_line(trace) for trace in traces])
    ended = tunefarm("records", "import", "attack")
    assert ended.code == 2, ended.err
    assert f"0 records imported as claimed, 0 already known, {len(traces)} lines rejected" in ended.out
    assert "calls call_extern('mkdir'), which is not allowed" in ended.out
    assert json.loads(tunefarm("records", "list", "--json").out) == []
    (tmp_path / "module.json").write_text(corpus.module_json())
    tuned = tunefarm("tune", "module.json", "--trials", "1", "--target", "host:1", "--json")
    assert tuned.code == 0, tuned.err
    listed = json.loads(tunefarm("records", "list", "--json").out)
    assert all("mkdir" not in json.dumps(record) for record in listed)
    assert not Path(corpus.MARKER).exists()


def test_import_counts_all_rejected_lines_and_shows_some(tunefarm: Run, tmp_path: Path) -> None:
    written(tmp_path / "broken", ["no record"] * 2000 + [corpus.record_line(corpus.good_trace())])
    ended = tunefarm("records", "import", "broken")
    assert ended.code == 0, ended.err
    assert "1 records imported as claimed, 0 already known, 2000 lines rejected" in ended.out
    assert "and 1980 more" in ended.out
    assert len(ended.out.splitlines()) < 40
