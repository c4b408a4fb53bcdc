"""The common root of all tables."""

from sqlalchemy import MetaData
from sqlalchemy.orm import DeclarativeBase

# Fixed constraint names, so that a migration can refer to them in every database.
_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Table(DeclarativeBase):
    """A table whose every row has a tenant."""

    metadata = MetaData(naming_convention=_NAMES)
