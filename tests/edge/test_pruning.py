"""A device keeps as many releases as it should, and always the one that it may return to."""

from tests.edge.bundles import bundle, scaled
from tests.edge.conftest import Device
from tests.edge.repositories import Repository
from tunefarm_schemas.edge.device import EdgeAdvice


def test_older_releases_leave_the_device_with_their_files(running: Device, repository: Repository) -> None:
    for number in (3, 4, 5):
        before = repository.release(f"scale-{number - 1}", bundle(number - 1))
        after = repository.release(f"scale-{number}", bundle(number))
        repository.publish(number + 3, after, previous=before)
        assert running.update().running == f"scale-{number}"
    installed = {path.name.partition("+")[0] for path in (running.folder / "releases").iterdir()}
    assert installed == {"scale-4", "scale-5"}
    linked = {path.stat().st_ino for path in (running.folder / "releases").rglob("*") if path.is_file()}
    assert {path.stat().st_ino for path in (running.folder / "files").iterdir()} == linked
    for path in (repository.folder / "files").iterdir():
        path.unlink()
    back = EdgeAdvice(channel="stable", action="run_previous", release="scale-4", poll_after_s=60)
    assert running.update(back).running == "scale-4"
    assert running.computed() == scaled(4)


def test_device_that_a_paused_rollout_leaves_alone_keeps_what_it_runs(running: Device, repository: Repository) -> None:
    running.config = running.config.model_copy(update={"keep_versions": 3})
    before = repository.release("scale-2", bundle(2))
    repository.publish(6, repository.release("scale-3", bundle(3)), previous=before)
    stay = EdgeAdvice(channel="stable", action="run_previous", release="scale-2", poll_after_s=60)
    for _ in range(3):
        outcome = running.update(stay)
        assert (outcome.refused, outcome.running) == (None, "scale-2")
    assert running.update().running == "scale-3"
    assert running.update(stay).running == "scale-2"
