"""What every request passes through, as plain ASGI: log, token and rate, body, repeat. In this order."""
