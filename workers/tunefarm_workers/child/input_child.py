"""The child that makes the inputs of several fresh processes."""

import mmap

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.frozen import digest
from tunefarm_workers.artifact.library_inputs import LibraryInputs
from tunefarm_workers.conversation.messages import InputsOrder
from tunefarm_workers.correctness.inputs import make_inputs


def run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: write the first set of inputs of an ``InputsOrder`` into the memory that ``descriptors`` holds.

    Answers with their digest, by which the parent detects changes by other processes.
    """
    order = InputsOrder.model_validate_json(payload)
    arrays = make_inputs(
        order.arguments,
        seed=order.seed,
        set_number=0,
        distribution=order.distribution,
        specs=order.input_specs,
        examples=order.input_examples,
    )
    layout = LibraryInputs.of(order.arguments)
    made = bytearray(layout.size_bytes)
    layout.write(arrays, memoryview(made))
    with mmap.mmap(descriptors[0], 0) as shared:
        shared[:] = bytes(made)
    channel.send(digest(bytes(made)).encode())
