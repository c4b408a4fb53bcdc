"""The limits that the operations guide names are those of the settings."""

import re
from pathlib import Path

from tunefarm_services.api.settings import ApiSettings

GUIDE = Path(__file__).parents[2] / "docs" / "operations.md"


def test_every_limit_in_the_table_is_the_default_of_its_setting() -> None:
    found = re.findall(r"`TUNEFARM_([A-Z_]+)` ([0-9]+)( MiB)?(?=[,; |])", GUIDE.read_text())
    assert len(found) >= 15
    for name, number, unit in found:
        field = ApiSettings.model_fields[name.lower()]
        assert field.default == int(number) * (1 << 20 if unit else 1), name
