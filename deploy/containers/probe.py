#!/usr/bin/env python3
"""Asks a health page and exits with 0 when it says well: what health checks of containers call.

    probe URL [CA_FILE]

The certificate has to be signed by CA_FILE; an address of this host stands for the name in the certificate.
"""

import ssl
import sys
import urllib.error
import urllib.request

TIMEOUT_S = 4.0


def main(arguments: list[str]) -> int:
    """0 when the page answers 200, 1 when not, 2 when it was called wrongly."""
    if not 1 <= len(arguments) <= 2 or not arguments[0].startswith(("http://", "https://")):
        print("usage: probe URL [CA_FILE]", file=sys.stderr)
        return 2
    context = ssl.create_default_context(cafile=arguments[1]) if len(arguments) > 1 else None
    # Bypass any proxy from the environment: the probe is for this host only.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(arguments[0], timeout=TIMEOUT_S) as answer:
            return 0 if answer.status == 200 else 1
    except (OSError, urllib.error.URLError) as error:
        print(f"probe: {arguments[0]}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
