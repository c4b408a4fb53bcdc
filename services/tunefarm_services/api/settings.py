"""What the environment says about an API process."""

from typing import Final

from pydantic import Field

from tunefarm_services.settings import Settings

KIBIBYTE: Final = 1 << 10
MEBIBYTE: Final = 1 << 20


class ApiSettings(Settings):
    """Limits of the API. Each field is the environment variable of its name with ``TUNEFARM_`` before.

    Rates are written as ``limits`` reads them, such as ``500/second`` or ``100/second;2000/minute``.
    """

    public_docs: bool = False
    """Whether /openapi.json and the page /docs are shown without a token. They hold no data, and browsers send none."""
    metrics_on_loopback: bool = False
    """Whether /metrics is answered without a token to callers on this host."""
    operator_tenants: tuple[str, ...] = ("operator", "local")
    """Tenants whose tokens may see figures of the whole farm."""

    body_bytes: int = Field(default=16 * MEBIBYTE, gt=0)
    """Largest body of a request but for a piece of an upload."""
    upload_piece_bytes: int = Field(default=16 * MEBIBYTE, gt=0)
    """Largest piece of an upload."""
    upload_least_piece_bytes: int = Field(default=64 * KIBIBYTE, ge=0)
    """Smallest piece of an upload but for its last. Each is a row and a blob."""
    upload_bytes: int = Field(default=256 * MEBIBYTE, gt=0)
    """Largest upload."""
    tenant_upload_bytes: int = Field(default=1024 * MEBIBYTE, gt=0)
    """Size of all uploads of a tenant together."""
    json_depth: int = Field(default=100, gt=0, le=190)
    """How deep objects and arrays may be nested, in a body and in the JSON text that it carries."""
    json_values: int = Field(default=100_000, gt=0)
    """Most values of a body: elements of arrays and members of objects. A thousand cost about 0.3 ms of the event loop,
    during which no other request is answered."""
    module_json_values: int = Field(default=4_000_000, gt=0)
    """Most values of the JSON text of a module, which a confined process decodes."""
    body_deadline_s: float = Field(default=30.0, gt=0)
    """How long a client may take to send a body."""
    bodies_per_tenant: int = Field(default=64, gt=0)
    """Bodies that a tenant may be sending to one process at the same time; more are answered 429."""
    body_bytes_per_tenant: int = Field(default=128 * MEBIBYTE, gt=0)
    """Bytes of the bodies that one process holds for a tenant; more are answered 429."""

    head_bytes: int = Field(default=64 * KIBIBYTE, gt=0)
    """Largest head of a request: the request line with all header fields. A larger one is answered 431."""
    head_fields: int = Field(default=100, gt=0)
    """Most header fields of a request; more are answered 431."""
    target_bytes: int = Field(default=16 * KIBIBYTE, gt=0)
    """Longest request target, which is the path with the query. A longer one is answered 414."""
    header_deadline_s: float = Field(default=10.0, gt=0)
    """How long a client may take to send the head of a request."""
    connections: int = Field(default=2000, gt=0)
    """Connections of one process. Beyond these it closes those that have been idle longest, anonymous ones first; while
    all are in use it answers health checks and refuses other requests with 503."""
    idle_connections_per_address: int = Field(default=256, gt=0)
    """Idle connections of one client address that have shown no valid token. The longest idle is closed first."""

    rate_limit: str = "500/second"
    """Requests of one token."""
    refused_rate_limit: str = "30/second"
    """Requests of one address with a token that is not valid. Both count for all API processes of a host together."""
    token_trust_s: float = Field(default=1.0, ge=0)
    """How long a token that another process revokes may still work, at most; with 0 every request asks the store."""
    open_jobs_per_tenant: int = Field(default=1000, gt=0)
    """Jobs of a tenant that are not finished."""
    streams_per_tenant: int = Field(default=500, gt=0)
    """Event streams of a tenant that each process of the API holds open."""
    modules_per_job: int = Field(default=256, gt=0)

    threads: int = Field(default=2, gt=0)
    """Threads of each process that talk to the store. With six, eight requests at once took twice the processor time
    that they took with two: the interpreter's lock goes from hand to hand. Add processes instead."""
    event_poll_s: float = Field(default=0.25, gt=0)
    """How often an event stream looks for news while there are some; it slows down to once a second."""
    heartbeat_s: float = Field(default=15.0, gt=0)
    """Seconds between comments on a silent event stream."""

    intake_at_once: int = Field(default=3, gt=0)
    """Intake children of one process at the same time. One tenant has all but one of them at most."""
    intake_queue: int = Field(default=64, gt=0)
    """Requests that may wait for an intake child; more are answered 503."""
    intake_queue_per_tenant: int = Field(default=32, gt=0)
    """Requests of one tenant that may wait for an intake child; more are answered 429."""
    intake_timeout_s: float = Field(default=10.0, gt=0)
    """How long an intake child may take to read what one request brings, but for a whole database."""
    databases_at_once: int = Field(default=2, gt=0)
    """Whole databases that are read or written at the same time. One tenant has all but one of them at most."""
    import_timeout_s: float = Field(default=300.0, gt=0)
    intake_memory_bytes: int = Field(default=4096 * MEBIBYTE, gt=0)
    default_target: str = "host"
    """The target of a request that names none."""
    host_cores: int | None = Field(default=None, gt=0)
    """Threads of the ``host`` target; the physical cores of this host when absent."""
