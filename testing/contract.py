"""scikit-learn's checks for settings of a class that share most of what the checks look at."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

__all__ = ["parametrize_with_fitting_checks"]

# Parameters, tags, names of features and refusals are the same code whatever the setting is.
FITTING = frozenset(
    {
        "check_classifiers_one_label",
        "check_classifiers_train",
        "check_dict_unchanged",
        "check_dont_overwrite_parameters",
        "check_estimator_sparse_array",
        "check_estimators_dtypes",
        "check_estimators_overwrite_params",
        "check_estimators_pickle",
        "check_fit2d_1feature",
        "check_fit2d_1sample",
        "check_fit_idempotent",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_non_transformer_estimators_n_iter",
        "check_readonly_memmap_input",
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    }
)


def parametrize_with_fitting_checks(whole, settings, **options):
    """All checks of the estimators of `whole`; of other `settings` of them those that another fit could fail."""
    names, cases = parametrize_with_checks(whole, **options).args
    _, more = parametrize_with_checks(settings, **options).args
    called = [(_check(case), case) for case in more]
    assert {check for check, _ in called} >= FITTING, "a check has another name in this scikit-learn"
    # What is expected to fail is seen to fail once, with the estimators of `whole`.
    kept = [case for check, case in called if check in FITTING and not getattr(case, "marks", ())]
    return pytest.mark.parametrize(names, [*cases, *kept], ids=_id)


def _check(case):
    return getattr(case, "values", case)[1].func.__name__


def _id(value):
    return parametrize_with_checks([]).kwargs["ids"](value)
