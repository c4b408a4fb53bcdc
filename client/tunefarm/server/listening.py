"""The address on which the API listens, and the rules for it."""

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tunefarm_schemas.bad_input import BadInput

DEFAULT_PORT: Final = 8177
_BACKLOG: Final = 512


@dataclass(frozen=True)
class Listening:
    """An address with its TLS files. Port 0 selects a free port."""

    host: str
    port: int
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    allow_plain_http: bool = False

    def check(self) -> None:
        """Reject a configuration that would send tokens over a network unencrypted.

        Raises:
            BadInput: an option is invalid, or the address is not a loopback address and neither TLS nor plain HTTP is
                configured.
        """
        if not 0 <= self.port <= 65535:
            raise BadInput("--port", f"{self.port} is not a port.", "Give one from 1 to 65535, or 0 for a free one.")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise BadInput("--tls-certificate", "a certificate requires a key.", "Give both or neither.")
        for option, path in (("--tls-certificate", self.tls_certificate), ("--tls-key", self.tls_key)):
            if path is not None and not path.is_file():
                raise BadInput(option, f"there is no file {path}.", "Give a PEM file.")
        if self.is_loopback or self.tls_certificate is not None or self.allow_plain_http:
            return
        problem = f"{self.host} can be reached by other machines, and without TLS they can read every token."
        fix = "Give --tls-certificate and --tls-key; or --allow-plain-http if a proxy encrypts."
        raise BadInput("--host", problem, fix)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def bind(self) -> socket.socket:
        """Open a listening socket.

        Raises:
            BadInput: the address is in use or does not belong to this machine.
        """
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listener = socket.socket(family, kind, protocol)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError as error:
            problem = f"cannot listen on {self.host}:{self.port} ({error.strerror or error})."
            raise BadInput(
                "--port", problem, "Choose another port with --port, or stop the process that uses it."
            ) from error
        return listener

    def url(self, listener: socket.socket) -> str:
        """The URL for clients on this or other machines, without a path."""
        scheme = "http" if self.tls_certificate is None else "https"
        port = listener.getsockname()[1]
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)  # noqa: S104
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
