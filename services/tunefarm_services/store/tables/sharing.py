"""Tenants that share trials and records."""

from sqlalchemy import Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class SharingTenantTable(Table):
    """One row for each tenant that is in a sharing group."""

    __tablename__ = "sharing_tenants"
    __table_args__ = (Index("ix_sharing_tenants_group", "sharing_group", "tenant"),)

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    sharing_group: Mapped[str] = mapped_column(Text)
    joined_at: Mapped[str] = mapped_column(Text)
