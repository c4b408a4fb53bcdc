import os
import socket
import struct
import threading

import pytest

from tests.sandbox.forking import LONG_S, open_descriptors
from tunefarm_sandbox.channel.channel import MAX_MESSAGE_BYTES, Channel, ChannelClosed


def both_ends() -> tuple[Channel, Channel]:
    near, far = Channel.pair()
    return near, Channel(far)


@pytest.mark.parametrize("size", [0, 1, 8, 70_000, 5_000_000])
def test_message_arrives_whole(size: int) -> None:
    near, far = both_ends()
    message = os.urandom(size)
    sender = threading.Thread(target=near.send, args=(message,))
    sender.start()
    assert far.receive(LONG_S) == message
    sender.join()


def test_messages_keep_order_and_bounds() -> None:
    near, far = both_ends()
    for number in range(50):
        near.send(b"%d" % number)
    assert [far.receive(0) for _ in range(50)] == [b"%d" % number for number in range(50)]
    with pytest.raises(TimeoutError):
        far.receive(0)


def test_receive_continues_the_same_message_after_a_timeout() -> None:
    near, far_descriptor = Channel.pair()
    far = socket.socket(fileno=far_descriptor, family=socket.AF_UNIX)
    frame = struct.pack(">4sI", b"tfm1", 6) + b"whole!"
    for piece in (frame[:3], frame[3:9], frame[9:11]):
        far.sendall(piece)
        with pytest.raises(TimeoutError):
            near.receive(0.01)
    far.sendall(frame[11:])
    assert near.receive(LONG_S) == b"whole!"
    far.close()


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", struct.pack(">4sI", b"tfm1", 300_000_000), b"\xff" * 64],
    ids=["other protocol", "300 MB announced", "noise"],
)
def test_invalid_frame_closes_the_channel(garbage: bytes) -> None:
    near, far_descriptor = Channel.pair()
    os.write(far_descriptor, garbage)
    with pytest.raises(ChannelClosed, match="invalid frame"):
        near.receive(LONG_S)
    os.close(far_descriptor)


def test_closed_peer_is_reported_to_sender_and_receiver() -> None:
    near, far = both_ends()
    near.send(b"last words")
    near.close()
    assert far.receive(LONG_S) == b"last words"
    with pytest.raises(ChannelClosed):
        far.receive(LONG_S)
    with pytest.raises(ChannelClosed):
        far.send(b"anybody?")


def test_send_times_out_if_peer_does_not_read() -> None:
    near, far = both_ends()
    with pytest.raises(TimeoutError):
        near.send(b"x" * 10_000_000, timeout_s=0.1)
    far.close()


def test_oversized_message_is_rejected() -> None:
    near, far = both_ends()
    with pytest.raises(ValueError, match="too large"):
        near.send(bytes(MAX_MESSAGE_BYTES + 1))
    far.close()


def test_descriptors_are_sent_with_message() -> None:
    near, far = both_ends()
    read, write = os.pipe()
    near.send(b"take", [write])
    message, (received,) = far.receive_with_descriptors(LONG_S)
    os.write(received, b"through")
    assert (message, os.read(read, 10)) == (b"take", b"through")
    assert not os.get_inheritable(received)
    for descriptor in (read, write, received):
        os.close(descriptor)


def test_unrequested_descriptors_are_dropped() -> None:
    near, far = both_ends()
    before = open_descriptors(os.getpid())
    for _ in range(20):
        near.send(b"unwanted", [0, 1, 2])
        assert far.receive(LONG_S) == b"unwanted"
    assert open_descriptors(os.getpid()) <= before
