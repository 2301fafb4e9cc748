"""The public face: what `import widemargin` offers, and what it does not drag in."""

import contextlib
import inspect
import subprocess
import sys

import pytest
from sklearn.svm import SVC

import widemargin

HEAVY = ("numba", "matplotlib", "pandas", "polars", "sklearn", "scipy", "pyarrow", "skops", "rich")


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_import_is_lazy():
    loaded = run(f"import sys, widemargin; print([m for m in {HEAVY!r} if m in sys.modules])")
    assert loaded == "[]"


def test_the_goals_do_not_need_compiled_code_or_plots():
    late = ("numba", "matplotlib", "highspy", "skops", "rich")  # scikit-learn itself imports pandas where it finds it
    loaded = run(f"import sys, widemargin.goals; print([m for m in {late!r} if m in sys.modules])")
    assert loaded == "[]"


def test_audits_do_not_need_dask():
    late = ("matplotlib", "highspy", "skops", "dask", "distributed")
    loaded = run(f"import sys, widemargin.diagnostics; print([m for m in {late!r} if m in sys.modules])")
    assert loaded == "[]"


def test_all_is_sorted_strings():
    assert all(isinstance(name, str) for name in widemargin.__all__)
    assert list(widemargin.__all__) == sorted(widemargin.__all__)
    assert len(set(widemargin.__all__)) == len(widemargin.__all__)


def test_help_names_what_a_user_hands_over():
    """The alias of anything array-like is a dozen types long."""
    public = [getattr(widemargin, name) for name in widemargin.__all__]
    methods = [each for one in public if inspect.isclass(one) for name, each in vars(one).items() if name[0] != "_"]
    for one in filter(callable, [*public, *methods]):
        with contextlib.suppress(ValueError):  # of enumerations and protocols
            assert "_typing._array_like" not in str(inspect.signature(one)), one
    assert "Features" in str(inspect.signature(widemargin.KernelSVC.fit))


def test_constructors_have_few_parameters():
    """What few users change is in `solver_options`. `KernelSVC` has all parameters of SVC, whose place it takes."""
    classes = [one for one in (getattr(widemargin, name) for name in widemargin.__all__) if inspect.isclass(one)]
    number = {one.__name__: len(inspect.signature(one).parameters) for one in classes if hasattr(one, "get_params")}
    assert number.pop("KernelSVC") <= len(inspect.signature(SVC).parameters) + 4
    assert max(number.values()) <= 18, number


@pytest.mark.parametrize("name", widemargin.__all__)
def test_every_name_resolves_and_is_listed(name):
    assert getattr(widemargin, name) is getattr(widemargin, name)
    assert name in dir(widemargin)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="module 'widemargin' has no attribute 'nothing'"):
        _ = widemargin.nothing


def test_version_is_the_installed_one():
    from importlib.metadata import version

    assert widemargin.__version__ == version("widemargin")
