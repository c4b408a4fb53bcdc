"""The child that execs a fresh Python process to run an artifact as its users do."""

import os
import sys
from typing import Final

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.confinement.seal import seal_to_hand_on
from tunefarm_schemas.frozen import Frozen

ENTRY: Final = "tunefarm.confined.artifact_run:main"
KEPT_VARIABLES: Final = ("PATH", "HOME", "LANG", "TMPDIR")


class ArtifactRunOrder(Frozen):
    """The artifact to run. The runner checks its library again, and loads the checked bytes."""

    folder: str
    callees: tuple[str, ...] = ()


def main(_channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry of the child: exec the runner, which prints one line of JSON and sets the exit status.

    ``descriptors`` holds the library in sealed memory.
    """
    os.set_inheritable(descriptors[0], True)
    order = ArtifactRunOrder.model_validate_json(payload)
    environment = {
        **{name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-P", "-m", "tunefarm_workers.artifact.artifact_runner", order.folder]
    command += [f"--library=/proc/self/fd/{descriptors[0]}", f"--seal={seal_to_hand_on()}"]
    command += [f"--callee={name}" for name in order.callees]
    os.execve(sys.executable, command, environment)  # noqa: S606 - no shell, and nothing of a message in the command's name
