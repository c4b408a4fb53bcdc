"""Pages over the API's fresh SQLite store, seen by two tenants."""

from tests.api.conftest import app, app_with, home, intake, settings, shared_store, store

__all__ = ["app", "app_with", "home", "intake", "settings", "shared_store", "store"]
