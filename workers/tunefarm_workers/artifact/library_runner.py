"""The program of a fresh process that times one library: ``CHANNEL INPUTS FFI_LIBRARY RUNTIME_LIBRARY SEAL``.

The first two are descriptors: of a channel, and of memory that holds the inputs. The last is what this process seals
itself with, and may be empty. It imports next to nothing, so that many of them start in the time that one would
otherwise take.
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
WHERE = b"where"
GO = b"go"
BOTH = b"both"
AGAIN = b"again"
NEAR, DISTANT = b"near", b"distant"


def serve(channel: Channel, inputs: int, runtime: Runtime, seal: str) -> None:
    """Say that all is loaded; then run one order: load, call once, send the outputs, and answer until the channel ends.

    What is asked for is whether the threads are on cores that are near to each other, the time, that of a rival as
    well, or the outputs after other use.
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
        asked = channel.receive()
        if asked == WHERE:
            channel.send(NEAR if library.shares_cache() else DISTANT)
        elif asked == GO:
            channel.send(json.dumps(list(library.samples_s())).encode())
        elif asked == BOTH:
            channel.send(json.dumps([list(samples_s) for samples_s in library.samples_of_both_s()]).encode())
        else:
            library.be_used_otherwise()
            for output in library.outputs():
                channel.send(output)


if __name__ == "__main__":
    linux.prctl(linux.PR_SET_DUMPABLE, 0)  # what a process has said of itself ends when it becomes another program
    try:
        serve(Channel(int(sys.argv[1])), int(sys.argv[2]), Runtime(sys.argv[3], sys.argv[4]), sys.argv[5])
    except ChannelClosed:
        sys.exit(0)
