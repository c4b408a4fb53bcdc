"""Importing the client loads neither a compiler nor a database."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "statement", ["import tunefarm", "import tunefarm.cli.command_line", "import tunefarm.startup.fork_servers"]
)
def test_import_loads_neither_tvm_nor_sqlalchemy(statement: str) -> None:
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


def test_unknown_name_raises_attribute_error() -> None:
    import tunefarm

    with pytest.raises(AttributeError, match="nonsense"):
        tunefarm.nonsense  # noqa: B018
