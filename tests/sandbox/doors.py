"""Attempts of a child with network or device access; each function is an entry."""

import os
import socket

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
    family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
    form = {"udp": socket.SOCK_DGRAM, "raw": socket.SOCK_RAW}.get(kind, socket.SOCK_STREAM)
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
