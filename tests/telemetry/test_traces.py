"""An operation can be traced through all processes that take part in it."""

import asyncio
import subprocess
import sys

import pytest
import structlog
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.traceparent import Traceparent
from tunefarm_services.telemetry.request_spans import RequestSpans
from tunefarm_services.telemetry.traces import Traces, configure_traces, here

TEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_traceparent_round_trip():
    assert str(Traceparent.parse(TEXT)) == TEXT


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "00-0-0-01",
        TEXT.upper(),
        "ff" + TEXT[2:],
        TEXT + "-x",
        TEXT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
    ],
)
def test_malformed_traceparent_is_ignored(text):
    assert Traceparent.parse(text) is None


def test_later_traceparent_version_may_have_more_fields():
    assert Traceparent.parse("01" + TEXT[2:] + "-more") is not None


def test_trace_of_a_job_derives_from_its_id():
    assert Traceparent.of_job("j1") == Traceparent.of_job("j1")
    assert Traceparent.of_job("j1").trace_id != Traceparent.of_job("j2").trace_id


def test_ids_are_propagated_and_logged_without_collector():
    traces = configure_traces("api", None)
    with traces.span("request", parent=TEXT) as outer, traces.span("store") as inner:
        assert inner.trace_id == outer.trace_id == "0af7651916cd43dd8448eb211c80319c"
        assert structlog.contextvars.get_contextvars()["span_id"] == inner.span_id
        assert here() == inner
    assert here() is None


def test_spans_of_two_processes_join_into_one_trace():
    at_api, at_worker = InMemorySpanExporter(), InMemorySpanExporter()
    api = configure_traces("api", None, exporter=at_api)
    worker = configure_traces("worker", None, exporter=at_worker)
    with api.span("submit", job_id="j1", retried=None) as submitted:
        message = str(submitted)
    with worker.span("measure", parent=message, candidate=3):
        pass
    api.close()
    worker.close()
    spans = {span.name: span for seen in (at_api, at_worker) for span in seen.get_finished_spans()}
    assert spans["measure"].parent.span_id == spans["submit"].context.span_id
    assert spans["measure"].resource.attributes["service.name"] == "tunefarm-worker"
    assert dict(spans["submit"].attributes) == {"job_id": "j1"}


def test_remote_work_is_traced_with_consecutive_parts():
    seen = InMemorySpanExporter()
    tuner = configure_traces("tuner", None, exporter=seen)
    with tuner.span("job", job_id="j1"):
        tuner.ended("measure", {"build": 0.25, "run": 0.5}, candidate=3)
    tuner.close()
    job, measure, build, run = (
        next(span for span in seen.get_finished_spans() if span.name == name)
        for name in ("job", "measure", "build", "run")
    )
    assert measure.parent.span_id == job.context.span_id
    assert build.parent.span_id == run.parent.span_id == measure.context.span_id
    assert {span.context.trace_id for span in (measure, build, run)} == {job.context.trace_id}
    assert (measure.end_time - measure.start_time, run.end_time - run.start_time) == (750_000_000, 500_000_000)
    assert measure.start_time == build.start_time
    assert build.end_time == run.start_time
    assert run.end_time == measure.end_time <= job.end_time
    assert dict(measure.attributes) == {"candidate": 3}


def test_invalid_endpoint_is_rejected_with_a_fix():
    with pytest.raises(BadInput, match="TUNEFARM_TRACES_ENDPOINT"):
        configure_traces("api", "collector")


def test_opentelemetry_is_not_loaded_without_collector():
    program = (
        "import sys; from tunefarm_services.telemetry.telemetry import telemetry_of\n"
        "with telemetry_of('api') as telemetry:\n"
        "    with telemetry.traces.span('request'): pass\n"
        "loaded = [name for name in sys.modules if name.startswith(('opentelemetry', 'sqlalchemy', 'tvm'))]\n"
        "sys.exit(str(loaded) if loaded else 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_span_ends_on_exception():
    with pytest.raises(ValueError, match="x"), Traces().span("work"):
        raise ValueError("x")
    assert here() is None


def test_request_span_belongs_to_callers_trace():
    seen = []

    async def application(scope, receive, send) -> None:
        seen.append(here())

    wrapped = RequestSpans(application, Traces())
    scope = {"type": "http", "method": "GET", "path": "/v1/jobs", "headers": [(b"traceparent", TEXT.encode())]}
    asyncio.run(wrapped(scope, None, None))
    asyncio.run(wrapped(scope | {"headers": []}, None, None))
    assert seen[0].trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert seen[1].trace_id != seen[0].trace_id
