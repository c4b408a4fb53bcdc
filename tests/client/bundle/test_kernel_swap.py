"""Another schedule of one kernel reaches devices as a patch of at most a tenth of the bundle."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import tvm

from tests.search.relax.models import convolutional_network
from tunefarm.bundle.bundle_build import BundleBuilder
from tunefarm.frontend.model_import import ImportedModel
from tunefarm.model.function_orders import ChosenRecord
from tunefarm.model.messages import PreparedTask
from tunefarm.release.bundle_variant import read_bundle
from tunefarm.startup.fork_servers import start_fork_server
from tunefarm_schemas.edge.release import ReleaseVariant
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.trace import trace_of
from tunefarm_search.tvm.workload import ENTRY

pytestmark = pytest.mark.faults
MOST = 0.1


def one_record(tasks: Sequence[PreparedTask], _target: Target, _generator: str) -> Mapping[str, ChosenRecord]:
    """A record of the first convolution, whose innermost loop it splits."""
    workload = tasks[0].workload
    schedule = tvm.s_tir.Schedule(load_json(workload.module_json))
    block = schedule.get_child_blocks(schedule.get_sblock("root", func_name=ENTRY))[-1]
    schedule.split(schedule.get_loops(block)[-1], [None, 1])
    return {workload.workload_id: ChosenRecord("1" * 32, trace_of(schedule).text)}


def shipped_bytes(variant: ReleaseVariant, held: set[str]) -> int:
    """What a device that holds files of these digests downloads."""
    patches = {each.to_digest: each.patch_bytes for each in variant.deltas if each.from_digest in held}
    files = (*variant.files, variant.manifest)
    return sum(0 if each.digest in held else patches.get(each.digest, each.size_bytes) for each in files)


def test_kernel_swap_is_at_most_a_tenth_of_the_bundle(tmp_path: Path) -> None:
    small = convolutional_network()
    model = ImportedModel(str(tvm.ir.save_json(small.module)), small.weights, "test", ())
    with start_fork_server() as fork_server:
        BundleBuilder(fork_server).build(model, "host:1", "net", "library", tmp_path / "old")
        swapped = BundleBuilder(fork_server, one_record).build(model, "host:1", "net", "library", tmp_path / "new")
    assert [each.kind for each in swapped.manifest.functions].count("record") == 1
    old, new = read_bundle(tmp_path / "old").variant, read_bundle(tmp_path / "new", tmp_path / "old").variant
    held = {each.digest for each in (*old.files, old.manifest)}
    sizes = {each.path: each.size_bytes for each in (*new.files, new.manifest)}
    shipped = shipped_bytes(new, held)
    assert 0 < shipped <= MOST * sum(sizes.values())
    without_weights = sum(sizes.values()) - sizes["weights.bin"]
    assert shipped <= MOST * without_weights, "the weights, which stay, are not what makes it small"
    assert shipped_bytes(new, set()) == sum(sizes.values())
