"""Runs the commands of docs/edge-quickstart.md in order with a new service."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.house.source_files import ROOT
from tests.service.conftest import Service, environment_of
from tests.service.test_http_guide import ADDRESS, BLOCK, typed

PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
QUICKER = {"--trials 64": "--trials 4"}
DOCUMENT = ROOT / "docs" / "edge-quickstart.md"


@pytest.mark.faults
def test_five_commands_lead_from_a_record_to_a_device_that_runs_it(tmp_path: Path) -> None:
    text = DOCUMENT.read_text()
    (program,) = PYTHON.findall(text)
    (tmp_path / "network.py").write_text(program)
    home = tmp_path / ".tunefarm"
    home.mkdir()
    environment = environment_of(home, HOME=str(tmp_path), PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    tuning, *five = [quicker(block) for block in BLOCK.findall(text)]
    assert len(five) == 5
    assert all(len(command.strip().splitlines()) == 1 for command in five)
    require_success(typed(tuning, tmp_path, environment))
    service = Service(home, environment)
    service.start()
    try:
        with service.client() as client:
            address = str(client.base_url).rstrip("/")
            for command in five:
                require_success(typed(command.replace(ADDRESS, address), tmp_path, environment))
            (seen,) = client.get("/v1/fleet/devices").raise_for_status().json()["items"]
            assert (seen["running"], seen["failure"]) == ("network-1", None)
    finally:
        service.end()
    manifest = json.loads((tmp_path / "bundle" / "manifest.json").read_text())
    assert "record" in {function["kind"] for function in manifest["functions"]}
    status = typed("tunefarm-agent --root device status", tmp_path, environment)
    assert json.loads(status.stdout)["running"] == "network-1"
    require_numbers(tmp_path, environment)


def quicker(command: str) -> str:
    for shown, typed_instead in QUICKER.items():
        command = command.replace(shown, typed_instead)
    return command


def require_success(done: "subprocess.CompletedProcess[str]") -> None:
    assert done.returncode == 0, (done.args[-1], done.stdout[-4000:], done.stderr[-4000:])


def require_numbers(folder: Path, environment: dict[str, str]) -> None:
    """The device computes what NumPy computes."""
    image = np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype("float32")
    (folder / "image.bin").write_bytes(image.tobytes())
    require_success(typed("tunefarm-agent --root device run image.bin --output scores.bin", folder, environment))
    filters = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype("float32")
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    expected = np.maximum(np.einsum("ncyxij,ocij->noyx", windows, filters), 0).mean(axis=(2, 3))
    found = np.frombuffer((folder / "scores.bin").read_bytes(), "float32").reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
