"""How a client finds its service, and to which services it sends its token."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from tunefarm.http.retrying import RetryPolicy
from tunefarm.http.service_address import ClientSettings, ServiceAddress, service_address
from tunefarm.http.transport import Transport
from tunefarm_schemas.bad_input import BadInput

LOCAL = "http://127.0.0.1:8177"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClientSettings:
    """Settings of a machine on which a service runs."""
    for name in ("TUNEFARM_API_URL", "TUNEFARM_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "api.json").write_text(json.dumps({"url": LOCAL, "process": 1}))
    (tmp_path / "token").write_text("tfk_local\n")
    (tmp_path / "token").chmod(0o600)
    return ClientSettings(home=tmp_path)


def secret(url: str | None, token: str | None, settings: ClientSettings) -> str | None:
    found = service_address(url, token, settings).token
    return None if found is None else found.get_secret_value()


def test_local_service_is_found_with_token(settings: ClientSettings) -> None:
    address = service_address(settings=settings)
    assert address.url == LOCAL
    assert secret(None, None, settings) == "tfk_local"
    assert "tfk_local" not in repr(address)


def test_arguments_override_environment_and_environment_overrides_files(settings: ClientSettings) -> None:
    named = settings.model_copy(update={"api_url": "https://farm.example/v1/"})
    assert service_address(settings=named).url == "https://farm.example"
    assert service_address("http://other:1", settings=named).url == "http://other:1"


def test_local_token_is_sent_only_to_local_service(settings: ClientSettings) -> None:
    assert secret("https://farm.example", None, settings) is None
    assert secret(LOCAL + "/", None, settings) == "tfk_local"
    assert secret("https://farm.example", "tfk_given", settings) == "tfk_given"


def test_readable_token_file_is_rejected_with_fix(settings: ClientSettings) -> None:
    (settings.home / "token").chmod(0o644)
    with pytest.raises(BadInput, match="chmod 600"):
        service_address(settings=settings)


def test_missing_service_and_invalid_url_are_bad_input(tmp_path: Path, settings: ClientSettings) -> None:
    with pytest.raises(BadInput, match="no service is known"):
        service_address(settings=settings.model_copy(update={"home": tmp_path / "elsewhere"}))
    with pytest.raises(BadInput, match="not the URL"):
        service_address("farm.example:80", settings=settings)


@pytest.mark.parametrize(
    ("url", "proxy", "needs_them"),
    [
        (LOCAL, "", False),
        (LOCAL, "http://proxy:3128", False),
        (LOCAL, "https://proxy:3128", True),
        ("https://farm.example", "", True),
        ("HTTPS://farm.example", "", True),
    ],
)
def test_certificates_are_loaded_only_where_a_connection_may_need_them(
    url: str, proxy: str, needs_them: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    monkeypatch.setenv("http_proxy", proxy)
    expected = pytest.raises(FileNotFoundError) if needs_them else nullcontext()
    with expected:
        Transport(ServiceAddress(url=url, token=None), RetryPolicy()).close()
