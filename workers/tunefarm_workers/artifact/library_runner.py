"""The program of a fresh process that times one library: ``CHANNEL INPUTS FFI_LIBRARY RUNTIME_LIBRARY SEAL``.

CHANNEL and INPUTS are descriptors of a channel and of memory that holds the inputs. SEAL is the seal that this process
applies to itself, and may be empty. The program imports as little as possible, to start fast.
"""

import json
import mmap
import sys

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.confinement import linux
from tunefarm_sandbox.confinement.filter_program import seal_with
from tunefarm_workers.artifact.library_order import LibraryOrder
from tunefarm_workers.artifact.loaded_library import LoadedLibrary
from tunefarm_workers.artifact.runtime_library import Runtime
from tunefarm_workers.builder.sealed_library import path_of

READY = b"ready"
SHARES_CACHE = b"shares cache"
TIME = b"time"
TIME_BOTH = b"time both"
OUTPUTS_AGAIN = b"outputs again"
NEAR, DISTANT = b"near", b"distant"


def serve(channel: Channel, inputs: int, runtime: Runtime, seal: str) -> None:
    """Report readiness, load the library of one order, send its outputs, and answer until the channel ends.

    Requests ask whether the threads share a cache, for samples, for samples of both libraries, or for the outputs after
    other use.
    """
    channel.send(READY)
    message, descriptors = channel.receive_with_descriptors()
    order = LibraryOrder.of_json(message)._replace(library=path_of(descriptors[0]))
    if order.rival is not None:
        order = order._replace(rival=order.rival._replace(library=path_of(descriptors[1])))
    contents = memoryview(mmap.mmap(inputs, 0, prot=mmap.PROT_READ))
    library = LoadedLibrary(runtime, order, contents, on_loaded=lambda: seal_with(seal))
    library.call()
    for output in library.outputs():
        channel.send(output)
    while True:
        request = channel.receive()
        if request == SHARES_CACHE:
            channel.send(NEAR if library.shares_cache() else DISTANT)
        elif request == TIME:
            channel.send(json.dumps(list(library.samples_s())).encode())
        elif request == TIME_BOTH:
            channel.send(json.dumps([list(samples_s) for samples_s in library.samples_of_both_s()]).encode())
        else:
            library.exercise()
            for output in library.outputs():
                channel.send(output)


if __name__ == "__main__":
    linux.prctl(linux.PR_SET_DUMPABLE, 0)  # exec resets it
    try:
        serve(Channel(int(sys.argv[1])), int(sys.argv[2]), Runtime(sys.argv[3], sys.argv[4]), sys.argv[5])
    except ChannelClosed:
        sys.exit(0)
