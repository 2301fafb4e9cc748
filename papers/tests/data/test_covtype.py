"""Cover types, read as UCI publishes them or from an archive of arrays."""

import gzip

import numpy as np
import pytest

from widemargin.exceptions import MissingDataError
from widemargin_papers.data import load_covtype, synthetic_forest


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return np.column_stack((rng.integers(0, 3000, (1000, 54)), rng.integers(1, 8, 1000)))


def test_rows_of_both_forms_are_the_same_shuffled_centred_and_split(tmp_path, rows):
    text = "\n".join(",".join(map(str, row)) for row in rows.tolist())
    (tmp_path / "covtype.data.gz").write_bytes(gzip.compress(text.encode()))
    published = load_covtype(tmp_path)
    (tmp_path / "binary").mkdir()
    np.savez(tmp_path / "binary" / "covtype.npz", X=rows[:, :54].astype(np.int16), y=rows[:, 54].astype(np.uint8))
    (tmp_path / "covtype.data.gz").unlink()
    stored = load_covtype(tmp_path)
    np.testing.assert_array_equal(published.X, stored.X)
    np.testing.assert_array_equal(published.y_test, stored.y_test)
    assert stored.X.dtype == np.float32 and stored.X.shape == (900, 54) and stored.X_test.shape == (100, 54)
    assert (np.concatenate((stored.y, stored.y_test)) > 0).sum() == (rows[:, 54] == 2).sum()
    both = np.concatenate((stored.X, stored.X_test))
    np.testing.assert_allclose(both.mean(axis=0), 0.0, atol=1e-2)
    order = np.random.default_rng(0).permutation(1000)
    np.testing.assert_allclose(both[1] - both[0], rows[order[1], :54] - rows[order[0], :54], atol=1e-2)
    assert stored.y[0] == (1.0 if rows[order[0], 54] == 2 else -1.0)


def test_what_is_missing_or_foreign_is_named(tmp_path, rows):
    with pytest.raises(MissingDataError, match="no folder of data"):
        load_covtype(None)
    with pytest.raises(MissingDataError, match=r"covtype\.data\.gz is not in .*archive\.ics\.uci\.edu"):
        load_covtype(tmp_path)
    np.savez(tmp_path / "covtype.npz", X=rows[:, :7], y=rows[:, 7])
    with pytest.raises(MissingDataError, match="not rows of 54"):
        load_covtype(tmp_path)
    (tmp_path / "covtype.npz").write_bytes(b"nothing")
    with pytest.raises(MissingDataError, match="cannot be read"):
        load_covtype(tmp_path)


def test_synthetic_forests_depend_on_the_seed_and_have_a_pattern():
    one, same, other = (synthetic_forest(900, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.X, same.X)
    assert not np.array_equal(one.X, other.X)
    assert one.X.shape == (900, 54) and one.X_test.shape == (100, 54) and "synthetic" in one.name
    nearest = ((one.X_test[:, None] - one.X[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert (one.y[nearest] == one.y_test).mean() > 0.8
