"""One complete example of everything that edge devices and the service exchange."""

from tunefarm_schemas.edge.device import EdgeAdvice, EdgeFacts, EdgePoll, Enrolment, EnrolmentRequest
from tunefarm_schemas.edge.release import (
    ChannelDocument,
    FileDelta,
    GatePolicy,
    Release,
    ReleaseFile,
    ReleaseVariant,
)
from tunefarm_schemas.edge.report import EdgeReport, EdgeReports, InstallReport, LatencyReport, SelfTestReport
from tunefarm_schemas.edge.retune_policy import RetunePolicy
from tunefarm_schemas.frozen import Frozen, digest

_AT = "2026-07-01T12:00:00Z"
_FILE = ReleaseFile(path="model.so", size_bytes=86_016, digest=digest("new"))
_DELTA = FileDelta(from_digest=digest("old"), to_digest=_FILE.digest, patch_digest=digest("patch"), patch_bytes=4_096)
_VARIANT = ReleaseVariant(
    architecture="aarch64",
    cpu_features=("asimd", "asimddp"),
    free_bytes=1_000_000,
    memory_bytes=500_000,
    latency_p50_s=0.0012,
    latency_p95_s=0.0014,
    manifest=ReleaseFile(path="manifest.json", size_bytes=9_000, digest=digest("manifest")),
    files=(_FILE,),
    deltas=(_DELTA,),
)
_RELEASE = Release(name="cnn-2", model="cnn", variants=(_VARIANT,))
_GATE = GatePolicy()
_FACTS = EdgeFacts(
    architecture="aarch64",
    cpu_features=("asimd", "asimddp"),
    agent_version="0.1.0",
    runtime_abi=1,
    free_bytes=10_000_000_000,
    operating_system="Debian 12",
)
_INSTALL = InstallReport(release="cnn-2", failure="self_test_failed", detail="error 3.2", rolled_back_to="cnn-1")
_LATENCY = LatencyReport(
    release="cnn-2", runs=1_000, mean_s=0.0012, p50_s=0.0012, p95_s=0.0014, max_s=0.003, temperature_celsius=61.5
)
_SELF_TEST = SelfTestReport(release="cnn-2", passed=True, worst_error=0.01, best_s=0.0011)
_REPORT = EdgeReport(report_id="0123456789abcdef", at=_AT, body=_LATENCY)

EDGE_NOUNS: tuple[Frozen, ...] = (
    _FILE,
    _DELTA,
    _VARIANT,
    _RELEASE,
    _GATE,
    ChannelDocument(
        channel="stable",
        sequence=7,
        issued=_AT,
        expires="2026-10-01T12:00:00Z",
        current=_RELEASE,
        revoked=("cnn-0",),
        gate=_GATE,
    ),
    _FACTS,
    EnrolmentRequest(code="K7QF-2M9P", name="kitchen", facts=_FACTS),
    Enrolment(edge_device_id="30", channel="stable", token="tfk_31_secret"),
    EdgePoll(facts=_FACTS, running="cnn-1", sequence=6),
    EdgeAdvice(channel="stable", action="run_current", release="cnn-2", poll_after_s=301.5),
    _INSTALL,
    _LATENCY,
    _SELF_TEST,
    _REPORT,
    EdgeReports(reports=(_REPORT,), dropped=2),
    RetunePolicy(enabled=True, trials=64, seconds=120.0),
)
