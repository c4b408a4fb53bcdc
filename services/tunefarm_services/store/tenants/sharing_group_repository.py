"""Sharing groups: tenants that use each other's trials and records of the functions that they have in common."""

from typing import Final

from sqlalchemy import Connection, bindparam, delete, select
from sqlalchemy.orm import aliased

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.clock import utc_now
from tunefarm_services.store.database.insert_once import insert_once
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.tables import SharingTenantTable

MAX_NAME_CHARACTERS: Final = 100

_MEMBER, _ITSELF = aliased(SharingTenantTable), aliased(SharingTenantTable)
_PARTNERS: Final = (
    select(_MEMBER.tenant)
    .join(_ITSELF, _ITSELF.sharing_group == _MEMBER.sharing_group)
    .where(_ITSELF.tenant == bindparam("tenant"), _MEMBER.tenant != bindparam("tenant"))
    .order_by(_MEMBER.tenant)
)
_GROUP: Final = select(SharingTenantTable.sharing_group).where(SharingTenantTable.tenant == bindparam("tenant"))
_ALL: Final = select(SharingTenantTable.sharing_group, SharingTenantTable.tenant).order_by(
    SharingTenantTable.sharing_group, SharingTenantTable.tenant
)


class SharingGroupRepository(Repository):
    """Sharing groups. A tenant is in one at most, and a group without tenants does not exist."""

    @retried
    def join(self, group: str, tenant: str) -> None:
        """Add a tenant to a group. Repeating it has no effect.

        Raises BadInput if a name is empty or longer than ``MAX_NAME_CHARACTERS``, or if it is in another group.
        """
        for field, name in (("GROUP", group), ("TENANT", tenant)):
            if not name.strip() or len(name) > MAX_NAME_CHARACTERS:
                raise BadInput(field, "the name is empty or too long.", f"Use 1 to {MAX_NAME_CHARACTERS} characters.")
        row = {"tenant": tenant, "sharing_group": group, "joined_at": utc_now()}
        with self._database.writing() as connection:
            if connection.execute(insert_once(connection, SharingTenantTable), row).rowcount:
                return
            current = connection.execute(_GROUP, {"tenant": tenant}).scalar_one()
        if current != group:
            raise BadInput("TENANT", f"{tenant} is in the group {current}.", "Let it leave that group first.")

    @retried
    def leave(self, tenant: str) -> None:
        """Remove a tenant from its group. It keeps what it has already taken over. Raises NotFound."""
        removed = delete(SharingTenantTable).where(SharingTenantTable.tenant == tenant)
        with self._database.writing() as connection:
            if not connection.execute(removed).rowcount:
                raise NotFound("tenant of a sharing group", tenant)

    def all(self) -> dict[str, tuple[str, ...]]:
        """The tenants of each group, by name."""
        groups: dict[str, tuple[str, ...]] = {}
        with self._database.reading() as connection:
            for row in connection.execute(_ALL):
                groups[row.sharing_group] = (*groups.get(row.sharing_group, ()), row.tenant)
        return groups


def partners_of(connection: Connection, tenant: str) -> list[str]:
    """The other tenants of the tenant's sharing group, in order."""
    return list(connection.execute(_PARTNERS, {"tenant": tenant}).scalars())
