"""Settings of an API process from the environment."""

from typing import Final

from pydantic import Field

from tunefarm_services.settings import Settings

KIBIBYTE: Final = 1 << 10
MEBIBYTE: Final = 1 << 20


class ApiSettings(Settings):
    """Limits of the API. Each field is an environment variable with the prefix ``TUNEFARM_``.

    Rates have the syntax of the package ``limits``, such as ``500/second`` or ``100/second;2000/minute``.
    """

    public_docs: bool = False
    """Whether /openapi.json and the page /docs need no token. They contain no data, and browsers send no token."""
    metrics_on_loopback: bool = False
    """Whether callers on this host can read /metrics without a token."""
    operator_tenants: tuple[str, ...] = ("operator", "local")
    """Tenants whose tokens may read metrics of the whole farm."""

    body_bytes: int = Field(default=16 * MEBIBYTE, gt=0)
    """Maximum size of a request body, except for a piece of an upload."""
    upload_piece_bytes: int = Field(default=16 * MEBIBYTE, gt=0)
    """Maximum size of a piece of an upload."""
    upload_least_piece_bytes: int = Field(default=64 * KIBIBYTE, ge=0)
    """Minimum size of a piece of an upload or of a file of a release, except the last. Each is a row and a blob."""
    upload_bytes: int = Field(default=256 * MEBIBYTE, gt=0)
    """Largest upload."""
    tenant_upload_bytes: int = Field(default=1024 * MEBIBYTE, gt=0)
    """Total size of all uploads of a tenant."""
    json_depth: int = Field(default=100, gt=0, le=190)
    """Maximum nesting depth of objects and arrays, in a body and in the JSON text that it contains."""
    json_values: int = Field(default=100_000, gt=0)
    """Maximum number of values in a body: elements of arrays and members of objects. A thousand take about 0.3 ms,
    during which the event loop answers no other request."""
    module_json_values: int = Field(default=4_000_000, gt=0)
    """Maximum number of values in the JSON text of a module, which a confined process decodes."""
    body_deadline_s: float = Field(default=30.0, gt=0)
    """Time limit for sending a body."""
    bodies_per_tenant: int = Field(default=64, gt=0)
    """Bodies that a tenant may send to one process at the same time; more get 429."""
    body_bytes_per_tenant: int = Field(default=128 * MEBIBYTE, gt=0)
    """Bytes of bodies that one process holds for a tenant; more get 429."""

    head_bytes: int = Field(default=64 * KIBIBYTE, gt=0)
    """Maximum size of a request's head, the request line with all header fields; a larger one gets 431."""
    head_fields: int = Field(default=100, gt=0)
    """Maximum number of header fields; more get 431."""
    target_bytes: int = Field(default=16 * KIBIBYTE, gt=0)
    """Maximum length of the request target, the path with the query; a longer one gets 414."""
    header_deadline_s: float = Field(default=10.0, gt=0)
    """Time limit for sending the head of a request."""
    connections: int = Field(default=2000, gt=0)
    """Connections of one process. Beyond these it closes those that have been idle longest, anonymous ones first; while
    all are in use it answers health checks and rejects other requests with 503."""
    idle_connections_per_address: int = Field(default=256, gt=0)
    """Idle connections of one client address without a valid token. The longest idle is closed first."""

    rate_limit: str = "500/second"
    """Requests of one token."""
    refused_rate_limit: str = "30/second"
    """Requests of one address with invalid tokens. Both rates count over all API processes of a host."""
    token_trust_s: float = Field(default=1.0, ge=0)
    """How long a token stays valid after another process revokes it; with 0 every request queries the store."""
    edge_poll_s: float = Field(default=300.0, gt=0)
    """Mean interval at which edge devices poll."""
    open_jobs_per_tenant: int = Field(default=1000, gt=0)
    """Unfinished jobs of a tenant."""
    open_bundles_per_tenant: int = Field(default=50, gt=0)
    """Bundles of a tenant that are not finished."""
    tenant_bundle_bytes: int = Field(default=4096 * MEBIBYTE, gt=0)
    """Total size of a tenant's bundles, above which it can ask for no more."""
    tenant_model_bytes: int = Field(default=4096 * MEBIBYTE, gt=0)
    """Total size of the models that a tenant's jobs keep for bundles. Beyond it, new jobs keep none."""
    tenant_release_bytes: int = Field(default=16384 * MEBIBYTE, gt=0)
    """Total size of the files of releases that a tenant has declared."""
    streams_per_tenant: int = Field(default=500, gt=0)
    """Open event streams of a tenant in each process of the API."""
    modules_per_job: int = Field(default=256, gt=0)

    threads: int = Field(default=2, gt=0)
    """Threads of each process that access the store. With six, eight concurrent requests took twice the processor time
    that they took with two, because the threads contend for the interpreter's lock. Add processes instead."""
    event_poll_s: float = Field(default=0.25, gt=0)
    """Polling interval of an event stream while there are events; it slows down to once a second."""
    heartbeat_s: float = Field(default=15.0, gt=0)
    """Seconds between comments on a silent event stream."""

    intake_at_once: int = Field(default=3, gt=0)
    """Concurrent intake children of one process. One tenant may use all but one of them."""
    intake_queue: int = Field(default=64, gt=0)
    """Requests that may wait for an intake child; more get 503."""
    intake_queue_per_tenant: int = Field(default=32, gt=0)
    """Requests of one tenant that may wait for an intake child; more get 429."""
    intake_timeout_s: float = Field(default=10.0, gt=0)
    """Time limit of an intake child for one request, except for a whole database."""
    databases_at_once: int = Field(default=2, gt=0)
    """Databases that are imported or exported at the same time. One tenant may use all but one of these slots."""
    import_timeout_s: float = Field(default=300.0, gt=0)
    intake_memory_bytes: int = Field(default=4096 * MEBIBYTE, gt=0)
    default_target: str = "host"
    """The target of a request without one."""
    host_cores: int | None = Field(default=None, gt=0)
    """Threads of the ``host`` target; the physical cores of this host if absent."""
