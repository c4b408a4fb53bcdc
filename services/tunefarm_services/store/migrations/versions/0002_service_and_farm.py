"""The service and the farm: tokens, lanes, uploads, usage, the queue over all tenants, and the best record of a key."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_KEY = ["tenant", "workload_id", "target_id", "device_class_id", "code_generator", "protocol_id", "abi"]
_FILL_BEST = """
INSERT INTO best_records
    (tenant, workload_id, target_id, device_class_id, code_generator, protocol_id, abi, record_id, latency_s)
SELECT tenant, workload_id, target_id, device_class_id, code_generator, protocol_id, abi, record_id, latency_s
FROM (
    SELECT tenant, workload_id, target_id, device_class_id, code_generator, protocol_id, abi, record_id, latency_s,
        row_number() OVER (
            PARTITION BY tenant, workload_id, target_id, device_class_id, code_generator, protocol_id, abi
            ORDER BY latency_s, record_id
        ) AS place
    FROM tuning_records WHERE status = 'verified'
) AS ranked
WHERE place = 1
"""


def upgrade() -> None:
    """Create the new tables, and fill those that can be filled from the old ones."""
    _make_access_tables()
    _make_farm_tables()
    op.create_table(
        "job_explorations",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("exploration_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "exploration_id"],
            ["explorations.tenant", "explorations.exploration_id"],
            name=op.f("fk_job_explorations_tenant_exploration_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "job_id"],
            ["jobs.tenant", "jobs.job_id"],
            name=op.f("fk_job_explorations_tenant_job_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant", "job_id", "exploration_id", name=op.f("pk_job_explorations")),
    )
    op.create_index("ix_job_explorations_exploration", "job_explorations", ["tenant", "exploration_id"])
    op.execute(
        "INSERT INTO job_explorations (tenant, job_id, exploration_id) "
        "SELECT DISTINCT d.tenant, d.job_id, d.exploration_id FROM dispatches AS d "
        "JOIN jobs AS j ON j.tenant = d.tenant AND j.job_id = d.job_id"
    )
    # In place: rebuilding the table would delete the rows that reference it.
    op.add_column("jobs", sa.Column("kind", sa.Text(), server_default="tune", nullable=False))
    op.add_column("jobs", sa.Column("device_class_id", sa.Text(), nullable=True))
    op.create_index(
        "ix_jobs_open",
        "jobs",
        ["tenant", "priority", "job_id"],
        sqlite_where=sa.text("state <> 'finished'"),
        postgresql_where=sa.text("state <> 'finished'"),
    )
    op.drop_index("ix_workloads_family", "workloads")
    op.create_index(
        "ix_workloads_family", "workloads", ["tenant", "family", "floating_point_operations", "workload_id"]
    )
    _index_records()


def downgrade() -> None:
    """Drop the new tables. Tokens, lanes, uploads and usage are lost."""
    op.drop_index("ix_tuning_records_unverified", "tuning_records")
    op.drop_index("ix_tuning_records_workload", "tuning_records")
    op.create_index("ix_tuning_records_workload", "tuning_records", ["tenant", "workload_id", "status", "latency_s"])
    op.create_index("ix_tuning_records_best", "tuning_records", [*_KEY, "status", "latency_s"])
    op.drop_index("ix_workloads_family", "workloads")
    op.create_index("ix_workloads_family", "workloads", ["tenant", "family"])
    op.drop_index("ix_jobs_open", "jobs")
    op.execute("ALTER TABLE jobs DROP COLUMN device_class_id")
    op.execute("ALTER TABLE jobs DROP COLUMN kind")
    for table in (
        "best_records",
        "job_explorations",
        "tenant_shares",
        "usage",
        "lanes",
        "upload_pieces",
        "uploads",
        "idempotency_keys",
        "server_secrets",
        "tokens",
    ):
        op.drop_table(table)


def _make_access_tables() -> None:
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Text(), nullable=True),
        sa.Column("revoked_at", sa.Text(), nullable=True),
        sa.Column("last_used_at", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("token_id", name=op.f("pk_tokens")),
    )
    op.create_index("ix_tokens_tenant", "tokens", ["tenant", "token_id"])
    op.create_table(
        "server_secrets",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", name=op.f("pk_server_secrets")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.Text(), nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.Column("claimed_s", sa.Double(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", sa.Text(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index("ix_idempotency_keys_age", "idempotency_keys", ["created_s"])
    op.create_table(
        "uploads",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("upload_id", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("received_bytes", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "upload_id", name=op.f("pk_uploads")),
    )
    op.create_index("ix_uploads_age", "uploads", ["created_at"])
    op.create_table(
        "upload_pieces",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("upload_id", sa.Text(), nullable=False),
        sa.Column("offset_bytes", sa.BigInteger(), nullable=False),
        sa.Column("blob_digest", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "upload_id"],
            ["uploads.tenant", "uploads.upload_id"],
            name=op.f("fk_upload_pieces_tenant_upload_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant", "upload_id", "offset_bytes", name=op.f("pk_upload_pieces")),
    )
    op.create_index("ix_upload_pieces_blob", "upload_pieces", ["blob_digest"])


def _make_farm_tables() -> None:
    op.create_table(
        "lanes",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("lane_id", sa.Text(), nullable=False),
        sa.Column("device_class_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("heard_s", sa.Double(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "lane_id", name=op.f("pk_lanes")),
    )
    op.create_index("ix_lanes_class", "lanes", ["tenant", "device_class_id"])
    op.create_table(
        "usage",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        sa.Column("device_class_id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("device_seconds", sa.Double(), nullable=False),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "day", "device_class_id", "job_id", name=op.f("pk_usage")),
    )
    op.create_index("ix_usage_job", "usage", ["tenant", "job_id"])
    op.create_table(
        "tenant_shares",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("level", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_tenant_shares")),
    )


def _index_records() -> None:
    op.create_table(
        "best_records",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("device_class_id", sa.Text(), nullable=False),
        sa.Column("code_generator", sa.Text(), nullable=False),
        sa.Column("protocol_id", sa.Text(), nullable=False),
        sa.Column("abi", sa.Text(), nullable=False),
        sa.Column("record_id", sa.Text(), nullable=False),
        sa.Column("latency_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "record_id"],
            ["tuning_records.tenant", "tuning_records.record_id"],
            name=op.f("fk_best_records_tenant_record_id"),
        ),
        sa.PrimaryKeyConstraint(*_KEY, name=op.f("pk_best_records")),
    )
    op.execute(_FILL_BEST)
    op.create_index("ix_best_records_workload", "best_records", ["tenant", "workload_id", "latency_s"])
    op.drop_index("ix_tuning_records_best", "tuning_records")
    op.drop_index("ix_tuning_records_workload", "tuning_records")
    op.create_index(
        "ix_tuning_records_workload",
        "tuning_records",
        ["tenant", "workload_id", "status", "latency_s", "record_id"],
    )
    op.create_index(
        "ix_tuning_records_unverified",
        "tuning_records",
        ["tenant", "status", "record_id"],
        sqlite_where=sa.text("status <> 'verified'"),
        postgresql_where=sa.text("status <> 'verified'"),
    )
