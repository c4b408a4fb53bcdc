"""The program of a test's board: the loop of TVM's RPC server, with TVM loaded once and without torch."""

import argparse
from typing import Any

from tunefarm_search.tvm import loading


def serve() -> None:
    """Serve one session after another, each in a process of its own. Takes words as ``tvm.exec.rpc_server`` does."""
    parser = argparse.ArgumentParser()
    for word, kind in (("--host", str), ("--key", str), ("--port", int), ("--port-end", int)):
        parser.add_argument(word, type=kind, required=True)
    words = parser.parse_args()
    loading.load()
    from tvm.rpc import server

    state: Any = server.PopenRPCServerState(words.host, words.port, words.port_end, key=words.key)
    state.thread.join()


if __name__ == "__main__":
    serve()
