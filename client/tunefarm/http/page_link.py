"""A link that opens the service's pages in a browser, logged in."""

from typing import Final

import httpx

from tunefarm.http.api_error import ServiceUnreachable
from tunefarm.http.service_address import service_address
from tunefarm_schemas.bad_input import BadInput

_TIMEOUT_S: Final = 10.0
_CREATED: Final = 201


def page_link(api: str | None = None) -> str:
    """Ask the service for a link that works once, within a minute.

    Raises:
        BadInput: no service or token is known, or the service does not accept the token.
        ServiceUnreachable: the service does not answer.
    """
    address = service_address(api)
    secret = address.token.get_secret_value() if address.token is not None else ""
    try:
        reply = httpx.post(
            f"{address.url}/dashboard/links", headers={"Authorization": f"Bearer {secret}"}, timeout=_TIMEOUT_S
        )
    except httpx.HTTPError as error:
        raise ServiceUnreachable(address.url, str(error)) from error
    if reply.status_code != _CREATED:
        problem = f"the service answered {reply.status_code} to the request for a link."
        raise BadInput("api", problem, "Set TUNEFARM_API_TOKEN to a valid token: tunefarm token create NAME.")
    return f"{address.url}{reply.json()['path']}"
