"""Hostile arguments and environments are rejected with a reason in one line."""

import os
import stat
from pathlib import Path

import pytest

from tests.servers.command_server import run_command
from tunefarm.artifact.artifact_folder import read_artifact
from tunefarm.backup.archive import ArchiveReader
from tunefarm.intake.module_source import parse_module_source
from tunefarm.options.job_options import output_folder
from tunefarm.records.tvm_database_folder import read_database
from tunefarm.terminal.user_files import put_file, read_plain_file
from tunefarm_schemas.bad_input import BadInput

NOBODY = 65534


def refused(home: Path, *words: str | bytes, **environment: str) -> str:
    """Standard error of a command that exits with status 2."""
    given = {**os.environ, "TUNEFARM_HOME": str(home), **environment}
    done = run_command(*map(os.fsdecode, words), environment=given, folder=Path.cwd(), timeout_s=300)
    error = done.err
    assert done.code == 2, error
    assert "Traceback" not in error
    assert len(error) < 20_000
    return error


@pytest.mark.parametrize("module", ["/dev/zero", "/dev/stdin", "/proc/self/mem", "."])
def test_module_must_be_regular_file(module):
    with pytest.raises(BadInput, match="module"):
        parse_module_source(module)


def test_pipe_without_writer_is_rejected_by_every_file_option(tmp_path: Path):
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(BadInput):
        parse_module_source(str(pipe))
    with pytest.raises(BadInput):
        ArchiveReader(pipe)
    for name in ("manifest.json", "database_workload.json"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(BadInput):
        read_artifact(str(tmp_path))
    with pytest.raises(BadInput):
        read_database(str(tmp_path))


def test_device_files_are_not_read(tmp_path: Path):
    with pytest.raises(OSError, match="not a regular file"):
        read_plain_file(Path("/dev/zero"))
    (tmp_path / "large").write_bytes(bytes(1001))
    with pytest.raises(OSError, match="larger"):
        read_plain_file(tmp_path / "large", limit_bytes=1000)


@pytest.mark.parametrize(
    "text", ["a\0b", "x" * 300, "deep/" * 2000, "~nosuchuser/x", " ", "/dev/null/x", "/proc/x", "/dev/null"]
)
def test_unwritable_output_folder_is_rejected(text: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="output"):
        output_folder(text)
    assert not list(tmp_path.iterdir())


def test_put_file_is_atomic_and_follows_umask(tmp_path: Path):
    path = tmp_path / "new" / "report.html"
    old = os.umask(0o027)
    try:
        put_file(path, b"one")
        put_file(path, b"two")
    finally:
        os.umask(old)
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]


def test_put_file_follows_only_own_links(tmp_path: Path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"notes")
    link.symlink_to(target)
    put_file(link, b"result")
    assert target.read_bytes() == b"result"
    if os.geteuid() == 0:
        os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
        with pytest.raises(BadInput, match="symbolic link of another user"):
            put_file(link, b"forged")
        assert target.read_bytes() == b"result"


def test_unwritable_result_is_one_error(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "a\0b", Path("/proc/x"), tmp_path / ("x" * 300)):
        with pytest.raises(BadInput, match="cannot be written"):
            put_file(path, b"")


@pytest.mark.parametrize(
    "words",
    [
        ["tune", "x" * 100_000],
        ["tune", "builtin:" + "x" * 100_000],
        ["tune", "builtin:matmul", "--target", "{" * 100_000],
        ["tune", "builtin:matmul", "--input", "A=" + "9" * 100_000],
        ["tune", b"module \xff.json"],
        ["tune", "builtin:matmul", "--output", b"\xff"],
        ["records", "show", "x\ny" * 30_000],
        ["jobs", "show", b"\xc3\x28"],
    ],
)
def test_huge_argument_gives_one_short_error(words, tmp_path: Path):
    (tmp_path / os.fsdecode(b"module \xff.json")).write_text("{}")
    error = refused(tmp_path / "home", *words)
    assert "tunefarm: " in error


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TUNEFARM_HOME", ""),
        ("TUNEFARM_HOME", "~nosuchuser/x"),
        ("TUNEFARM_HOME", "a\nb"),
        ("TUNEFARM_HOME", "store?uri=true"),
        ("TUNEFARM_HOME", "/dev/null"),
        ("TUNEFARM_HOME", "/proc/tunefarm"),
        ("TUNEFARM_HOME", "x" * 300),
        ("TUNEFARM_BUSY_TIMEOUT_S", "inf"),
        ("TUNEFARM_BUSY_TIMEOUT_S", "nan"),
        ("TUNEFARM_BUSY_TIMEOUT_S", "1e300"),
        ("TUNEFARM_DATABASE_URL", "sqlite:////dev/null"),
        ("TUNEFARM_DATABASE_URL", "sqlite:///" + "x" * 300),
        ("TUNEFARM_DATABASE_URL", "\x1b[2J"),
        ("TUNEFARM_BLOB_URL", "nonsense://"),
        ("TUNEFARM_REQUIRE_CONFINEMENT", "perhaps"),
    ],
)
def test_invalid_environment_variable_is_named_in_one_error(name: str, value: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    error = refused(tmp_path / "home", "db", "stats", **{name: value})
    assert "\x1b" not in error
    assert any(word in error for word in (name, "TUNEFARM_HOME", value[-20:] or name))
    assert not {each.name for each in tmp_path.iterdir()} - {"home"}
