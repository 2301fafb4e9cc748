"""A sparse matrix whose indices lead out of it is refused by name at every door, before compiled code follows them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import widemargin as wm
from widemargin.diagnostics import margin_report
from widemargin.distributed.recipes import array_rows
from widemargin.exceptions import DataError
from widemargin.rows import Rows, as_csr, check_sparse
from widemargin.structured.models import MulticlassModel

RNG = np.random.default_rng(0)
X = sp.csr_matrix(np.where(RNG.random((60, 4)) < 0.7, RNG.normal(size=(60, 4)), 0.0))
Y = (RNG.random((60, 3)) < 0.5).astype(int)
LABELS = Y[:, 0]
GOAL = "subject to recall() >= 0.5"


def broken(matrix=X, form="csr", place=10**8):
    """A matrix with one index beyond its end, as no constructor of SciPy finds it."""
    held = matrix.asformat(form).copy()
    (held.coords[1] if form == "coo" else held.indices)[0] = place
    return held


MODELS = [
    wm.KernelSVC(), wm.SBPClassifier(nu=0.1), wm.KernelPerceptron(), wm.MarginPursuitClassifier(), wm.RiskClassifier(),
    wm.RateConstrainedClassifier(GOAL), wm.RateConstrainedClassifierCV(GOAL, Cs=[1.0], cv=2),
    wm.MulticlassSVC(), wm.MultiLabelSVC(), wm.HierarchicalSVC([-1, 0, 0]), wm.StructuralSVM(MulticlassModel()),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # what the models are is of no concern
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_estimators_refuse_it_in_fit_and_in_predict(model):
    y = Y * Y[:, :1] if isinstance(model, wm.HierarchicalSVC) else Y if isinstance(model, wm.MultiLabelSVC) else LABELS
    forms = ("csr", "csc", "coo")
    for form in forms:
        with pytest.raises(DataError, match="whose arrays do not fit it"):
            model.fit(broken(form=form), y)
    model.set_params(**({"max_iter": 20} if hasattr(model, "max_iter") else {})).fit(X, y)
    for form in forms:
        with pytest.raises(DataError, match="whose arrays do not fit it"):
            model.predict(broken(form=form))


@pytest.mark.filterwarnings("ignore")
def test_everything_else_that_takes_rows_refuses_it():
    fitted = LogisticRegression().fit(X, LABELS)
    doors = [
        lambda: Rows(broken()),
        lambda: wm.audit(fitted, GOAL, broken(), LABELS),
        lambda: margin_report(fitted, broken(), LABELS),
        lambda: wm.GoalThresholdClassifier(fitted, GOAL, cv="prefit").fit(broken(), LABELS),
        lambda: array_rows({"X": broken(), "y": LABELS}),
        lambda: wm.MultiLabelSVC().fit(X, broken(sp.csr_matrix(Y))),
        lambda: wm.ChainSVC().fit([broken()], [LABELS]),
        lambda: wm.ChainSVC(max_iter=1).fit([X], [LABELS]).predict([broken()]),
    ]
    for place, door in enumerate(doors):
        with pytest.raises(DataError, match="whose arrays do not fit it"):
            door()
            pytest.fail(f"door {place}")


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint16, np.float32])
def test_entries_of_one_column_are_added_up_as_numbers(kind):
    """Bytes and flags would overflow, and nobody would notice."""
    n = 60
    columns, values = np.tile([0, 0, 1, 1, 1], n), RNG.integers(60, 127, 5 * n).astype(kind)
    twice = sp.csr_matrix((values, columns, 5 * np.arange(n + 1)), shape=(n, 2))
    dense = np.zeros((n, 2))
    np.add.at(dense, (np.repeat(np.arange(n), 5), columns), values.astype(float))
    given = values.copy()
    for model in (wm.KernelSVC(kernel="linear", C=1e-3), wm.RateConstrainedClassifier(GOAL, C=1e-3)):
        of_twice, of_sums = (clone(model).fit(rows, LABELS) for rows in (twice, dense))
        for rows in (twice, dense):
            np.testing.assert_allclose(of_twice.decision_function(rows), of_sums.decision_function(dense), atol=1e-4)
    np.testing.assert_array_equal(twice.data, given)


@pytest.mark.parametrize("form", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_sound_matrices_pass_and_are_left_as_they_are(form, kind):
    matrix = kind(np.eye(4)).asformat(form)
    before = dict(vars(matrix))
    check_sparse(matrix)
    assert all(vars(matrix)[name] is value for name, value in before.items())
    np.testing.assert_array_equal(as_csr(matrix).toarray(), np.eye(4))


@pytest.mark.parametrize("name", ["indptr", "indices", "data"])
def test_each_array_is_looked_at(name):
    held = X.copy()
    setattr(held, name, getattr(held, name)[:-1])
    with pytest.raises(DataError, match=r"a CSR matrix of shape \(60, 4\) whose arrays do not fit it"):
        check_sparse(held)


def test_rows_of_lists_are_looked_at_when_they_become_arrays():
    held = X.tolil()
    held.rows[0] = [10**6] * len(held.rows[0])
    with pytest.raises(DataError, match="whose arrays do not fit it"):
        as_csr(held)
