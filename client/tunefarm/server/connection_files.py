"""Files by which commands on the same machine find the service: its address, and a token readable by its owner only."""

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
TOKEN_NAME: Final = "commands on this machine"  # noqa: S105 - the name of a token


class ConnectionFiles:
    """The two files under TUNEFARM_HOME. Only their owner can read them."""

    def __init__(self, settings: Settings) -> None:
        """Raises BadInput when TUNEFARM_HOME cannot be written."""
        self._folder = private_folder(settings, ".")
        self._address: str | None = None

    @property
    def token_path(self) -> Path:
        """The path of the token file."""
        return self._folder / TOKEN_FILE

    def leave_token(self, tokens: TokenRepository) -> None:
        """Write a token for this machine's commands, unless the file has a valid one."""
        if self.token_path.exists() and tokens.authenticate(self.token_path.read_text().strip()) is not None:
            self.token_path.chmod(0o600)
            return
        for token in tokens.of_tenant(LOCAL_TENANT):
            if token.name == TOKEN_NAME and token.revoked_at is None:
                tokens.revoke(LOCAL_TENANT, token.token_id)  # its secret cannot be recovered
        _, text = tokens.create(LOCAL_TENANT, TOKEN_NAME, tuple(Scope))
        self._write(TOKEN_FILE, text + "\n")

    def leave_address(self, url: str) -> None:
        """Write the service's address."""
        self._address = json.dumps({"url": url, "process": os.getpid()}) + "\n"
        self._write(ADDRESS_FILE, self._address)

    def withdraw_address(self) -> None:
        """Remove the address, unless another process has written its own."""
        path = self._folder / ADDRESS_FILE
        if self._address is not None and path.exists() and path.read_text() == self._address:
            path.unlink(missing_ok=True)

    def _write(self, name: str, text: str) -> None:
        """Write a file atomically; others can never read it, not even while it is written."""
        write_private_file(self._folder / name, text.encode())
