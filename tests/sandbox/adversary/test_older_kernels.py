"""Children on kernels with an older Landlock: Ubuntu 22.04 has version 1, Debian 12 has 2, Ubuntu 24.04 has 4."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.forking import ENVIRONMENT, LONG_S, fork
from tests.sandbox.older_kernel import LIMIT
from tests.server_of_user import USERS, start_server
from tunefarm_sandbox.confinement.abilities import Abilities
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer

VERSIONS = [1, 2, 3, 4]
ATTACKS = ["read", "write", "unlink", "rename", "link", "truncate", "cut", "chmod", "tcp", "exec", "signal_parent 9"]


def able(version: int) -> Abilities:
    return Abilities(landlock_abi=version, seccomp=True, no_new_privileges=True, can_change_user=True, pidfd=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_any_landlock_with_seccomp_confines_measuring_children(version: int) -> None:
    assert able(version).missing() == ()
    assert "below 6" in " ".join(able(version).open_attacks())
    assert bool(able(version).missing(connects=True)) is (version < 4)


def test_newest_landlock_leaves_no_attack_open() -> None:
    assert able(6).open_attacks() == ()
    assert "no Landlock" in able(0).missing()[0]
    assert "signals" in able(0).missing()[0]


@pytest.fixture(scope="module", params=[1, pytest.param(3, marks=pytest.mark.faults)])
def older(request: pytest.FixtureRequest) -> Iterator[ForkServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LIMIT, str(request.param))
        with start_server(["children:prepare"], USERS[-1], ENVIRONMENT) as server:
            yield server


def attempt(server: ForkServer, what: str, confinement: Confinement) -> str:
    with fork(server, "attempt", what.encode(), confinement=confinement) as child:
        return child.channel.receive(LONG_S).decode()


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("is_given", [False, True], ids=["beside", "readable"])
def test_older_landlock_confines_child(older: ForkServer, attack: str, is_given: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="older-") as folder:
        Path(folder).chmod(0o777)
        secret = Path(folder, "secret")
        secret.write_text("a secret")
        secret.chmod(0o666)
        given = Confinement.strict(readable=[str(secret)] if is_given else [])
        name, _, argument = attack.partition(" ")
        said = attempt(older, f"{name} {argument or secret}", given)
        if (is_given, attack) == (True, "read"):
            assert said == "done 8"
        else:
            assert said.startswith(("PermissionError", "OSError: [Errno 18]"))
        assert secret.read_text() == "a secret"


def test_child_with_ports_is_refused_on_older_kernels(older: ForkServer) -> None:
    with pytest.raises(ForkFailed, match="TCP ports"):
        fork(older, "attempt", b"tcp", confinement=Confinement(connect_ports=(9,), require=True))


@pytest.mark.faults
@pytest.mark.parametrize("version", [*VERSIONS, 6])
def test_attacks_fail_on_older_kernels(version: int) -> None:
    suites = [
        "tests/sandbox",
        "tests/workers/adversary/test_sealed_candidates.py",
        "tests/workers/adversary/test_hostile_candidates.py",
    ]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "not attacks_fail_on_older_kernels",
        *suites,
    ]
    ran = subprocess.run(
        command,
        cwd=Path(__file__).parents[3],
        env={**os.environ, LIMIT: str(version)},
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert ran.returncode == 0, ran.stdout[-5000:]
