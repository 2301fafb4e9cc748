"""Settings of the whole suite: how hypothesis searches. A Dask cluster for the tests that ask for one."""

import os

import pytest
from hypothesis import HealthCheck, settings

from clusters import small_cluster

# No deadline: the first example of a test may compile. Derandomised: a change is judged by the change, not by luck;
# `HYPOTHESIS_PROFILE=search` looks for new examples, many of them.
settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "search", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture(scope="session")
def dask_client():
    """A client of a small cluster; the same for all tests that ask for it."""
    with small_cluster() as client:
        yield client
