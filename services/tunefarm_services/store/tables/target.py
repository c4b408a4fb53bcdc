"""Targets."""

from sqlalchemy import Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class TargetTable(Table):
    """One row for each target of a tenant."""

    __tablename__ = "targets"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    target_id: Mapped[str] = mapped_column(Text, primary_key=True)
    canonical: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text)
    num_cores: Mapped[int]
    created_at: Mapped[str] = mapped_column(Text)
