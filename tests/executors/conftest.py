"""Failures inside the shared suites show their values."""

import pytest

pytest.register_assert_rewrite(
    "tests.executors.conformance", "tests.executors.places", "tests.executors.systemd_place"
)
