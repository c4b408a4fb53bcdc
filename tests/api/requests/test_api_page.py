"""The service itself serves all parts of its API page, which works under its content security policy."""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

import pytest

from tests.api.people import caller_of
from tunefarm_services.api.application.app import create_app
from tunefarm_services.api.pages.page_files import PAGE_FILES

TYPES = {
    "/docs": "text/html; charset=utf-8",
    "/docs/api-page.js": "text/javascript; charset=utf-8",
    "/docs/swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "/docs/swagger-ui.css": "text/css; charset=utf-8",
    "/docs/favicon-32x32.png": "image/png",
}
FOREIGN = re.compile(r"https?:|//[a-z0-9.-]+\.[a-z]{2,}", re.IGNORECASE)


class Addresses(HTMLParser):
    """The resources that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.found += [given[name] for name in ("src", "href") if name in given]
        self.inline += [name for name in given if name.startswith("on") or name == "style"]
        if tag == "style" or (tag == "script" and "src" not in given):
            self.inline.append(tag)


@pytest.fixture(scope="module")
def visitor(shared_store, settings, intake):
    """A browser, which sends no token."""
    return caller_of(create_app(shared_store, settings.model_copy(update={"public_docs": True}), intake=intake))


def test_page_resources_are_served_with_their_types(visitor):
    page = visitor.get("/docs")
    assert page.headers["content-type"] == TYPES["/docs"]
    addresses = Addresses()
    addresses.feed(page.text)
    assert {urljoin("/docs", address) for address in addresses.found} == set(TYPES) - {"/docs"}
    for path, media_type in TYPES.items():
        answer = visitor.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["content-type"] == media_type
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.content
    assert visitor.get("/openapi.json").json()["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def test_page_loads_nothing_from_other_hosts(visitor):
    for path in ("/docs", "/docs/api-page.js"):
        assert FOREIGN.search(visitor.get(path).text) is None
    assert "@import" not in visitor.get("/docs/swagger-ui.css").text
    assert "validatorUrl: null" in visitor.get("/docs/api-page.js").text
    policy = visitor.get("/docs").headers["content-security-policy"]
    sources = dict(part.split(" ", 1) for part in policy.split("; "))
    assert sources.pop("default-src") == "'none'"
    assert {source for each in sources.values() for source in each.split()} <= {"'self'", "'none'", "data:"}
    assert "unsafe" not in policy


def test_page_has_no_inline_code(visitor):
    addresses = Addresses()
    addresses.feed(visitor.get("/docs").text)
    assert addresses.inline == []


def test_content_security_policy_applies_only_to_the_page(visitor, alice):
    assert "content-security-policy" not in alice.get("/v1/jobs").headers
    assert "content-security-policy" not in visitor.get("/openapi.json").headers


def test_page_requires_a_token_unless_public(stranger, alice):
    for path in ("/openapi.json", *PAGE_FILES):
        refused = stranger.get(path)
        assert refused.status_code == 401
        assert "TUNEFARM_PUBLIC_DOCS" in refused.json()["detail"]
        assert alice.get(path).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/docs/",
        "/docs/%2e%2e/pages/api_page.html",
        "/docs/..%2f..%2fsettings.py",
        "/docs//etc/passwd",
        "/docs/__init__.py",
        "/docs/swagger-ui.css/",
        "/docs/swagger-ui.css%00",
    ],
)
def test_page_routes_serve_no_other_file(visitor, alice, path):
    assert visitor.get(path).status_code == 401
    assert alice.get(path).status_code == 404


def test_page_files_are_cached_by_etag(visitor):
    for path in PAGE_FILES:
        first = visitor.get(path)
        again = visitor.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
