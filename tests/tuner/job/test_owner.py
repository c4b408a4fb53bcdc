"""Whether the owner of a lease still lives."""

import os
import subprocess
import sys

from tunefarm_services.tuner.service.owner import is_gone, owner_name


def test_this_process_is_not_gone() -> None:
    assert not is_gone(owner_name())


def test_two_names_of_one_process_differ() -> None:
    assert owner_name() != owner_name()


def test_a_process_that_ended_is_gone_even_before_its_parent_notices() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    owner = f"{os.uname().nodename}:{process.pid}:00000000"
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(owner)
    process.wait()
    assert is_gone(owner)


def test_nothing_is_sure_of_another_host() -> None:
    assert not is_gone("some-other-host:1:00000000")


def test_a_name_of_another_form_is_left_alone() -> None:
    assert not is_gone("someone")
    assert not is_gone(f"{os.uname().nodename}:one:00000000")
