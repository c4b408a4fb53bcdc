"""Settings come from the environment, and secrets are not printed."""

from pathlib import Path

import pytest

from tunefarm_services.settings import Settings


def test_settings_default_to_tunefarm_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("TUNEFARM_HOME", str(tmp_path))
    settings = Settings()
    assert settings.database() == f"sqlite:///{tmp_path}/tunefarm.db"
    assert settings.blobs() == tmp_path / "blobs"


def test_tunefarm_home_defaults_to_user_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("TUNEFARM_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Settings().home == tmp_path / ".tunefarm"


def test_url_settings_override_home_and_are_not_printed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TUNEFARM_DATABASE_URL", "postgresql://user:secret@host/db")
    monkeypatch.setenv("TUNEFARM_BLOB_URL", "s3://key:secret@bucket/prefix")
    settings = Settings()
    assert settings.database() == "postgresql://user:secret@host/db"
    assert settings.blobs() == "s3://key:secret@bucket/prefix"
    assert "secret" not in f"{settings!r} {settings} {settings.model_dump_json()}"
