"""Messages through the broker between a lane that needs libraries (the requester) and compile lanes.

Modules and libraries are blobs, named by digest. A compile lane also sends the replies of every lane: the orders that
it holds or returns, and missing tasks.
"""

from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.farm.farm_message import MESSAGE_VERSION, Holding, Returned, TaskMissing
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import ElapsedSeconds
from tunefarm_workers.session.device.session_messages import LibraryShape

COMPILE: Final = "tunefarm.compile"

POOL_PATTERN: Final = "[a-z0-9][a-z0-9-]{0,39}"
"""The name of the compile lanes of one toolchain; it is part of keys."""
BlobDigest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def compile_queue(pool: str) -> str:
    """The queue of all compile lanes of ``pool`` with this message version."""
    return f"compile.{MESSAGE_VERSION}.{pool}"


def compilers_key(pool: str) -> str:
    """The key of the pool's heartbeat."""
    return f"compilers.{pool}"


class CandidateWanted(Frozen):
    """A request for one schedule. ``task_digest`` names the blob with the JSON of its ``MeasureTask``."""

    kind: Literal["candidate"] = "candidate"
    exploration_id: str
    task_digest: BlobDigest
    trace: str | None = Field(repr=False)


class ReferencesWanted(Frozen):
    """A request for the reference kernels, with ``threads`` threads on a processor."""

    kind: Literal["references"] = "references"
    target: str
    threads: int = Field(ge=1)


class CompileMessage(Frozen):
    """One order. ``farm_id`` identifies the requester; ``worker`` is its name."""

    farm_id: str
    order_id: str
    worker: str
    wanted: Annotated[CandidateWanted | ReferencesWanted, Field(discriminator="kind")]


class CompileBegan(Frozen):
    """A lane began to compile."""

    kind: Literal["began"] = "began"
    lane_id: str
    order_id: str


class CompileSucceeded(Frozen):
    """A library is in the blob store. ``shape`` is None for reference kernels; ``build_s`` is elapsed time."""

    kind: Literal["compiled"] = "compiled"
    lane_id: str
    order_id: str
    code_generator: str
    library_digest: BlobDigest
    build_s: ElapsedSeconds
    shape: LibraryShape | None


class CompileFailed(Frozen):
    """Compiling failed."""

    kind: Literal["not_compiled"] = "not_compiled"
    lane_id: str
    order_id: str
    failure: TrialFailure


CompileReply = Annotated[
    CompileBegan | CompileSucceeded | CompileFailed | Holding | Returned | TaskMissing, Field(discriminator="kind")
]
compile_reply: Final[TypeAdapter[CompileReply]] = TypeAdapter(CompileReply)
