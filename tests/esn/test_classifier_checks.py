"""Claim: the classifier passes scikit-learn's own checks, but for the two that shuffle rows, which are time."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from pesn import ReservoirClassifier

ROWS_ARE_TIME = {
    "check_methods_sample_order_invariance": "rows are time: an output depends on the rows before it",
    "check_methods_subset_invariance": "rows are time: a batch starts from the initial state",
}


@parametrize_with_checks([ReservoirClassifier(30)], expected_failed_checks=lambda _: ROWS_ARE_TIME)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
