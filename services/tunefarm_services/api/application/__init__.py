"""The API as one ASGI application, with its OpenAPI document."""
