"""The child that talks to a board over RPC. A child, because TVM's client may block forever and has to be killed."""

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_workers.gateway.board_connection import BoardConnection
from tunefarm_workers.gateway.rpc_bench import RpcBench
from tunefarm_workers.session.device.session_child import serve_session


def run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: connect, and serve until the channel closes."""
    serve_session(channel, payload, lambda text: RpcBench(BoardConnection.model_validate_json(text)))
