"""Whether the owner of a lease is dead."""

import os
import subprocess
import sys

from tunefarm_services.tuner.service.owner import is_gone, owner_name


def test_own_process_is_not_gone() -> None:
    assert not is_gone(owner_name())


def test_owner_names_of_one_process_differ() -> None:
    assert owner_name() != owner_name()


def test_zombie_process_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    owner = f"{os.uname().nodename}:{process.pid}:00000000"
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(owner)
    process.wait()
    assert is_gone(owner)


def test_owner_on_other_host_is_not_gone() -> None:
    assert not is_gone("some-other-host:1:00000000")


def test_owner_with_unknown_format_is_not_gone() -> None:
    assert not is_gone("someone")
    assert not is_gone(f"{os.uname().nodename}:one:00000000")
