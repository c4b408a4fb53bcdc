"""The program of a fresh process that times one library: ``CHANNEL INPUTS FFI_LIBRARY RUNTIME_LIBRARY SEAL``.

The first two are descriptors: of a channel, and of memory that holds the inputs. The last is what this process seals
itself with, and may be empty. It imports next to nothing, so that many of them start in the time that one would
otherwise take.
"""

import json
import mmap
import sys

from tunefarm_sandbox import linux
from tunefarm_sandbox.channel import Channel
from tunefarm_sandbox.filter_program import seal_with
from tunefarm_workers.library_order import LibraryOrder
from tunefarm_workers.loaded_library import LoadedLibrary
from tunefarm_workers.runtime_library import Runtime

READY = b"ready"
WHERE = b"where"
GO = b"go"
NEAR, DISTANT = b"near", b"distant"


def serve(channel: Channel, inputs: int, runtime: Runtime, seal: str) -> None:
    """Say that all is loaded; then run one order: load, call once, send the outputs, wait for a go, and time.

    Until then, tell whenever asked whether the threads are on cores that are near to each other.
    """
    channel.send(READY)
    order = LibraryOrder.of_json(channel.receive())
    contents = memoryview(mmap.mmap(inputs, 0, prot=mmap.PROT_READ))
    library = LoadedLibrary(runtime, order, contents, on_loaded=lambda: seal_with(seal))
    library.call()
    for output in library.outputs():
        channel.send(output)
    while channel.receive() == WHERE:
        channel.send(NEAR if library.is_on_near_cores() else DISTANT)
    channel.send(json.dumps(list(library.samples_s())).encode())


if __name__ == "__main__":
    linux.prctl(linux.PR_SET_DUMPABLE, 0)  # what a process has said of itself ends when it becomes another program
    serve(Channel(int(sys.argv[1])), int(sys.argv[2]), Runtime(sys.argv[3], sys.argv[4]), sys.argv[5])
