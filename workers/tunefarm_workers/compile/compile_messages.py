"""What a lane that has libraries made elsewhere and a lane that makes them say to each other through the broker.

Modules and libraries travel as blobs, by digest. Besides what stands here, a compile lane says what every lane says:
what it holds, what it gives back, and which task is missing.
"""

from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.farm.farm_message import MESSAGE_VERSION, Holding, Returned, TaskMissing
from tunefarm_schemas.frozen import Frozen
from tunefarm_workers.session.device.session_messages import LibraryShape

COMPILE: Final = "tunefarm.compile"

POOL_PATTERN: Final = "[a-z0-9][a-z0-9-]{0,39}"
"""What compile lanes of one toolchain are called together; it becomes part of keys."""
BlobDigest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def compile_queue(pool: str) -> str:
    """The queue of all compile lanes of ``pool`` that speak this version."""
    return f"compile.{MESSAGE_VERSION}.{pool}"


def compilers_key(pool: str) -> str:
    """Where compile lanes of ``pool`` show that one of them takes work."""
    return f"compilers.{pool}"


class CandidateWanted(Frozen):
    """One schedule. ``task_digest`` names the blob with the JSON of its ``MeasureTask``."""

    kind: Literal["candidate"] = "candidate"
    exploration_id: str
    task_digest: BlobDigest
    trace: str | None = Field(repr=False)


class ReferencesWanted(Frozen):
    """The reference kernels. ``threads`` is how many of them a processor's kernels take."""

    kind: Literal["references"] = "references"
    target: str
    threads: int = Field(ge=1)


class CompileMessage(Frozen):
    """One order. To a compile lane, ``farm_id`` is whoever wants the library; ``worker`` is what people call it."""

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
    """A library in the blob store. ``shape`` is None for the reference kernels; ``build_s`` is time by the clock."""

    kind: Literal["compiled"] = "compiled"
    lane_id: str
    order_id: str
    code_generator: str
    library_digest: BlobDigest
    build_s: float = Field(ge=0)
    shape: LibraryShape | None


class CompileFailed(Frozen):
    """There is no library, and why."""

    kind: Literal["not_compiled"] = "not_compiled"
    lane_id: str
    order_id: str
    failure: TrialFailure


CompileReply = Annotated[
    CompileBegan | CompileSucceeded | CompileFailed | Holding | Returned | TaskMissing, Field(discriminator="kind")
]
compile_reply: Final[TypeAdapter[CompileReply]] = TypeAdapter(CompileReply)
