"""Calls for bundles."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tunefarm.http.calls.named_calls import records_or_jobs_like
from tunefarm.http.calls.record_calls import whole_record_id
from tunefarm.http.calls.upload_calls import upload
from tunefarm.http.paging import listed
from tunefarm.http.request import Flow, Reply, Request
from tunefarm.intake.tvm_objects import TargetLike, target_field
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.bundle import BundleForm, BundleManifest
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.views.bundle import BundleView

DOWNLOAD_TIMEOUT_S: Final = 300.0
POLL_S: Final = 1.0


@dataclass(frozen=True)
class RemoteBundle:
    """A bundle that was built, with its files as a tar archive."""

    view: BundleView
    content: bytes = field(repr=False)

    def write(self, folder: Path) -> BundleManifest:
        """Write the files to the new or empty folder ``folder``, checked against the manifest.

        Raises:
            BadInput: they do not match; nothing was written.
        """
        from tunefarm.bundle.bundle_archive import unpack

        return unpack(self.content, folder)


def new_bundle(
    record_ids: Sequence[str] = (),
    *,
    job_id: str | None = None,
    upload_id: str | None = None,
    form: BundleForm,
    target: TargetLike = None,
    name: str | None = None,
    functions_only: bool = False,
) -> Flow[BundleView]:
    """Ask for a bundle of records, of a job, or of a model. Ids of records may be prefixes.

    ``upload_id`` is a complete upload of TVM's JSON of a Relax module whose weights are constants; beside ``job_id``,
    it is the model of the job. A bundle of the job of a model has the model, or its functions with ``functions_only``.
    """
    whole_ids = []
    for each in record_ids:
        whole_ids.append((yield from whole_record_id(each)))  # noqa: PERF401 - comprehensions cannot yield
    body = {
        "record_ids": whole_ids,
        "job_id": job_id,
        "upload_id": upload_id,
        "form": form,
        "target": target_field(target),
        "name": name,
        "functions_only": functions_only,
    }
    sent = {key: value for key, value in body.items() if value}
    reply: Reply = yield Request("POST", "/artifacts", body=sent, creates=True)
    return reply.read(BundleView)


def bundle_of_sources(
    sources: Sequence[str],
    *,
    form: BundleForm,
    target: TargetLike = None,
    name: str | None = None,
    model: bytes | None = None,
    functions_only: bool = False,
) -> Flow[BundleView]:
    """Ask for a bundle of records and of jobs, given by ids or prefixes of them.

    A single job of a model stands for the model, unless ``functions_only``; beside other sources it stands for the
    records of its tasks. ``model`` is TVM's JSON of the model of the only job, with its weights as constants.
    """
    found = []
    for each in sources:
        found.append((yield from records_or_jobs_like(each)))  # noqa: PERF401 - comprehensions cannot yield
    only_job = found[0][1][0] if len(found) == 1 and found[0][1] else None
    if model is not None and only_job is None:
        raise BadInput("model", "it is given beside records or several jobs.", "Give it with the id of its job.")
    if only_job is not None:
        upload_id = None if model is None else (yield from upload(model))
        return (
            yield from new_bundle(
                job_id=only_job,
                upload_id=upload_id,
                form=form,
                target=target,
                name=name,
                functions_only=functions_only,
            )
        )
    record_ids: dict[str, None] = {}
    for own_ids, job_ids in found:
        record_ids |= dict.fromkeys(own_ids)
        for job_id in job_ids:
            of_job = yield from _records_of(job_id)
            record_ids |= dict.fromkeys(each.record_id for each in of_job)
    return (yield from new_bundle(list(record_ids), form=form, target=target, name=name))


def _records_of(job_id: str) -> Flow[list[TuningRecord]]:
    found = yield from listed(f"/jobs/{job_id}/records", TuningRecord, {}, None)
    if not found:
        raise BadInput("source", f"job {job_id} has no verified record.", "See: tunefarm jobs show")
    return found


def bundle(bundle_id: str) -> Flow[BundleView]:
    """A bundle, built or not."""
    reply: Reply = yield Request("GET", f"/bundles/{bundle_id}")
    return reply.read(BundleView)


def bundles(limit: int | None = 100) -> Flow[list[BundleView]]:
    """At most ``limit`` bundles by id; all if None."""
    return listed("/bundles", BundleView, {}, limit)


def bundle_content(bundle_id: str, timeout_s: float = 0.0) -> Flow[RemoteBundle]:
    """The files of a bundle. Waits ``timeout_s`` for it to be built.

    Raises:
        BadInput: it could not be built, is not built yet, or the received archive is damaged.
    """
    deadline_s = time.monotonic() + timeout_s
    view = yield from bundle(bundle_id)
    while view.state != "finished" and time.monotonic() < deadline_s:
        reply: Reply = yield Request("GET", f"/bundles/{bundle_id}", delay_s=POLL_S)
        view = reply.read(BundleView)
    if view.state != "finished":
        raise BadInput("bundle", f"{bundle_id} is {view.state}.", "Ask for it again later.")
    if view.outcome != "succeeded":
        raise BadInput("bundle", f"{bundle_id} could not be built. {view.message}", "")
    content: Reply = yield Request("GET", f"/bundles/{bundle_id}/content", timeout_s=DOWNLOAD_TIMEOUT_S)
    if digest(content.content) != view.content_digest:
        raise BadInput("bundle", "the received archive does not match its digest.", "Download it again.")
    return RemoteBundle(view, content.content)


def bundle_deletion(bundle_id: str) -> Flow[None]:
    """Delete a bundle."""
    yield Request("DELETE", f"/bundles/{bundle_id}")
