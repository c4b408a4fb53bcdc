"""What a confined child does in the tests of libraries: it runs a model that it may read."""

import json
from pathlib import Path

import numpy as np

from tunefarm.model.library.library import LIBRARIES
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.bad_input import BadInput


def main(channel: Channel, payload: bytes, _descriptors: list[int]) -> None:
    """Open a model with a library, and run it on ones; answer its outputs, or what was raised."""
    order = json.loads(payload)
    try:
        kernel = LIBRARIES[order["library"]].open(Path(order["model"]), order["threads"], spins=False)
        outputs = [np.empty(port.shape, port.dtype) for port in kernel.outputs]
        kernel.run([np.ones(port.shape, port.dtype) for port in kernel.inputs], outputs)
        answer = [output.tolist() for output in outputs]
    except (BadInput, RuntimeError, OSError) as error:
        answer = f"{type(error).__name__}: {error}"
    channel.send(json.dumps(answer).encode())
