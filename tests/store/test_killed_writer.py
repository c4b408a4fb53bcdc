"""A writer is killed at random times, and its successors continue."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.store.sample import TENANT, put_job
from tunefarm_schemas.tuning.measurement import Timing, TrialState
from tunefarm_services.store import Store

_KILLS = 5

# Every line on standard output is an acknowledgement: no number printed there may be lost.
_WRITER = """
import sys
from tests.store.sample import Bench, exploration_key, timing
from tunefarm_schemas.tuning.measurement import TrialState
from tunefarm_services.store import Store
store = Store.open(sys.argv[1], sys.argv[2])
lease = store.queue.lease_next("writer", 0.0)
exploration_id = store.explorations.open(lease, exploration_key()).exploration_id
assert store.explorations.hold(lease, exploration_id)
holder = Bench(store, lease, exploration_id)
known = store.trials.of_exploration(exploration_id)
print("ready", flush=True)
open_again = [trial.candidate.number for trial in known if trial.state is TrialState.DISPATCHED]
for number in open_again:
    if holder.commit(holder.send(number, attempt=2), timing(1e-3 * (number + 1))):
        print(number, flush=True)
number = len(known)
while True:
    if holder.commit(holder.send(number), timing(1e-3 * (number + 1))):
        print(number, flush=True)
    number += 1
"""


def killed_after_a_while(url: str, blobs: Path, chance: random.Random) -> list[int]:
    """Kill a writer shortly after a few acknowledgements; return the acknowledged numbers."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    arguments = [sys.executable, "-c", _WRITER, url, str(blobs)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        # Waits for a number of lines and not for a time, because disks differ in speed.
        lines = [writer.stdout.readline() for _ in range(chance.randint(0, 6))]
        time.sleep(chance.uniform(0.0, 0.03))
        writer.kill()
        # The kill may have cut the last line, which then is no acknowledgement.
        return [int(line) for line in (*lines, *writer.stdout) if line.endswith("\n")]


@pytest.mark.faults
def test_killed_writer_loses_and_duplicates_no_acknowledged_trial(url: str, tmp_path: Path):
    chance = random.Random(7)
    store = Store.open(url, tmp_path / "blobs")
    put_job(store)
    acknowledged: list[int] = []
    for _ in range(_KILLS):
        acknowledged += killed_after_a_while(url, tmp_path / "blobs", chance)
    (job,) = store.jobs.unfinished(TENANT)
    (exploration,) = store.explorations.of_workload(TENANT, job.spec.tasks[0].workload_id)
    trials = store.trials.of_exploration(exploration.exploration_id)
    measured = {trial.candidate.number: trial.measurement for trial in trials if trial.measurement is not None}
    assert len(acknowledged) == len(set(acknowledged)) > _KILLS
    assert set(acknowledged) <= set(measured)
    assert [trial.candidate.number for trial in trials] == list(range(len(trials)))
    assert exploration.spent.trials == sum(trial.state is TrialState.DONE for trial in trials)
    for number, measurement in measured.items():
        assert measurement.candidate_number == number
        if isinstance(measurement.result, Timing):
            assert measurement.result.latency_s == 1e-3 * (number + 1)
    assert exploration.best_latency_s == min(
        measurement.result.latency_s for measurement in measured.values() if isinstance(measurement.result, Timing)
    )
    assert store.inspection.check().problems == ()
    store.close()
