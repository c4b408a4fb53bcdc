"""Backups are restored with little space: containers have a small TUNEFARM_HOME, or a read-only one."""

import json
from pathlib import Path

from pydantic import SecretStr

from tests.servers.command_server import run_command
from tests.servers.processes import environment_without_settings
from tests.store.sample import TENANT, put_job
from tunefarm.backup.store_backup import back_up, restore
from tunefarm.startup.installation import open_store
from tunefarm_services.settings import Settings


def settings_in(folder: Path) -> Settings:
    """Settings of a store that has nothing below TUNEFARM_HOME, as in a farm."""
    return Settings(
        home=folder / "home",
        database_url=SecretStr(f"sqlite:///{folder}/tunefarm.db"),
        blob_url=SecretStr(str(folder / "blobs")),
    )


def test_restore_unpacks_beside_its_archive_and_cleans_up(tmp_path):
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


def test_drill_counts_objects_of_every_tenant(tmp_path):
    def output_of(*words: str) -> str:
        kept = environment_without_settings()
        environment = {**kept, "TUNEFARM_HOME": str(tmp_path / "home")}
        ended = run_command(*words, environment=environment, folder=tmp_path, timeout_s=120)
        assert ended.code == 0, ended.err
        return ended.out

    for tenant in ("team", "operator"):
        output_of("token", "create", "first", "--tenant", tenant)
    assert json.loads(output_of("db", "stats", "--json"))["rows"]["tokens"] == 2
    assert json.loads(output_of("db", "stats", "--tenant", "team", "--json"))["rows"]["tokens"] == 1
