"""The operations guide documents the limits of the settings and the code."""

import re
from pathlib import Path

from tunefarm_services.api.bodies.body import MAX_ITEMS
from tunefarm_services.api.bodies.job import JobBody
from tunefarm_services.api.http.paging import LARGEST_PAGE
from tunefarm_services.api.operations.claims import MAX_EXPORTED
from tunefarm_services.api.operations.module_intake import MAX_FUNCTIONS
from tunefarm_services.api.routes.uploads import MAX_UPLOADS
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.settings import Settings

GUIDE = Path(__file__).parents[3] / "docs" / "operations.md"
NO_LIMITS = {
    "edge_poll_s",
    "public_docs",
    "metrics_on_loopback",
    "operator_tenants",
    "token_trust_s",
    "threads",
    "event_poll_s",
    "heartbeat_s",
    "default_target",
    "host_cores",
}


def limits() -> str:
    return GUIDE.read_text().partition("\n## Limits\n")[2].partition("\n## ")[0]


def documented() -> dict[str, str]:
    """The settings of the table with their figures."""
    found = re.findall(r"`TUNEFARM_([A-Z_]+)` ([0-9]+(?:/second| MiB)?)(?=[,; |])", limits())
    assert len(found) == len({name for name, _ in found})
    return {name.lower(): figure for name, figure in found}


def test_documented_limits_match_the_defaults() -> None:
    for name, figure in documented().items():
        default = ApiSettings.model_fields[name].default
        number, _, unit = figure.partition(" ")
        assert default == (figure if "/" in figure else int(number) * (1 << 20 if unit else 1)), name


def test_all_limits_are_documented() -> None:
    own = ApiSettings.model_fields.keys() - Settings.model_fields.keys()
    assert own - NO_LIMITS == documented().keys()


def test_documented_fixed_limits_match_the_code() -> None:
    text = " ".join(limits().split())
    assert f"{LARGEST_PAGE} items of a page" in text
    assert f"{MAX_UPLOADS} uploads of a tenant" in text
    assert f"{MAX_FUNCTIONS} functions of a request" in text
    assert f"{MAX_ITEMS} items of one list of a body" in text
    assert f"{MAX_EXPORTED} records of an export" in text
    schema = JobBody.model_json_schema()["properties"]
    assert f"{schema['labels']['maxProperties']} labels of a job" in text
    assert f"{schema['name']['anyOf'][0]['maxLength']} characters of an id or a name" in text
