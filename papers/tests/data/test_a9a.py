"""The loader of a9a finds its files under the names people give them, and says where to get them."""

import gzip

import numpy as np
import pytest

from widemargin.datasets import DATA_VARIABLE, data_folder
from widemargin.exceptions import DataError, MissingDataError
from widemargin_papers.data import FEMALE, MALE, N_FEATURES, load_a9a, synthetic_a9a

ROWS = b"-1 3:1 72:1 \n+1 39:1 73:1 123:1 \n"


@pytest.mark.parametrize(
    ("place", "names", "pack"),
    [
        ("", ("a9a", "a9a.t"), bytes),
        ("", ("a9a.txt", "a9a.t.txt"), bytes),
        ("binary", ("a9a.libsvm.gz", "a9a.t.libsvm.gz"), gzip.compress),
    ],
)
def test_files_are_found_under_their_usual_names(tmp_path, place, names, pack):
    (tmp_path / place).mkdir(exist_ok=True)
    for name in names:
        (tmp_path / place / name).write_bytes(pack(ROWS))
    adult = load_a9a(tmp_path)
    assert adult.X.shape == adult.X_test.shape == (2, N_FEATURES)
    assert adult.X.indices.dtype == np.int32
    np.testing.assert_array_equal(adult.y, [-1, 1])
    np.testing.assert_array_equal(adult.women, [True, False])  # columns are counted from 1 in the file
    np.testing.assert_array_equal(adult.has_test(MALE), [False, True])
    assert adult.populations["sex"].to_pylist() == ["Female", "Male"]


def test_a_missing_file_is_named_with_the_place_to_get_it(tmp_path):
    (tmp_path / "a9a").write_bytes(ROWS)
    with pytest.raises(MissingDataError, match=rf"a9a\.t is not in {tmp_path}.*libsvmtools/datasets/binary\.html"):
        load_a9a(tmp_path)
    with pytest.raises(DataError, match="no folder of data was named"):
        load_a9a(None)


def test_the_folder_comes_from_the_option_then_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "other"))
    assert data_folder(tmp_path) == tmp_path
    assert data_folder(None) == tmp_path / "other"
    monkeypatch.delenv(DATA_VARIABLE)
    assert data_folder(None) is None


def test_synthetic_rows_are_the_same_for_the_same_seed_and_of_one_sex():
    one, again, other = (synthetic_a9a(200, seed) for seed in (0, 0, 1))
    assert (one.X != again.X).nnz == 0 and (one.X != other.X).nnz > 0
    assert (one.has(FEMALE) ^ one.has(MALE)).all()
    assert one.y.mean() == pytest.approx(2 * 0.24 - 1, abs=0.02)
