"""A confined child that becomes a fresh Python process, so that an artifact is timed as its users will run it."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.confinement.seal import seal_to_hand_on
from tunefarm_workers.artifact.runtime_paths import runtime_paths

_OWN_PACKAGES = ("tunefarm_schemas", "tunefarm_sandbox", "tunefarm_workers", "tvm", "tvm_ffi", "numpy")


def become_runner(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: exec the library runner with the channel as its only connection.

    ``payload`` is the thread count, ``descriptors`` holds the memory with the inputs.
    """
    os.set_inheritable(channel.fileno(), True)
    os.set_inheritable(descriptors[0], True)
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}}
    environment = {**kept, "TVM_NUM_THREADS": payload.decode(), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-m", "tunefarm_workers.artifact.library_runner"]
    command += [str(channel.fileno()), str(descriptors[0]), *runtime_paths(), seal_to_hand_on()]
    os.execve(sys.executable, command, environment)  # noqa: S606 - no shell, and no content of a message


def package_folders() -> tuple[str, ...]:
    """Return the folders of packages that a fresh process imports; an editable install has them elsewhere."""
    folders = set()
    for name in _OWN_PACKAGES:
        package = find_spec(name)
        if package is not None and package.origin is not None:
            folders.add(str(Path(package.origin).parent.parent))
    return tuple(sorted(folders))
