"""Built libraries run without the compiler, and modified ones are rejected."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.command import Tunefarm, assert_refused, python

# A user's program with TVM's runtime only, without the compiler and tunefarm.
ALONE = """
import json, sys
from pathlib import Path
import numpy as np
import tvm
assert "tunefarm" not in sys.modules
assert not hasattr(tvm, "relax") and "tvm.s_tir" not in sys.modules
folder, name = Path(sys.argv[1]), sys.argv[2]
manifest = json.loads((folder / "manifest.json").read_text())
library = tvm.runtime.load_module(str(folder / manifest["library_name"]))
generator = np.random.default_rng(3)
arrays = [generator.standard_normal(argument["shape"]).astype(argument["dtype"]) for argument in manifest["arguments"]]
given = [tvm.runtime.tensor(array) for array in arrays]
if manifest["pack_entry"]:
    packed = [tvm.runtime.empty(argument["shape"], argument["dtype"]) for argument in manifest["packed_arguments"]]
    by_name = {argument["name"]: at for at, argument in enumerate(manifest["arguments"])}
    positions = [by_name[argument["name"]] for argument in manifest["packed_arguments"]]
    library[manifest["pack_entry"]](*(given[at] for at in positions), *packed)
    for at, tensor in zip(positions, packed):
        given[at] = tensor
library[manifest["entry"]](*given)
a, weight = arrays[0], arrays[1]
if name == "convolution":
    height, width = given[-1].shape[1:3]
    expected = sum(
        np.einsum("nhwc,cf->nhwf", a[:, y : y + height, x : x + width], weight[y, x])
        for y in range(3) for x in range(3)
    )
else:
    expected = a @ weight.T
np.testing.assert_allclose(given[-1].numpy(), expected, rtol=1e-3, atol=1e-3)
print(json.dumps({"packed": bool(manifest["pack_entry"])}))
"""


@pytest.mark.faults
@pytest.mark.parametrize(
    ("layer", "abi"),
    [
        pytest.param("convolution", "packed", id="convolution-packed"),
        pytest.param("dense", "packed", id="dense-packed"),
        pytest.param("dense", "stable", id="dense-stable"),
    ],
)
def test_built_library_runs_without_compiler(tunefarm: Tunefarm, programs: Path, layer: str, abi: str) -> None:
    module = f"{programs / 'layers.py'}:{layer}"
    record = tunefarm.tune(module, "--trials", "2", "--target", "host:1", "--abi", abi)["tasks"][0]["record_id"]
    built = tunefarm("artifact", "build", record, "--output", "shipped", "--json").json()
    folder = tunefarm.folder / "shipped"
    assert Path(built["library"]).parent == folder
    assert json.loads((folder / "manifest.json").read_text())["abi"] == abi

    trial = tunefarm("artifact", "run", str(folder), "--json").json()
    assert 0 < trial["latency_s"] < 1

    environment = {**tunefarm.environment, "TVM_USE_RUNTIME_LIB": "1", "TVM_NUM_THREADS": "2"}
    ended = python(ALONE, str(folder), layer, environment=environment)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["packed"] == (abi == "packed")
    if abi == "stable":
        tampered_libraries_are_refused(tunefarm, folder)


def tampered_libraries_are_refused(tunefarm: Tunefarm, folder: Path) -> None:
    manifest_file = folder / "manifest.json"
    manifest: dict[str, Any] = json.loads(manifest_file.read_text())
    library = folder / manifest["library_name"]
    sound = library.read_bytes()

    library.write_bytes(sound[:2000] + bytes([sound[2000] ^ 1]) + sound[2001:])
    assert_refused(tunefarm("artifact", "run", str(folder)), "DIR", "does not match its manifest")
    library.write_bytes(sound[:-1])
    assert_refused(tunefarm("artifact", "run", str(folder)), "DIR", "does not match its manifest")
    library.unlink()
    assert_refused(tunefarm("artifact", "run", str(folder)), "DIR", "does not contain an artifact")
    library.write_bytes(sound)

    manifest_file.write_text(json.dumps({**manifest, "library_digest": "../../../etc/passwd"}))
    assert_refused(tunefarm("artifact", "run", str(folder)), "DIR", "SHA-256")
    manifest_file.write_text(json.dumps({**manifest, "entry": "no_such_function"}))
    assert_refused(tunefarm("artifact", "run", str(folder)), "DIR")
