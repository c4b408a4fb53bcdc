"""Edge devices: enrolment, reports, channels, rollouts and their audit."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "channel_documents",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "channel", name=op.f("pk_channel_documents")),
    )
    op.create_table(
        "edge_devices",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("edge_device_id", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("enrolled_s", sa.Double(), nullable=False),
        sa.Column("revoked_s", sa.Double(), nullable=True),
        sa.Column("seen_s", sa.Double(), nullable=False),
        sa.Column("running", sa.Text(), nullable=True),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("dropped_reports", sa.Integer(), nullable=False),
        sa.Column("architecture", sa.Text(), nullable=False),
        sa.Column("cpu_features", sa.Text(), nullable=False),
        sa.Column("device_class_id", sa.Text(), nullable=True),
        sa.Column("runtime_abi", sa.Integer(), nullable=False),
        sa.Column("free_bytes", sa.BigInteger(), nullable=False),
        sa.Column("agent_version", sa.Text(), nullable=False),
        sa.Column("operating_system", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "edge_device_id", name=op.f("pk_edge_devices")),
    )
    op.create_index("ix_edge_devices_channel", "edge_devices", ["tenant", "channel", "edge_device_id"], unique=False)
    op.create_index("ix_edge_devices_token", "edge_devices", ["token_id"], unique=True)
    op.create_table(
        "enrolment_codes",
        sa.Column("code_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.Column("expires_s", sa.Double(), nullable=False),
        sa.Column("used_s", sa.Double(), nullable=True),
        sa.Column("edge_device_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("code_id", name=op.f("pk_enrolment_codes")),
    )
    op.create_index("ix_enrolment_codes_tenant", "enrolment_codes", ["tenant", "code_id"], unique=False)
    op.create_table(
        "fleet_audit",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("audit_id", sa.Text(), nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("token_id", sa.Text(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "audit_id", name=op.f("pk_fleet_audit")),
    )
    op.create_table(
        "rollouts",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("release", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("cutoff", sa.Double(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("began_s", sa.Double(), nullable=False),
        sa.Column("stage_began_s", sa.Double(), nullable=False),
        sa.Column("evaluated_s", sa.Double(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "channel", "sequence", name=op.f("pk_rollouts")),
    )
    op.create_table(
        "edge_evidence",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("edge_device_id", sa.Text(), nullable=False),
        sa.Column("release", sa.Text(), nullable=False),
        sa.Column("heard_s", sa.Double(), nullable=False),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("runs", sa.BigInteger(), nullable=False),
        sa.Column("p50_s", sa.Double(), nullable=True),
        sa.Column("p95_s", sa.Double(), nullable=True),
        sa.Column("is_drifting", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "edge_device_id"],
            ["edge_devices.tenant", "edge_devices.edge_device_id"],
            name=op.f("fk_edge_evidence_tenant_edge_device_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant", "edge_device_id", "release", name=op.f("pk_edge_evidence")),
    )
    op.create_index("ix_edge_evidence_release", "edge_evidence", ["tenant", "release"], unique=False)
    op.create_table(
        "edge_reports",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("edge_device_id", sa.Text(), nullable=False),
        sa.Column("report_id", sa.Text(), nullable=False),
        sa.Column("received_s", sa.Double(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("release", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "edge_device_id"],
            ["edge_devices.tenant", "edge_devices.edge_device_id"],
            name=op.f("fk_edge_reports_tenant_edge_device_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant", "edge_device_id", "report_id", name=op.f("pk_edge_reports")),
    )
    op.create_index("ix_edge_reports_received", "edge_reports", ["received_s"], unique=False)


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_edge_reports_received", table_name="edge_reports")
    op.drop_table("edge_reports")
    op.drop_index("ix_edge_evidence_release", table_name="edge_evidence")
    op.drop_table("edge_evidence")
    op.drop_table("rollouts")
    op.drop_table("fleet_audit")
    op.drop_index("ix_enrolment_codes_tenant", table_name="enrolment_codes")
    op.drop_table("enrolment_codes")
    op.drop_index("ix_edge_devices_token", table_name="edge_devices")
    op.drop_index("ix_edge_devices_channel", table_name="edge_devices")
    op.drop_table("edge_devices")
    op.drop_table("channel_documents")
