import json
import subprocess
import sys

import pytest

REPORT = """
import json, resource, sys
files = resource.getrlimit(resource.RLIMIT_NOFILE)
{load}
import tvm
from tvm import te
from tvm.s_tir import Schedule

assert resource.getrlimit(resource.RLIMIT_NOFILE) == files
data = te.placeholder((4,), name="A")
schedule = Schedule(te.create_prim_func([data, te.compute((4,), lambda i: data[i] + 1.0, name="B")]))
try:
    schedule.get_sblock("C")
except Exception as error:
    said = [type(error).__name__, str(error)]
from tvm.s_tir import meta_schedule
offers = {{name: sorted(vars(module)) for name, module in sys.modules.items() if name.split(".")[0] == "tvm"}}
print(json.dumps([offers, said]))
"""
ORDINARY = "import tvm"
OWN = "from tunefarm_search.tvm.loading import load; load()"


def loaded_names(load: str) -> tuple[dict[str, list[str]], list[str]]:
    loaded_names = subprocess.run(
        [sys.executable, "-c", REPORT.format(load=load)], capture_output=True, text=True, check=True
    )
    offers, said = json.loads(loaded_names.stdout)
    return offers, said


@pytest.mark.faults
def test_loading_matches_ordinary_import() -> None:
    offers, said = loaded_names(OWN)
    assert (offers, said) == loaded_names(ORDINARY)
    assert len(offers) > 500
    assert "Cannot find a block with the name: C" in said[1]
