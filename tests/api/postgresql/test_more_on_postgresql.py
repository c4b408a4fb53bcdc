"""Further tests of the API over PostgreSQL."""

# ruff: noqa: F401 - pytest collects what is imported here
import pytest

from tests.api.records.test_records import test_lanes_are_drained_and_resumed, test_retracted_record_is_not_found
from tests.api.requests.test_requests import test_etag_avoids_sending_unchanged_content
from tests.api.test_jobs import test_job_is_created_from_a_module
from tests.api.test_releases import (
    device,
    publisher,
    test_file_is_served_in_ranges,
    test_file_with_another_digest_is_refused,
    test_older_repository_is_refused,
    test_publications_are_recorded_with_their_token,
    test_rotated_keys_reach_devices_from_the_first_root,
    test_runner_reads_its_channel_without_metadata,
    workshop,
)
from tests.api.test_tokens import test_expired_token_is_rejected

pytestmark = pytest.mark.extended
