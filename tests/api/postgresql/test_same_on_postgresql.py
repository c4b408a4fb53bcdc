"""The tests of the API that depend on the store, over PostgreSQL."""

# ruff: noqa: F401 - pytest collects what is imported here
from tests.api.hostile.test_isolation import (
    of_alice,
    test_ids_of_another_tenant_in_bodies_and_queries_are_not_found,
    test_no_route_shows_or_changes_what_another_tenant_has,
    test_the_owner_is_answered_on_the_same_routes,
)
from tests.api.requests.test_requests import (
    test_a_list_comes_in_pages_without_gaps,
    test_requests_with_one_key_at_once_make_one_thing,
    test_the_same_key_makes_one_thing,
    test_unchanged_content_is_not_sent_again,
)
from tests.api.test_jobs import (
    test_a_job_is_made_from_a_module,
    test_a_tenant_has_so_many_open_jobs,
    test_jobs_are_found_by_state_kind_and_label,
    test_trials_are_listed_with_their_reasons,
)
from tests.api.test_records import (
    test_a_retracted_record_answers_no_query,
    test_an_exact_match_is_for_the_device_that_was_asked_for,
    test_lanes_are_drained_and_resumed,
)
from tests.api.test_tokens import (
    test_a_rotated_token_works_with_its_new_text_only,
    test_an_expired_token_does_not_work,
    test_token_is_shown_once_and_can_be_revoked,
)
