"""Any process of a command is killed at any moment: nothing is lost, no process runs on, and the job succeeds."""

import random

import pytest

from tests.acceptance.command import Tunefarm
from tests.faults.killing import Killer
from tests.faults.orphans import adopting_orphans

COMMAND = ("tune", "builtin:matmul:64x64x64", "--trials", "64")
SMALL = ("tune", "builtin:softmax:8x16", "--target", "host:1", "--trials", "16")
FEW, MANY = 2, 100


def killed(tunefarm: Tunefarm, command: tuple[str, ...], times: int, seed: int) -> None:
    with adopting_orphans():
        killer = Killer(tunefarm, command, random.Random(seed))
        killer.kill(times)
    assert len(killer.victims) == times
    assert tunefarm("db", "check").code == 0
    assert not list((tunefarm.home / "scratch").iterdir())
    best = tunefarm("records", "list", "--status", "verified", "--json").json()
    assert best


def test_job_survives_a_few_kills(tunefarm: Tunefarm) -> None:
    killed(tunefarm, SMALL, FEW, seed=1)


@pytest.mark.faults
def test_job_survives_a_hundred_kills(tunefarm: Tunefarm) -> None:
    killed(tunefarm, COMMAND, MANY, seed=2)
