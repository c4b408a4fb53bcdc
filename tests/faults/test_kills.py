"""Any process of a command is killed at any moment: nothing is lost, no process runs on, and the job succeeds."""

import random

import pytest

from tests.acceptance.command import Tunefarm
from tests.faults.killing import Killer
from tests.faults.orphans import adopting_orphans

COMMAND = ("tune", "builtin:matmul:64x64x64", "--trials", "64")
KILLS = 100


@pytest.mark.faults
def test_job_survives_a_hundred_kills(tunefarm: Tunefarm) -> None:
    with adopting_orphans():
        killer = Killer(tunefarm, COMMAND, random.Random(2))
        killer.kill(KILLS)
    assert len(killer.victims) == KILLS
    assert tunefarm("db", "check").code == 0
    # The last victim may be a command whose job had just ended. What it leaves is removed by the next one.
    assert tunefarm(*COMMAND).code == 0
    assert not list((tunefarm.home / "scratch").iterdir())
    best = tunefarm("records", "list", "--status", "verified", "--json").json()
    assert best
