"""Runs the commands of docs/http.md in order with a new service."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source_files import ROOT
from tests.service.conftest import Service, environment_of

pytestmark = pytest.mark.skipif(
    shutil.which("curl") is None, reason="the guide's commands are curl's, which is not installed"
)
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:8177"
QUICKER = {'{"trials": 8}': '{"trials": 2}', '"target": "host"': '"target": "host:1"'}
"""Replacements that shorten commands."""


@pytest.mark.faults
def test_http_guide_commands_succeed(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "http.md").read_text()
    home = tmp_path / ".tunefarm"
    home.mkdir()
    environment = environment_of(home, HOME=str(tmp_path), PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    service = Service(home, environment)
    service.start()
    try:
        with service.client() as client:
            assert client.get("/docs", headers={"Authorization": ""}).status_code == 200
            address = str(client.base_url).rstrip("/")
        script = "\n".join(BLOCK.findall(text))
        assert script.count(ADDRESS) == 1
        for shown, typed_instead in {ADDRESS: address, **QUICKER}.items():
            assert shown in script
            script = script.replace(shown, typed_instead)
        done = typed(script, tmp_path, environment)
    finally:
        service.end()
    assert done.returncode == 0, (done.stdout[-6000:], done.stderr[-6000:])
    best = json.loads((tmp_path / "best.json").read_text())["items"]
    assert (best[0]["match"], best[0]["record"]["status"]) == ("exact", "verified")
    assert "event: summary" in done.stdout
    assert re.search(r"tuned/[0-9a-f]{16}\.so: OK", done.stdout)
    assert json.loads((tmp_path / "exported.json").read_text())["exported"] >= 1
    imported = re.search(r'\{"record_ids":(\[.*?\]),"already_there":([0-9]+),"refusals":\[\]', done.stdout)
    assert imported is not None, done.stdout[-6000:]
    assert len(json.loads(imported[1])) + int(imported[2]) >= 1
    assert "Did you mean module?" in done.stdout
    assert "Did you mean page_size?" in done.stdout
    assert re.search("^ratelimit: ", done.stdout, re.MULTILINE | re.IGNORECASE)
    assert (tmp_path / "farm.curl").stat().st_mode & 0o777 == 0o600


def typed(script: str, folder: Path, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """The output of a shell that stops at the first failure. curl fails if the service returns an error."""
    command = ["bash", "-euo", "pipefail", "-c", script]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
