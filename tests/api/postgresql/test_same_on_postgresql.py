"""The tests of the API that depend most on the store, over PostgreSQL."""

# ruff: noqa: F401 - pytest collects what is imported here
from tests.api.hostile.test_isolation import (
    of_alice,
    test_every_route_answers_the_owner,
    test_ids_of_another_tenant_are_not_found,
    test_no_route_shows_or_changes_data_of_another_tenant,
)
from tests.api.records.test_records import test_exact_match_requires_the_requested_device_class
from tests.api.requests.test_requests import (
    test_concurrent_requests_with_one_key_create_one_object,
    test_list_is_paged_without_gaps,
    test_repeated_idempotency_key_creates_one_object,
)
from tests.api.test_jobs import (
    test_jobs_are_filtered_by_state_kind_and_label,
    test_open_jobs_are_limited_per_tenant,
    test_trials_are_listed_with_failure_reasons,
)
from tests.api.test_releases import (
    device,
    publisher,
    test_device_reads_what_was_pushed,
    test_garbage_collection_keeps_released_files,
    workshop,
)
from tests.api.test_tokens import test_rotation_replaces_the_token, test_token_is_shown_once_and_can_be_revoked
