"""A rejected command leaves no output folder, and either no store or a complete one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tunefarm.startup.installation import open_store
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings
from tunefarm_services.store import StoreUnavailable

Run = Callable[..., Any]

REFUSED = [
    (("tune", "nosuch.py", "--output", "out"), "MODULE"),
    (("tune", "builtin:matmul", "--trials", "0", "--output", "out"), "--trials"),
    (("tune", "builtin:matmul", "--input", "A=uniform:1:0", "--output", "out"), "--input"),
    (("tune", "--resume", "abcd", "--output", "out"), "--resume"),
    (("tune", "--resume", "--output", "out"), "--resume"),
    (("submit", "builtin:matmul", "--output", "out"), "--output"),
    (("artifact", "build", "abcd", "--output", "out"), "RECORD"),
    (("artifact", "run", "out"), "DIR"),
    (("report", "abcd", "--output", "out/report.html"), "JOB"),
    (("report", "--json"), "JOB"),
    (("records", "show", "abcd"), "RECORD"),
    (("records", "retract", "abcd", "--reason", "none"), "RECORD"),
    (("records", "export", "out", "--record", "abcd"), "RECORD"),
    (("records", "import", "out"), "DIR"),
    (("db", "backup", "out/backup.tar"), "FILE"),
    (("db", "restore", "out"), "FILE"),
    (("worker", "start"), "TUNEFARM_BROKER_URL"),
]


@pytest.mark.parametrize(("words", "field"), REFUSED, ids=[" ".join(words[:3]) for words, _ in REFUSED])
@pytest.mark.quick_cases(9)
def test_command_with_invalid_arguments_leaves_no_files(
    tunefarm: Run, tmp_path: Path, words: tuple[str, ...], field: str
) -> None:
    ended = tunefarm(*words)
    assert (ended.code, ended.out) == (2, ""), (ended.out, ended.err)
    assert f"tunefarm: {field}: " in ended.err
    assert list(tmp_path.iterdir()) == []


def test_untunable_program_leaves_complete_store_and_no_results(
    tunefarm: Run, programs: Path, home: Path, tmp_path: Path
) -> None:
    ended = tunefarm("tune", f"{programs / 'matmul.py'}:nosuch", "--output", "out")
    assert ended.code == 2, ended.err
    assert {path.name for path in tmp_path.iterdir()} <= {home.name}
    assert tunefarm("db", "check").code == 0


NAMELESS = [
    (("tune", "builtin:matmul", "--output", ""), "--output"),
    (("submit", "builtin:matmul", "--wait", "--output", " "), "--output"),
    (("artifact", "build", "abcd", "--output", ""), "--output"),
    (("artifact", "run", ""), "DIR"),
    (("report", "--output", ""), "--output"),
    (("records", "export", ""), "DIR"),
    (("records", "import", ""), "DIR"),
    (("db", "backup", ""), "FILE"),
    (("db", "restore", ""), "FILE"),
]


@pytest.mark.parametrize(("words", "field"), NAMELESS, ids=[" ".join(words[:2]) for words, _ in NAMELESS])
@pytest.mark.quick_cases(4)
def test_empty_path_is_rejected_with_its_option(
    tunefarm: Run, tmp_path: Path, words: tuple[str, ...], field: str
) -> None:
    ended = tunefarm(*words)
    assert (ended.code, ended.out) == (2, ""), (ended.out, ended.err)
    assert f"tunefarm: {field}: the f" in ended.err
    assert "has no name" in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"database_url": "nonsense"}, BadInput),
        ({"database_url": "postgresql://127.0.0.1:9/none"}, StoreUnavailable),
        ({"blob_url": "nonsense://none"}, BadInput),
    ],
)
def test_failed_open_leaves_no_partial_store(home: Path, changes: dict[str, str], refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        open_store(Settings.model_validate({"home": home, **changes}))
    assert not home.exists()


def test_failed_open_keeps_existing_home(home: Path) -> None:
    home.mkdir()
    with pytest.raises(BadInput):
        open_store(Settings.model_validate({"home": home, "database_url": "nonsense"}))
    assert home.exists()
