"""The child that compiles one schedule to a shared library."""

import shutil
import subprocess
from pathlib import Path

from tunefarm_sandbox.channel import Channel
from tunefarm_schemas.failure import FailureReason
from tunefarm_workers.candidate import broken
from tunefarm_workers.messages import Broken, Linked, LinkOrder
from tunefarm_workers.scheduled_module import build_scheduled, replay
from tunefarm_workers.shipped_module import ship
from tunefarm_workers.task_host import parse

_LINKERS = ("cc", "gcc", "clang")
_LINK_S = 60.0


def run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: answer with ``Linked`` and the library's bytes, or with ``Broken``."""
    order = LinkOrder.model_validate_json(payload)
    stage = FailureReason.INVALID_SCHEDULE
    try:
        module, target = parse(order.host)
        scheduled = replay(module, order.trace)
        stage = FailureReason.BUILD_ERROR
        shipped = ship(scheduled, order.host.abi)
        built = build_scheduled(shipped.module, target)
        folder = Path(order.folder)
        built.write_to_file(str(folder / "kernel.o"), "o")
        _link(folder / "kernel.o", folder / "kernel.so")
        library = (folder / "kernel.so").read_bytes()
    except subprocess.CalledProcessError as error:
        message = error.stderr.decode(errors="replace")[-2000:]
        _send(channel, Broken(reason=FailureReason.BUILD_ERROR, message=f"Linking failed: {message}"))
        return
    except Exception as error:  # noqa: BLE001 - whatever a schedule raises is its result
        _send(channel, broken(stage, error))
        return
    packed = tuple(shipped.packed[position] for position in sorted(shipped.packed))
    _send(channel, Linked(entry=shipped.entry, pack_entry=shipped.pack_entry, packed_arguments=packed))
    channel.send(library)


def _link(compiled: Path, library: Path) -> None:
    linker = next((found for found in map(shutil.which, _LINKERS) if found), None)
    if linker is None:
        raise FileNotFoundError(f"no C compiler was found to link with; install one of {', '.join(_LINKERS)}")
    subprocess.run(
        [linker, "-shared", "-o", str(library), str(compiled), "-lm"],
        check=True,
        capture_output=True,
        timeout=_LINK_S,
    )


def _send(channel: Channel, message: Linked | Broken) -> None:
    channel.send(message.model_dump_json().encode())
