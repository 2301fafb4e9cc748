"""Files of multi-label and hierarchical data, read as they are published."""

import gzip

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from widemargin.exceptions import DataError, MissingDataError
from widemargin_papers.data import load_hierarchy, load_rcv1, load_yeast, synthetic_hierarchy, synthetic_label_sets

YEAST = "@relation yeast\n@attribute Att1 numeric\n@data\n"
CLUS = """@RELATION toy
@ATTRIBUTE a numeric
@ATTRIBUTE hierarchy-of-b numeric
@ATTRIBUTE class   hierarchical 1,1/1,1/2/1,2
@DATA
0.5,?,1/1@2
1,2,1/2/1
"""


def yeast_row(start, labels):
    return ",".join(map(str, [start, start + 0.5, *labels])) + "\n"


@pytest.fixture
def folder(tmp_path):
    first, second = [1, 0] * 7, [0, 0] * 7
    (tmp_path / "yeast-train.arff").write_text(YEAST + yeast_row(1, first) + yeast_row(2, second))
    (tmp_path / "multilabel").mkdir()
    packed = gzip.compress((YEAST + yeast_row(3, first)).encode())
    (tmp_path / "multilabel" / "yeast-test.arff.gz").write_bytes(packed)
    rows = ["0,3 1:0.5 47236:1", " 2:1", *["3 1:1"] * 2998, *["3,100 7:2"] * 3000]
    (tmp_path / "rcv1subset1.libsvm").write_text("\n".join(rows) + "\n")
    (tmp_path / "hierarchical").mkdir()
    for part in ("trainvalid", "test"):
        (tmp_path / "hierarchical" / f"Enron_corr_{part}.arff").write_text(CLUS)
    return tmp_path


def test_yeast(folder):
    data = load_yeast(folder)
    assert data.X.tolist() == [[1.0, 1.5], [2.0, 2.5]]
    assert data.Y.tolist() == [[1, 0] * 7, [0] * 14]
    assert data.X_test.tolist() == [[3.0, 3.5]]
    (folder / "yeast-train.arff").write_text(YEAST + "1,2,x\n")
    with pytest.raises(MissingDataError, match="no file of yeast"):
        load_yeast(folder)
    (folder / "yeast-train.arff").write_text(YEAST + "1,2,3\n")
    with pytest.raises(MissingDataError, match=r"shape \(1, 3\)"):
        load_yeast(folder)


def test_rcv1_keeps_the_most_frequent_labels(folder):
    data = load_rcv1(folder, 2)
    assert data.X.shape == data.X_test.shape == (3000, 47236)
    assert data.X[0, 47235] == 1.0
    assert data.Y[:3].tolist() == [[1, 0], [0, 0], [1, 0]]
    assert (data.Y_test == 1).all()
    assert load_rcv1(folder).Y.shape == (3000, 101)
    with pytest.raises(DataError, match="n_labels is 102"):
        load_rcv1(folder, 102)


def test_hierarchies_are_closed_under_ancestors(folder):
    data = load_hierarchy(folder, "Enron_corr")
    assert data.paths == ("1", "1/1", "1/2", "1/2/1", "2")
    assert data.Y.tolist() == [[1, 1, 0, 0, 1], [1, 0, 1, 1, 0]]
    np.testing.assert_array_equal(data.X, [[0.5, np.nan], [1.0, 2.0]])
    path = folder / "hierarchical" / "Enron_corr_test.arff"
    path.write_text(CLUS + "0,0,3\n")
    with pytest.raises(MissingDataError, match="row 2 has the label '3'"):
        load_hierarchy(folder, "Enron_corr")
    path.write_text("@DATA\n")
    with pytest.raises(MissingDataError, match="0 attributes of the kind 'hierarchical'"):
        load_hierarchy(folder, "Enron_corr")


def test_nodes_of_several_parents_and_rows_for_validation(folder):
    header = "@ATTRIBUTE a numeric\n@ATTRIBUTE class hierarchical root/a,root/b,a/c,b/c,c/d\n@DATA\n"
    for part, row in (("train", "1,d"), ("valid", "3,a@b"), ("test", "5,c")):
        (folder / "hierarchical" / f"cellcycle_GO.{part}.arff").write_text(header + row + "\n")
    data = load_hierarchy(folder, "cellcycle_GO")
    assert data.paths == ("a", "b", "c", "d")
    assert set(data.arcs) == {(0, 2), (1, 2), (2, 3)}
    assert data.Y.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]] and data.Y_test.tolist() == [[1, 1, 1, 0]]
    assert data.X[:, 0].tolist() == [1.0, 3.0]


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(MissingDataError, match="data set yeast is needed, and no folder of data"):
        load_yeast(None)
    with pytest.raises(MissingDataError, match=r"rcv1subset1.libsvm is not in .*multilabel. Get it from"):
        load_rcv1(tmp_path)
    with pytest.raises(MissingDataError, match=r"Diatoms_train.arff is not in"):
        load_hierarchy(tmp_path, "Diatoms")
    with pytest.raises(DataError, match="'SWIKI' is not one of the hierarchies Enron_corr"):
        load_hierarchy(tmp_path, "SWIKI")


def test_synthetic_label_sets_can_be_learned_and_depend_on_the_seed():
    one, same, other = (synthetic_label_sets(300, 4, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.Y, same.Y)
    assert not np.array_equal(one.Y, other.Y)
    for label in range(4):
        clf = LinearSVC(random_state=0).fit(one.X, one.Y[:, label])
        largest = max(one.Y_test[:, label].mean(), 1.0 - one.Y_test[:, label].mean())
        assert clf.score(one.X_test, one.Y_test[:, label]) > largest + 0.1


def test_synthetic_hierarchies_are_closed():
    data = synthetic_hierarchy(40)
    for node, path in enumerate(data.paths):
        if "/" in path:
            parent = data.paths.index(path.rpartition("/")[0])
            assert (data.Y[:, node] <= data.Y[:, parent]).all()
    assert ((data.Y.sum(axis=1) >= 2) & (data.Y.sum(axis=1) <= 4)).all()
