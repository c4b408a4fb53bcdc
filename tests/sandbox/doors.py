"""Attempts of a child with network or device access; each function is an entry."""

import os
import socket
import threading
from pathlib import Path

from tunefarm_sandbox.channel.channel import Channel


def connect(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Connect to the ports named, with the kind of socket named, and report the outcome of each attempt."""
    outcomes = []
    for attempt in payload.decode().split():
        kind, port = attempt.split(":")
        try:
            outcomes.append(_try(kind, int(port)))
        except OSError as error:
            outcomes.append(type(error).__name__)
    channel.send(" ".join(outcomes).encode())


def _try(kind: str, port: int) -> str:
    family = socket.AF_UNIX if kind in {"unix", "seqpacket", "datagram"} else socket.AF_INET
    form = {
        "udp": socket.SOCK_DGRAM,
        "raw": socket.SOCK_RAW,
        "seqpacket": socket.SOCK_SEQPACKET,
        "datagram": socket.SOCK_DGRAM,
    }.get(kind, socket.SOCK_STREAM)
    protocol = 262 if kind == "mptcp" else 0
    with socket.socket(family, form, protocol) as opened:
        if kind == "bind":
            opened.bind(("127.0.0.1", port))
        elif kind in {"tcp", "mptcp"}:
            opened.connect(("127.0.0.1", port))
    return "connected"


def write_device(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    try:
        os.close(os.open(payload.decode(), os.O_RDWR))
        channel.send(b"opened")
    except OSError as error:
        channel.send(type(error).__name__.encode())


def start_driver(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Do what NVIDIA's driver does when it starts, and report the outcome of each step."""
    outcomes = []
    for step in (_name_a_thread, _make_an_anonymous_file, _listen):
        try:
            step()
        except OSError as error:
            outcomes.append(type(error).__name__)
        else:
            outcomes.append("done")
    channel.send(" ".join(outcomes).encode())


def _name_a_thread() -> None:
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    try:
        with open(f"/proc/self/task/{thread.native_id}/comm", "w", encoding="ascii") as name:  # noqa: PTH123
            name.write("driver")
    finally:
        waiting.set()
        thread.join()


def _make_an_anonymous_file() -> None:
    os.close(os.memfd_create("state"))


def _listen() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        opened.bind(f"\0tunefarm-test-driver-{os.getpid()}")
        opened.listen()


def reach_socket(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Connect to the abstract socket that the payload names."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as opened:
            opened.connect(b"\0" + payload)
        channel.send(b"connected")
    except OSError as error:
        channel.send(type(error).__name__.encode())


def write_of_server(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Name a thread of the process that the payload names."""
    try:
        Path(f"/proc/{payload.decode()}/task/{payload.decode()}/comm").write_text("other", encoding="ascii")
        channel.send(b"named")
    except OSError as error:
        channel.send(type(error).__name__.encode())
