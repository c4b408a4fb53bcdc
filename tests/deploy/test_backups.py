"""Backups come back where little room is given: containers have a small TUNEFARM_HOME, or none that can be written."""

import json
import os
from pathlib import Path

from pydantic import SecretStr

from tests.servers.command_server import run_command
from tests.store.sample import TENANT, put_job
from tunefarm.backup.store_backup import back_up, restore
from tunefarm.startup.installation import open_store
from tunefarm_services.settings import Settings


def settings_in(folder: Path) -> Settings:
    """A store that has nothing below TUNEFARM_HOME, as that of a farm."""
    return Settings(
        home=folder / "home",
        database_url=SecretStr(f"sqlite:///{folder}/tunefarm.db"),
        blob_url=SecretStr(str(folder / "blobs")),
    )


def test_a_restore_needs_room_beside_its_archive_only_and_leaves_nothing_there(tmp_path):
    ours, elsewhere = settings_in(tmp_path / "ours"), settings_in(tmp_path / "elsewhere")
    store = open_store(ours)
    job = put_job(store, "one")
    store.close()
    archives = tmp_path / "archives"
    archives.mkdir()
    back_up(ours, str(archives / "monday.tar"))
    restore(elsewhere, str(archives / "monday.tar"))
    assert not elsewhere.home.exists()
    assert [path.name for path in archives.iterdir()] == ["monday.tar"]
    store = open_store(elsewhere, create=False)
    assert [each.job_id for each in store.jobs.page(TENANT)] == [job.job_id]
    store.close()


def test_the_drill_counts_what_every_tenant_has(tmp_path):
    def told(*words: str) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEFARM_")}
        environment = {**kept, "TUNEFARM_HOME": str(tmp_path / "home")}
        ended = run_command(*words, environment=environment, folder=tmp_path, timeout_s=120)
        assert ended.code == 0, ended.err
        return ended.out

    for tenant in ("team", "operator"):
        told("token", "create", "first", "--tenant", tenant)
    assert json.loads(told("db", "stats", "--json"))["rows"]["tokens"] == 2
    assert json.loads(told("db", "stats", "--tenant", "team", "--json"))["rows"]["tokens"] == 1
