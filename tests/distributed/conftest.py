"""Back ends that must agree."""

import pytest

from widemargin.distributed import DaskMap, JoblibMap, SerialMap


@pytest.fixture(params=["serial", "joblib", "dask"])
def make(request):
    """A function of recipes that makes a block map."""
    if request.param == "serial":
        return SerialMap
    if request.param == "joblib":
        return lambda recipes, **more: JoblibMap(recipes, 2, **more)
    client = request.getfixturevalue("dask_client")
    return lambda recipes, **more: DaskMap(recipes, client, **more)
