"""What commands on the same machine need to find the service: its address, and a token that only its owner can read."""

import json
import os
from pathlib import Path
from typing import Final

from tunefarm.startup.installation import private_folder
from tunefarm_sandbox.channel.private_files import write_private_file
from tunefarm_schemas.token import Scope
from tunefarm_services.settings import Settings
from tunefarm_services.store import LOCAL_TENANT
from tunefarm_services.store.tenants.token_repository import TokenRepository

ADDRESS_FILE: Final = "api.json"
TOKEN_FILE: Final = "token"  # noqa: S105 - the name of a file
TOKEN_NAME: Final = "commands on this machine"  # noqa: S105 - what it is for


class ConnectionFiles:
    """The two files under TUNEFARM_HOME. Both can be read by their owner only."""

    def __init__(self, settings: Settings) -> None:
        """Raises BadInput when TUNEFARM_HOME cannot be written."""
        self._folder = private_folder(settings, ".")
        self._address: str | None = None

    @property
    def token_path(self) -> Path:
        """Where the token is."""
        return self._folder / TOKEN_FILE

    def leave_token(self, tokens: TokenRepository) -> None:
        """Leave a token for this machine's commands, unless one is there that still works."""
        if self.token_path.exists() and tokens.authenticate(self.token_path.read_text().strip()) is not None:
            self.token_path.chmod(0o600)
            return
        for token in tokens.of_tenant(LOCAL_TENANT):
            if token.name == TOKEN_NAME and token.revoked_at is None:
                tokens.revoke(LOCAL_TENANT, token.token_id)  # its text is lost
        _, text = tokens.create(LOCAL_TENANT, TOKEN_NAME, tuple(Scope))
        self._write(TOKEN_FILE, text + "\n")

    def leave_address(self, url: str) -> None:
        """Say where the service answers."""
        self._address = json.dumps({"url": url, "process": os.getpid()}) + "\n"
        self._write(ADDRESS_FILE, self._address)

    def withdraw_address(self) -> None:
        """Take the address away, unless another process has put its own there."""
        path = self._folder / ADDRESS_FILE
        if self._address is not None and path.exists() and path.read_text() == self._address:
            path.unlink(missing_ok=True)

    def _write(self, name: str, text: str) -> None:
        """Put a file in place whole, never readable by others even for an instant."""
        write_private_file(self._folder / name, text.encode())
