"""Importing the client loads neither a compiler nor a database."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_import_loads_neither_tvm_nor_sqlalchemy() -> None:
    statement = "import tunefarm, tunefarm.cli.command_line, tunefarm.startup.fork_servers"
    heavy = ("tvm", "sqlalchemy", "numpy", "xgboost", "matplotlib", "typer")
    code = f"import sys; {statement}; print([name for name in {heavy} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_command_tree_imports_only_schemas() -> None:
    parts = ("tunefarm_sandbox", "tunefarm_services", "tunefarm_workers", "tunefarm_search", "numpy", "rich.live")
    code = (
        "import sys; from tunefarm.cli.command_line import application; application(); "
        f"print([name for name in {parts} if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_embedded_loads_tvm_on_demand() -> None:
    code = "import sys, tunefarm; tunefarm.embedded.tune; print('tvm' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "False"


def test_worker_starts_without_packages_of_the_server() -> None:
    missing = ("tuf", "securesystemslib", "fastapi", "starlette", "uvicorn", "jinja2", "capstone", "limits")
    code = f"import sys; sys.modules.update(dict.fromkeys({missing})); import tunefarm.server.worker_start"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert imported.returncode == 0, imported.stderr


def test_workers_leave_tvm_to_their_fork_servers() -> None:
    lanes = ("worker.local_lane", "cuda.gpu_lane", "gateway.board_lane", "compile.pool_lane")
    statement = ", ".join(f"tunefarm_workers.{name}" for name in lanes)
    code = f"import sys, {statement}; print([name for name in ('tvm', 'tvm_ffi') if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_client_without_extras_submits_tvm_json(tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text("{}")
    missing = ("numpy", "tvm", "sqlalchemy", "tunefarm_search", "tunefarm_services", "tunefarm_workers")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({missing})); from tunefarm.cli.command_line import main; main()"
    )
    settings = {
        "TUNEFARM_API_URL": "http://127.0.0.1:9",
        "TUNEFARM_API_TOKEN": "unused",
        "TUNEFARM_API_PATIENCE_S": "0.1",
    }
    command = [sys.executable, "-c", code, "submit", "net.json"]
    sent = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert "cannot be reached" in sent.stderr, sent.stderr


def test_unknown_name_raises_attribute_error() -> None:
    import tunefarm

    with pytest.raises(AttributeError, match="nonsense"):
        tunefarm.nonsense  # noqa: B018
