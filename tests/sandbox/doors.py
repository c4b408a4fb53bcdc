"""Attempts of a child with network or device access; each function is an entry."""

import os
import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tunefarm_sandbox.channel.channel import Channel


def connect(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Connect to the ports named, with the kind of socket named, and report the outcome of each attempt."""
    attempts = (attempt.split(":") for attempt in payload.decode().split())
    _report(channel, *(partial(_try, kind, int(port)) for kind, port in attempts))


def _report(channel: Channel, *steps: Callable[[], str | None]) -> None:
    """Send what each step returns, ``done`` for None, or the name of its error."""
    outcomes = []
    for step in steps:
        try:
            outcomes.append(step() or "done")
        except OSError as error:
            outcomes.append(type(error).__name__)
    channel.send(" ".join(outcomes).encode())


def _try(kind: str, port: int) -> str:
    family = socket.AF_UNIX if kind in {"unix", "datagram"} else socket.AF_INET
    forms = {"udp": socket.SOCK_DGRAM, "raw": socket.SOCK_RAW, "datagram": socket.SOCK_DGRAM}
    form = forms.get(kind, socket.SOCK_STREAM)
    protocol = 262 if kind == "mptcp" else 0
    with socket.socket(family, form, protocol) as opened:
        if kind == "bind":
            opened.bind(("127.0.0.1", port))
        elif kind in {"tcp", "mptcp"}:
            opened.connect(("127.0.0.1", port))
    return "connected"


def write_device(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    def opened() -> str:
        os.close(os.open(payload.decode(), os.O_RDWR))
        return "opened"

    _report(channel, opened)


def start_driver(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Do what NVIDIA's driver does when it starts, and report the outcome of each step."""
    _report(channel, _name_own_thread, _make_an_anonymous_file, _listen)


def _name_own_thread() -> None:
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    try:
        _name(os.getpid(), thread.native_id)
    finally:
        waiting.set()
        thread.join()


def _name(process: int, thread: int | None) -> None:
    Path(f"/proc/{process}/task/{thread}/comm").write_text("driver", encoding="ascii")


def _make_an_anonymous_file() -> None:
    os.close(os.memfd_create("state"))


def _listen() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        opened.bind(f"\0tunefarm-test-driver-{os.getpid()}")
        opened.listen()


def reach_socket(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Connect to the abstract socket that the payload names."""

    def connected() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as opened:
            opened.connect(b"\0" + payload)

    _report(channel, connected)


def name_other_process(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Name the first thread of the process whose pid the payload is."""
    process = int(payload)
    _report(channel, partial(_name, process, process))
