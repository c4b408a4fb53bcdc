"""Dot products of 8-bit integers on processors other than this host's: the right instruction and the right sums."""

from pathlib import Path

import numpy as np
import pytest

from tests.search.relax.integer.quantized_networks import QuantizedLayer
from tests.targets.test_other_machines import AARCH64, arguments_of, computed_here, target_of
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import tvm_target
from tunefarm_search.untried.untried_schedule import untried_schedule
from tunefarm_workers.builder.scheduled_module import build_scheduled

pytestmark = pytest.mark.targets
LAYERS = {
    "convolution": QuantizedLayer(2, (16, 32), size=12, kernel=3, padding=(1, 1), channels_last=True, zero_point=9),
    "matmul": QuantizedLayer(0, (21, 40), zero_point=-4, weight="uint8", weight_zero_point=3, output=None),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("preset", ["raspberry-pi-5", "graviton2", "graviton4"])
def test_sdot_computes_the_sums_of_a_quantized_layer(preset: str, name: str, tmp_path: Path) -> None:
    target = target_of(preset)
    (task,) = model_tasks(prepare(LAYERS[name].module(), {}, target))
    module = load_json(task.workload.module_json)
    untried = untried_schedule(module, target)
    assert untried.way == "dot products"
    space = search_space(module, target, "stable", Space())
    scheduler, (sketch,) = Scheduler(space), space.sketches
    sampled = [scheduler.apply(Point(0, tuple(row.tolist()))) for row in sketch.sample(np.random.default_rng(1), 3)]
    scheduled = [untried.module, *(scheduler.module_of(each.trace) for each in sampled if isinstance(each, Scheduled))]
    assert len(scheduled) > 1
    arguments = arguments_of(module)
    expected = computed_here(module, arguments)
    for number, each in enumerate(scheduled):
        library = build_scheduled(each, tvm_target(target))
        assert "sdot" in library.inspect_source("asm")
        kernel, program = tmp_path / f"{number}.o", tmp_path / f"program{number}"
        library.write_to_file(str(kernel), "o")
        AARCH64.link([kernel], program)
        np.testing.assert_allclose(AARCH64.call(program, arguments)[-1], expected, rtol=1e-5, atol=1e-5)
