"""Publication: files first, then signed metadata that names them. The service holds no private key."""

import re
import time
from datetime import UTC, datetime
from typing import Annotated, Final

from anyio import to_thread
from fastapi import APIRouter, Header, Path, Request
from starlette.responses import Response

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.views.publication import FileArrival, FileArrivals, Published
from tunefarm_services.api.access.caller import ReleasePublisher
from tunefarm_services.api.bodies.publication import NamedFilesBody, PublicationBody
from tunefarm_services.api.http.answer import answer
from tunefarm_services.api.http.byte_ranges import OFFSET, PIECE_BODY
from tunefarm_services.api.http.json_route import JsonRoute
from tunefarm_services.api.http.responses import responses
from tunefarm_services.api.operations.parts import PartsOf
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind
from tunefarm_services.releases.verification import ReleaseJudge
from tunefarm_services.store.fleet.audit_repository import Actor
from tunefarm_services.store.fleet.rollout_repository import announce_document

router = APIRouter(prefix="/v1/repository", tags=["releases"], route_class=JsonRoute)

METADATA_NAME: Final = re.compile(r"([1-9]\d{0,8})\.([a-z0-9][a-z0-9._-]{0,109})\.json")
Sha256Path = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file.")]


@router.post("/files", response_model=FileArrivals, responses=responses())
def declare(body: NamedFilesBody, caller: ReleasePublisher, parts: PartsOf) -> Response:
    """Declare the files of a publication; the answer states how much of each has arrived."""
    largest = max((each.size_bytes for each in body.files), default=0)
    if largest > parts.settings.upload_bytes:
        detail = f"A file may have at most {parts.settings.upload_bytes} bytes."
        raise ApiProblem(ProblemKind.TOO_LARGE, detail, field="size_bytes")
    sizes = [(each.digest, each.size_bytes) for each in body.files]
    found = parts.store.releases.declare_all(caller.tenant, sizes, parts.settings.tenant_release_bytes)
    return answer(
        FileArrivals(
            files=tuple(
                FileArrival(
                    digest=each.digest,
                    size_bytes=each.size_bytes,
                    received_bytes=each.received_bytes,
                    is_complete=each.is_complete,
                )
                for each in found
            )
        )
    )


@router.patch(
    "/files/{sha256}",
    status_code=204,
    openapi_extra=PIECE_BODY,
    responses=responses(ProblemKind.NOT_FOUND, ProblemKind.WRONG_OFFSET, s204={"headers": OFFSET}),
)
async def append(
    request: Request,
    sha256: Sha256Path,
    caller: ReleasePublisher,
    parts: PartsOf,
    upload_offset: Annotated[int, Header(ge=0, lt=1 << 40, description="Offset of this piece, in bytes.")],
) -> Response:
    """Append a piece of a file. After the last, its digest is compared.

    All pieces but the last must have at least 64 KiB, unless the service is configured otherwise.
    """
    data = await request.body()
    least_bytes = parts.settings.upload_least_piece_bytes
    place = (caller.tenant, sha256, upload_offset)
    found = await to_thread.run_sync(parts.store.releases.append, *place, data, least_bytes)
    return Response(status_code=204, headers={"Upload-Offset": str(found.received_bytes)})


@router.post("/metadata", response_model=Published, responses=responses(ProblemKind.CONFLICT))
def publish(body: PublicationBody, caller: ReleasePublisher, parts: PartsOf) -> Response:
    """Publish signed metadata and targets, all or nothing. It is verified as a device verifies it."""
    timestamp = body.metadata.get("timestamp.json")
    if timestamp is None:
        raise BadInput("metadata", "timestamp.json is missing.", "Send it with each publication.")
    metadata = {}
    for name, content in body.metadata.items():
        match = METADATA_NAME.fullmatch(name)
        if match is not None:
            metadata[match[2], int(match[1])] = content
        elif name != "timestamp.json":
            raise BadInput("metadata", f"{name[:100]!r} is not a name.", "Write VERSION.ROLE.json.")
    targets = {f"channels/{name}": content for name, content in body.targets.items()}
    judge = ReleaseJudge(metadata, timestamp, targets, datetime.now(UTC))
    actor = Actor(caller.tenant, caller.token.token_id, time.time())
    accepted = parts.store.releases.publish(
        caller.tenant,
        caller.token.token_id,
        judge,
        lambda connection, document: announce_document(connection, actor, document),
    )
    return answer(
        Published(
            root_version=accepted.root_version,
            timestamp_version=accepted.timestamp_version,
            changes=accepted.changes,
        )
    )
