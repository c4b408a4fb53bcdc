"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "cost_model_snapshots",
        sa.Column("snapshot_number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("device_class_id", sa.Text(), nullable=False),
        sa.Column("model_digest", sa.Text(), nullable=False),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("snapshot_number", name=op.f("pk_cost_model_snapshots")),
    )
    with op.batch_alter_table("cost_model_snapshots") as batch_op:
        batch_op.create_index("ix_cost_model_snapshots_blob", ["model_digest"], unique=False)
        batch_op.create_index(
            "ix_cost_model_snapshots_latest",
            ["tenant", "target_id", "device_class_id", "snapshot_number"],
            unique=False,
        )

    op.create_table(
        "device_classes",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("device_class_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "device_class_id", name=op.f("pk_device_classes")),
    )
    op.create_table(
        "events",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "job_id", "sequence", name=op.f("pk_events")),
    )
    op.create_table(
        "jobs",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.Text(), nullable=True),
        sa.Column("request", sa.Text(), nullable=True),
        sa.Column("search_deaths", sa.Integer(), nullable=False),
        sa.Column("last_sequence", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("lease_expires_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "job_id", name=op.f("pk_jobs")),
    )
    with op.batch_alter_table("jobs") as batch_op:
        batch_op.create_index("ix_jobs_queue", ["tenant", "state", "priority", "job_id"], unique=False)

    op.create_table(
        "targets",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("canonical", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("num_cores", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "target_id", name=op.f("pk_targets")),
    )
    op.create_table(
        "workloads",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("structural_hash", sa.Text(), nullable=False),
        sa.Column("tvm_version", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("floating_point_operations", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "workload_id", name=op.f("pk_workloads")),
    )
    with op.batch_alter_table("workloads") as batch_op:
        batch_op.create_index("ix_workloads_blob", ["workload_id"], unique=False)
        batch_op.create_index("ix_workloads_family", ["tenant", "family"], unique=False)
        batch_op.create_index("ix_workloads_hash", ["tenant", "structural_hash", "tvm_version"], unique=False)

    op.create_table(
        "devices",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("host_name", sa.Text(), nullable=False),
        sa.Column("device_class_id", sa.Text(), nullable=False),
        sa.Column("compute_s", sa.Double(), nullable=False),
        sa.Column("bandwidth_s", sa.Double(), nullable=False),
        sa.Column("launch_s", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "device_class_id"],
            ["device_classes.tenant", "device_classes.device_class_id"],
            name=op.f("fk_devices_tenant_device_class_id"),
        ),
        sa.PrimaryKeyConstraint("tenant", "fingerprint", name=op.f("pk_devices")),
    )
    op.create_table(
        "explorations",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("exploration_id", sa.Text(), nullable=False),
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("device_class_id", sa.Text(), nullable=False),
        sa.Column("code_generator", sa.Text(), nullable=False),
        sa.Column("protocol_id", sa.Text(), nullable=False),
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("abi", sa.Text(), nullable=False),
        sa.Column("fresh_for", sa.Text(), nullable=False),
        sa.Column("spent_trials", sa.Integer(), nullable=False),
        sa.Column("spent_seconds", sa.Double(), nullable=False),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column("best_latency_s", sa.Double(), nullable=True),
        sa.Column("holder_job_id", sa.Text(), nullable=True),
        sa.Column("holder_fence", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "workload_id"],
            ["workloads.tenant", "workloads.workload_id"],
            name=op.f("fk_explorations_tenant_workload_id"),
        ),
        sa.PrimaryKeyConstraint("tenant", "exploration_id", name=op.f("pk_explorations")),
    )
    with op.batch_alter_table("explorations") as batch_op:
        batch_op.create_index("ix_explorations_workload", ["tenant", "workload_id"], unique=False)

    op.create_table(
        "job_labels",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "job_id"],
            ["jobs.tenant", "jobs.job_id"],
            name=op.f("fk_job_labels_tenant_job_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant", "job_id", "name", name=op.f("pk_job_labels")),
    )
    with op.batch_alter_table("job_labels") as batch_op:
        batch_op.create_index("ix_job_labels_value", ["tenant", "name", "value"], unique=False)

    op.create_table(
        "tasks",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "job_id"],
            ["jobs.tenant", "jobs.job_id"],
            name=op.f("fk_tasks_tenant_job_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "target_id"], ["targets.tenant", "targets.target_id"], name=op.f("fk_tasks_tenant_target_id")
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "workload_id"],
            ["workloads.tenant", "workloads.workload_id"],
            name=op.f("fk_tasks_tenant_workload_id"),
        ),
        sa.PrimaryKeyConstraint("tenant", "job_id", "position", name=op.f("pk_tasks")),
    )
    with op.batch_alter_table("tasks") as batch_op:
        batch_op.create_index("ix_tasks_workload", ["tenant", "workload_id"], unique=False)

    op.create_table(
        "tuning_records",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("record_id", sa.Text(), nullable=False),
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("device_class_id", sa.Text(), nullable=False),
        sa.Column("code_generator", sa.Text(), nullable=False),
        sa.Column("protocol_id", sa.Text(), nullable=False),
        sa.Column("abi", sa.Text(), nullable=False),
        sa.Column("trace", sa.Text(), nullable=False),
        sa.Column("latency_s", sa.Double(), nullable=False),
        sa.Column("interval_low_s", sa.Double(), nullable=True),
        sa.Column("interval_high_s", sa.Double(), nullable=True),
        sa.Column("untuned_latency_s", sa.Double(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("status_reason", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("exploration_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "workload_id"],
            ["workloads.tenant", "workloads.workload_id"],
            name=op.f("fk_tuning_records_tenant_workload_id"),
        ),
        sa.PrimaryKeyConstraint("tenant", "record_id", name=op.f("pk_tuning_records")),
    )
    with op.batch_alter_table("tuning_records") as batch_op:
        batch_op.create_index(
            "ix_tuning_records_best",
            [
                "tenant",
                "workload_id",
                "target_id",
                "device_class_id",
                "code_generator",
                "protocol_id",
                "abi",
                "status",
                "latency_s",
            ],
            unique=False,
        )
        batch_op.create_index(
            "ix_tuning_records_workload", ["tenant", "workload_id", "status", "latency_s"], unique=False
        )

    op.create_table(
        "artifacts",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("artifact_id", sa.Text(), nullable=False),
        sa.Column("record_id", sa.Text(), nullable=False),
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("library_digest", sa.Text(), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "record_id"],
            ["tuning_records.tenant", "tuning_records.record_id"],
            name=op.f("fk_artifacts_tenant_record_id"),
        ),
        sa.PrimaryKeyConstraint("tenant", "artifact_id", name=op.f("pk_artifacts")),
    )
    with op.batch_alter_table("artifacts") as batch_op:
        batch_op.create_index("ix_artifacts_blob", ["library_digest"], unique=False)
        batch_op.create_index("ix_artifacts_record", ["tenant", "record_id"], unique=False)
        batch_op.create_index("ix_artifacts_workload", ["tenant", "workload_id"], unique=False)

    op.create_table(
        "trials",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("exploration_id", sa.Text(), nullable=False),
        sa.Column("candidate_number", sa.Integer(), nullable=False),
        sa.Column("trace", sa.Text(), nullable=False),
        sa.Column("module_hash", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("predicted_score", sa.Double(), nullable=True),
        sa.Column("predicted_build_s", sa.Double(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("is_counted", sa.Boolean(), nullable=False),
        sa.Column("latency_s", sa.Double(), nullable=True),
        sa.Column("at_least_s", sa.Double(), nullable=True),
        sa.Column("failure_reason", sa.Text(), nullable=True),
        sa.Column("failure_message", sa.Text(), nullable=True),
        sa.Column("failure_under_load", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant", "exploration_id"],
            ["explorations.tenant", "explorations.exploration_id"],
            name=op.f("fk_trials_tenant_exploration_id"),
        ),
        sa.PrimaryKeyConstraint("tenant", "exploration_id", "candidate_number", name=op.f("pk_trials")),
    )
    with op.batch_alter_table("trials") as batch_op:
        batch_op.create_index("ix_trials_latency", ["tenant", "exploration_id", "latency_s"], unique=False)

    op.create_table(
        "dispatches",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("exploration_id", sa.Text(), nullable=False),
        sa.Column("candidate_number", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("dispatch_id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "exploration_id", "candidate_number"],
            ["trials.tenant", "trials.exploration_id", "trials.candidate_number"],
            name=op.f("fk_dispatches_tenant_exploration_id_candidate_number"),
        ),
        sa.PrimaryKeyConstraint(
            "tenant", "exploration_id", "candidate_number", "attempt", "purpose", name=op.f("pk_dispatches")
        ),
    )
    op.create_table(
        "measurements",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("exploration_id", sa.Text(), nullable=False),
        sa.Column("candidate_number", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("latency_s", sa.Double(), nullable=True),
        sa.Column("failure_reason", sa.Text(), nullable=True),
        sa.Column("device_fingerprint", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("measured_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "exploration_id", "candidate_number"],
            ["trials.tenant", "trials.exploration_id", "trials.candidate_number"],
            name=op.f("fk_measurements_tenant_exploration_id_candidate_number"),
        ),
        sa.PrimaryKeyConstraint(
            "tenant", "exploration_id", "candidate_number", "attempt", "purpose", name=op.f("pk_measurements")
        ),
    )


def downgrade() -> None:
    """Drop every table, children first."""
    op.drop_table("measurements")
    op.drop_table("dispatches")
    with op.batch_alter_table("trials") as batch_op:
        batch_op.drop_index("ix_trials_latency")

    op.drop_table("trials")
    with op.batch_alter_table("artifacts") as batch_op:
        batch_op.drop_index("ix_artifacts_workload")
        batch_op.drop_index("ix_artifacts_record")
        batch_op.drop_index("ix_artifacts_blob")

    op.drop_table("artifacts")
    with op.batch_alter_table("tuning_records") as batch_op:
        batch_op.drop_index("ix_tuning_records_workload")
        batch_op.drop_index("ix_tuning_records_best")

    op.drop_table("tuning_records")
    with op.batch_alter_table("tasks") as batch_op:
        batch_op.drop_index("ix_tasks_workload")

    op.drop_table("tasks")
    with op.batch_alter_table("job_labels") as batch_op:
        batch_op.drop_index("ix_job_labels_value")

    op.drop_table("job_labels")
    with op.batch_alter_table("explorations") as batch_op:
        batch_op.drop_index("ix_explorations_workload")

    op.drop_table("explorations")
    op.drop_table("devices")
    with op.batch_alter_table("workloads") as batch_op:
        batch_op.drop_index("ix_workloads_hash")
        batch_op.drop_index("ix_workloads_family")
        batch_op.drop_index("ix_workloads_blob")

    op.drop_table("workloads")
    op.drop_table("targets")
    with op.batch_alter_table("jobs") as batch_op:
        batch_op.drop_index("ix_jobs_queue")

    op.drop_table("jobs")
    op.drop_table("events")
    op.drop_table("device_classes")
    with op.batch_alter_table("cost_model_snapshots") as batch_op:
        batch_op.drop_index("ix_cost_model_snapshots_latest")
        batch_op.drop_index("ix_cost_model_snapshots_blob")

    op.drop_table("cost_model_snapshots")
