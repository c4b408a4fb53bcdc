"""A later version can read the JSON of this one, and identities never change.

If a test fails after an intended change of the JSON form: raise ``SCHEMA_VERSION`` if an old reader could
misread the new form, keep the old goldens readable, and write the new ones with ``python -m tests.schemas.nouns``.
"""

import importlib
import json
import pkgutil

import pytest
from pydantic import ValidationError

import tunefarm_schemas
from tests.schemas.nouns import GOLDENS, IDENTITIES, NOUNS, golden_path, golden_text
from tunefarm_schemas import SCHEMA_VERSION
from tunefarm_schemas.frozen import Frozen


def all_nouns() -> set[type[Frozen]]:
    nouns: set[type[Frozen]] = set()
    for module in pkgutil.walk_packages(tunefarm_schemas.__path__, "tunefarm_schemas."):
        if module.name.startswith("tunefarm_schemas.views"):
            continue  # the OpenAPI document is their contract
        members = vars(importlib.import_module(module.name)).values()
        nouns |= {member for member in members if isinstance(member, type) and issubclass(member, Frozen)}
    return nouns - {Frozen}


def by_name(noun: Frozen) -> str:
    return type(noun).__name__


def test_every_type_has_a_golden_file():
    assert sorted(noun.__name__ for noun in all_nouns()) == sorted(by_name(noun) for noun in NOUNS)


@pytest.mark.parametrize("noun", NOUNS, ids=by_name)
def test_golden_file_is_parsed(noun: Frozen):
    assert type(noun).model_validate_json(golden_path(type(noun)).read_text()) == noun


@pytest.mark.parametrize("noun", NOUNS, ids=by_name)
def test_golden_file_is_written(noun: Frozen):
    assert golden_text(noun) == golden_path(type(noun)).read_text()


@pytest.mark.parametrize("noun", NOUNS, ids=by_name)
def test_unknown_field_is_rejected(noun: Frozen):
    document = json.loads(golden_text(noun)) | {"from_the_future": 1}
    with pytest.raises(ValidationError, match="from_the_future"):
        type(noun).model_validate_json(json.dumps(document))


def test_identities_are_unchanged():
    golden = json.loads((GOLDENS / f"v{SCHEMA_VERSION}" / "identities.json").read_text())
    assert golden == IDENTITIES
