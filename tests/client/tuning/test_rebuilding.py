"""The same command rebuilds a stored library that has become unusable."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.libraries.hostile import MARKED, linked
from tests.quiet_records import as_on_a_quiet_host
from tests.servers.tuned_home import TUNED, TunedHome
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.kernel_library.check import refusal_of

Run = Callable[..., Any]
TUNE = ("tune", *TUNED, "--json")


def blob_of(home: Path) -> Path:
    """The path of the newest artifact's library."""
    with sqlite3.connect(home / "tunefarm.db") as database:
        (name,) = database.execute("select library_digest from artifacts order by created_at desc limit 1").fetchone()
    database.close()
    return home / "blobs" / "sha256" / name[:2] / name


def flip(home: Path) -> None:
    path = blob_of(home)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def lose(home: Path) -> None:
    blob_of(home).unlink()


def link_as_before(home: Path) -> None:
    """A library of an earlier version, with start files and constructors, and a matching manifest."""
    library = linked(MARKED, tight=False)
    name = digest(library)
    path = home / "blobs" / "sha256" / name[:2] / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(library)
    with sqlite3.connect(home / "tunefarm.db") as database:
        artifact, text = database.execute(
            "select artifact_id, manifest from artifacts order by created_at desc limit 1"
        ).fetchone()
        manifest = {**json.loads(text), "library_digest": name}
        database.execute(
            "update artifacts set library_digest = ?, manifest = ? where artifact_id = ?",
            (name, json.dumps(manifest), artifact),
        )
    database.close()


def assert_fix_is_named(tunefarm: Run, folder: Path) -> None:
    """Building from the newest record fails with a fix."""
    newest, *_ = json.loads(tunefarm("records", "list", "--status", "verified", "--json").out)
    refused = tunefarm("artifact", "build", newest["record_id"], "--output", str(folder))
    assert refused.code == 2, refused
    assert "Run the same tune again" in refused.err
    assert not list(folder.glob("*.so"))


@pytest.mark.faults
def test_tune_rebuilds_unusable_library(tunefarm: Run, tuned: TunedHome, home: Path, tmp_path: Path) -> None:
    tuned.copied_to(home)
    for damage in (flip, lose, link_as_before):
        damage(home)
        if damage is link_as_before:
            assert_fix_is_named(tunefarm, tmp_path / "built")
        again = tunefarm(*TUNE)
        assert again.code == 0, again.err
        assert json.loads(again.out), "a warning goes to standard error, and the result alone to standard output"
        assert "a stored library cannot be used" in again.err
        assert refusal_of(blob_of(home).read_bytes()) is None, damage
    as_on_a_quiet_host(home)
    record = json.loads(again.out)["tasks"][0]["record_id"]
    assert tunefarm("artifact", "build", record, "--output", "built").code == 0
    ran = tunefarm("artifact", "run", "built", "--json")
    assert ran.code == 0, ran.err
    last = tunefarm(*TUNE)
    assert json.loads(last.out)["tasks"][0]["answered_from_store"], last.out
