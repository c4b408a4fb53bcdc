"""Clients warn about untuned functions of a module. Real sockets."""

import asyncio
import warnings
from pathlib import Path

import pytest

from tests.client_remote.scripted_server import Prepared, ScriptedServer
from tests.client_remote.test_carrying_calls import JOB, QUICK
from tunefarm import AsyncClient, Client
from tunefarm.intake.untuned_functions import MAX_NAMED, untuned_text


@pytest.mark.parametrize("names", [("main",), ()])
def test_warning_lists_untuned_functions(scripted: ScriptedServer, tmp_path: Path, names: tuple[str, ...]) -> None:
    module = tmp_path / "module.json"
    module.write_text("{}")  # the scripted service does not read it
    job = {**JOB, "spec": {**JOB["spec"], "untuned_functions": list(names)}}
    scripted.answers(Prepared(202, job))

    async def asynchronously() -> None:
        async with AsyncClient(scripted.url, "tfk_x", retry=QUICK) as client:
            await client.tune(str(module), target="x86-64-v3")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Client(scripted.url, "tfk_x", retry=QUICK) as client:
            client.tune(str(module), target="x86-64-v3")
        asyncio.run(asynchronously())
    said = [str(each.message) for each in caught if "not tuned" in str(each.message)]
    assert said == ([untuned_text(names)] * 2 if names else [])
    assert all(each.filename == __file__ for each in caught if "not tuned" in str(each.message))


def test_untuned_text_abbreviates_long_lists() -> None:
    text = untuned_text([f"f{number}" for number in range(MAX_NAMED + 2)])
    assert "f0, f1" in text
    assert text.endswith("and 2 more")
    assert "\x1b" not in untuned_text(["\x1b[2J"])
