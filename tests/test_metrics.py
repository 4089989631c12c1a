"""Scores agree with their definitions by quadrature, Monte Carlo or double sums, are proper, and keep their precision from
1e-300 to 1e300.
"""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from pesn.metrics import coverage, crps_ensemble, crps_gaussian, entropy, log_score, nrmse, pit, pit_histogram, valid_time

NAN = math.nan
GAUSSIAN_SCORES = [crps_gaussian, log_score, pit]
Z = np.array([0.0, 1e-9, 0.1, 0.7, 1.0, 2.5, 6.0, 9.0, 40.0])


def crps_by_definition(y, cdf, low, high):
    """Integrate (F(x) − 1[x ≥ y])² on both sides of y."""
    left = integrate.quad(lambda x: cdf(x) ** 2, low, y, epsabs=1e-12, epsrel=1e-12, limit=200)[0]
    return left + integrate.quad(lambda x: (1 - cdf(x)) ** 2, y, high, epsabs=1e-12, epsrel=1e-12, limit=200)[0]


def double_sum(y, samples, fair):
    """Compute the score by a double sum."""
    n = len(samples)
    pairs = sum(abs(a - b) for a in samples for b in samples) / (n * (n - 1) if fair else n * n)
    return sum(abs(a - y) for a in samples) / n - 0.5 * pairs


# Gaussian CRPS


@pytest.mark.parametrize(("y", "mean", "std"), [(0.3, 0.0, 1.0), (-2.0, 1.0, 0.5), (4.0, 4.0, 3.0), (5.0, 0.0, 2.0)])
def test_crps_is_its_integral(y, mean, std):
    expected = crps_by_definition(y, lambda x: stats.norm.cdf(x, mean, std), mean - 12 * std, mean + 12 * std)
    assert crps_gaussian(y, mean, std) == pytest.approx(expected, rel=1e-9)


def test_crps_keeps_its_precision():
    """Against forty digits, for z from 0 to 40."""
    from mpmath import mp, mpf, ncdf, npdf, pi, sqrt

    with mp.workdps(40):
        exact = [float(mpf(z) * (2 * ncdf(mpf(z)) - 1) + 2 * npdf(mpf(z)) - 1 / sqrt(pi)) for z in Z]
    np.testing.assert_allclose(crps_gaussian(Z, 0.0, 1.0), exact, rtol=1e-14)
    np.testing.assert_allclose(crps_gaussian(-Z, 0.0, 1.0), exact, rtol=1e-14)


@pytest.mark.parametrize("scale", [1e-300, 1e-100, 1.0, 1e100, 1e300])
def test_crps_and_log_score_scale(scale):
    np.testing.assert_allclose(crps_gaussian(Z * scale, 0.0, scale), crps_gaussian(Z, 0.0, 1.0) * scale, rtol=1e-14)
    np.testing.assert_allclose(log_score(Z * scale, 0.0, scale), log_score(Z, 0.0, 1.0) + math.log(scale), rtol=1e-12)


def test_crps_of_distant_and_certain_forecasts():
    """|error| − σ/√π, at 0 and for huge z."""
    np.testing.assert_array_equal(crps_gaussian([1.0, -1.0, 0.0], 0.0, 0.0), [1.0, 1.0, 0.0])
    assert crps_gaussian(1e300, 0.0, 1e-300) == 1e300
    assert crps_gaussian(3.0, 1.0, 5e-324) == 2.0
    assert crps_gaussian(1e-300, 0.0, 1e300) == pytest.approx(1e300 * (math.sqrt(2) - 1) / math.sqrt(math.pi), rel=1e-14)
    assert crps_gaussian(100.0, 0.0, 1.0) == pytest.approx(100.0 - 1 / math.sqrt(math.pi), rel=1e-14)


# CRPS of samples


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("n", [2, 3, 10, 51])
def test_crps_of_samples_is_the_double_sum(n, fair):
    rng = np.random.default_rng(n)
    y, samples = rng.normal(size=(4, 3)), rng.normal(size=(n, 4, 3)).round(1)  # rounded: with ties
    y[0, 0] = samples[0, 0, 0]  # and an observation on a sample
    expected = [[double_sum(y[i, j], samples[:, i, j], fair) for j in range(3)] for i in range(4)]
    np.testing.assert_allclose(crps_ensemble(y, samples, fair=fair), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(crps_ensemble(y, np.moveaxis(samples, 0, 2), axis=-1, fair=fair), expected, rtol=1e-12, atol=1e-14)


def test_fair_crps_is_unbiased():
    """Without fair, five samples score (1/n) σ/√π too much."""
    rng = np.random.default_rng(0)
    y, samples = rng.normal(size=200_000), rng.normal(size=(5, 200_000))
    expected = crps_gaussian(y, 0.0, 1.0).mean()
    assert crps_ensemble(y, samples, fair=True).mean() == pytest.approx(expected, abs=5e-3)
    assert crps_ensemble(y, samples).mean() == pytest.approx(expected + 1 / (5 * math.sqrt(math.pi)), abs=5e-3)


@pytest.mark.parametrize("fair", [False, True])
def test_crps_of_samples_keeps_its_precision(fair):
    """Far from 0 a sum of positions times ranks would lose all digits."""
    samples = np.array([0.0, 1.0, 3.0, 4.0])
    there = crps_ensemble(2.0, samples, fair=fair)
    assert crps_ensemble(2.0, samples[:1]) == 2.0
    assert crps_ensemble(2.0 + 2.0**52, samples + 2.0**52, fair=fair) == there
    for scale in (1e-300, 1e300):
        assert crps_ensemble(2.0 * scale, samples * scale, fair=fair) == pytest.approx(there * scale, rel=1e-14)


# log score


def test_log_score_is_the_density():
    y, mean, std = np.array([0.3, -4.0, 7.0]), np.array([0.0, 1.0, 7.0]), np.array([1.0, 0.2, 30.0])
    np.testing.assert_allclose(log_score(y, mean, std), -stats.norm.logpdf(y, mean, std), rtol=1e-12)
    # log score of certain forecasts
    np.testing.assert_array_equal(log_score([1.0, 1.5, NAN], 1.0, 0.0), [-math.inf, math.inf, NAN])


def test_log_score_of_vectors_and_independent_entries():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(5, 4, 4))
    cov, y, mean = root @ root.swapaxes(-1, -2), rng.normal(size=(5, 4)), rng.normal(size=(5, 4))
    each = [-stats.multivariate_normal.logpdf(y[i], mean[i], cov[i]) for i in range(5)]
    np.testing.assert_allclose(log_score(y, mean, cov=cov), each, rtol=1e-9)
    one = [-stats.multivariate_normal.logpdf(y[i], mean[0], cov[0]) for i in range(5)]
    np.testing.assert_allclose(log_score(y, mean[0], cov=cov[0]), one, rtol=1e-9)
    np.testing.assert_allclose(log_score(y.reshape(5, 1, 4), mean[0], cov=cov[0]), np.reshape(one, (5, 1)), rtol=1e-9)
    assert log_score(y[0], mean[0], cov=cov[0]) == pytest.approx(one[0], rel=1e-9)
    # log score of independent entries is the sum: Also if variances differ by 400 orders of magnitude.
    y, std = np.array([[1e-150, 2.0, 1e100]]), np.array([1e-150, 1.0, 1e100])
    np.testing.assert_allclose(log_score(y, np.zeros(3), cov=np.diag(std**2)), log_score(y, 0.0, std).sum(axis=1), rtol=1e-12)


# calibration


def test_coverage_counts_and_is_that_of_the_true_distribution():
    q = stats.norm.ppf(0.95)
    y = np.array([q - 1e-9, q + 1e-9, -q + 1e-9, -q - 1e-9, 0.0])
    assert coverage(10 + 2 * y, 10.0, 2.0, level=0.9) == pytest.approx(0.6)
    assert coverage([1.0, 1.0, 2.0, 2.0], 1.0, 0.0) == 0.5  # std 0: the point itself
    # coverage of the true distribution
    rng = np.random.default_rng(5)
    mean, std = rng.normal(size=(50_000, 2)), rng.uniform(0.1, 3.0, size=(50_000, 2))
    y = mean + std * rng.normal(size=mean.shape)
    for level in (0.05, 0.5, 0.9, 0.99):
        tolerance = 5 * math.sqrt(level * (1 - level) / 50_000)
        np.testing.assert_allclose(coverage(y, mean, std, level, axis=0), [level, level], rtol=0, atol=tolerance)
    assert coverage(y, mean, std) == pytest.approx(np.mean(coverage(y, mean, std, axis=0)))
    assert coverage(y, mean, std, axis=1).shape == (50_000,)
    assert coverage(y, mean, 2 * std) > 0.99 > 0.95 > 0.7 > coverage(y, mean, 0.5 * std)


def test_pit_is_the_distribution_function_and_uniform():
    np.testing.assert_allclose(pit([-1.0, 0.0, 4.0], [0.0, 0.0, 1.0], 2.0), stats.norm.cdf([-0.5, 0.0, 1.5]), rtol=1e-14)
    np.testing.assert_allclose(pit(-30.0, 0.0, 1.0), stats.norm.cdf(-30.0), rtol=1e-12)  # the lower tail keeps its digits
    np.testing.assert_array_equal(pit([0.0, 1.0, 2.0], 1.0, 0.0), [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(pit([-1e300, 1e300], 0.0, 1e-300), [0.0, 1.0])
    # pit of the true distribution is uniform
    rng = np.random.default_rng(6)
    mean, std = rng.normal(size=20_000), rng.uniform(0.1, 3.0, size=20_000)
    y = mean + std * rng.normal(size=20_000)
    assert stats.kstest(pit(y, mean, std), "uniform").pvalue > 1e-3
    assert stats.kstest(pit(y, mean, 0.9 * std), "uniform").pvalue < 1e-6  # and the test would tell
    shares, edges = pit_histogram(y, mean, std, bins=8)
    np.testing.assert_allclose(edges, np.arange(9) / 8)
    assert shares.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(shares, 1 / 8, atol=0.012)
    sure = pit_histogram(y, mean, 0.3 * std, bins=8)[0]
    unsure = pit_histogram(y, mean, 3 * std, bins=8)[0]
    assert min(sure[0], sure[-1]) > 0.25 > 0.05 > max(unsure[0], unsure[-1])


@pytest.mark.parametrize("score", [crps_gaussian, log_score])
def test_scores_are_proper(score):
    """For y ~ N(1, 2²), any other forecast scores worse on average, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(150)

    def expected(mean, std):
        return np.sum(weights * score(1 + 2 * nodes, mean, std)) / weights.sum()

    best = expected(1.0, 2.0)
    for mean, std in [(1.3, 2.0), (0.7, 2.0), (1.0, 2.4), (1.0, 1.6), (0.0, 4.0)]:
        assert expected(mean, std) > best + 1e-3


# errors of points


def test_nrmse_is_its_definition_in_any_units():
    rng = np.random.default_rng(7)
    y, prediction = rng.normal(2, 3, size=(100, 2)), rng.normal(2, 3, size=(100, 2))
    expected = np.sqrt(np.mean((y - prediction) ** 2, axis=0)) / np.std(y, axis=0)
    np.testing.assert_allclose(nrmse(y, prediction), expected, rtol=1e-13)
    assert nrmse(y, prediction, axis=None) == pytest.approx(np.sqrt(np.mean((y - prediction) ** 2)) / np.std(y), rel=1e-13)
    assert nrmse(y[:, 0], prediction[:, 0]) == pytest.approx(expected[0])
    assert nrmse(y[:, 0], np.full(100, y[:, 0].mean())) == pytest.approx(1.0)
    np.testing.assert_array_equal(nrmse(y, y), [0.0, 0.0])
    # nrmse is invariant to units
    y, prediction = np.array([[0.0, 5.0], [2.0, 6.0], [4.0, 9.0]]), np.array([[1.0, 5.0], [2.5, 6.5], [3.0, 8.0]])
    expected = nrmse(y, prediction)
    np.testing.assert_allclose(nrmse(y * [1e-300, 1e300], prediction * [1e-300, 1e300]), expected, rtol=1e-14)
    far = 2.0**50  # where y and prediction are still exact, and their mean is not
    np.testing.assert_allclose(nrmse(y + far, prediction + far), expected, rtol=1e-12)
    assert nrmse([-1.7e308, 1.7e308], [1.7e308, -1.7e308]) == pytest.approx(2.0)


def test_valid_time_is_its_definition_with_missing_rows_and_entries():
    t = np.arange(1000) * 0.02
    y = np.column_stack([np.sin(t), np.cos(t)])
    scale = np.sqrt(np.mean(np.sum((y - y.mean(axis=0)) ** 2, axis=1)))
    prediction = y + np.column_stack([0.1 * t, np.zeros(1000)])  # an error of 0.1 t: beyond 0.4 scale where t > 4 scale
    expected = 0.02 * (np.floor(4 * scale / 0.02) + 1)
    assert valid_time(y, prediction, dt=0.02) == pytest.approx(expected, abs=1e-9)
    assert valid_time(y, prediction, dt=0.02, threshold=0.1) == pytest.approx(0.02 * (np.floor(scale / 0.02) + 1), abs=1e-9)
    assert valid_time(y, prediction) == pytest.approx(expected / 0.02)
    assert valid_time(y, y, dt=0.02) == pytest.approx(20.0)
    assert valid_time(y, -y, dt=0.02) == 0.0
    assert valid_time(y * 1e300, prediction * 1e300, dt=0.02) == pytest.approx(expected, abs=1e-9)
    assert valid_time(y * 1e-300, prediction * 1e-300, dt=0.02) == pytest.approx(expected, abs=1e-9)
    assert valid_time(y * 1e-300, y * 1e300) == 0.0
    assert valid_time(y[:, 0], prediction[:, 0]) == valid_time(y[:, :1], prediction[:, :1])
    # valid time with missing rows and entries
    y = np.array([[0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [2.0, 2.0]])
    prediction = y.copy()
    prediction[2:] += 3.0
    assert valid_time(y, prediction) == 2.0
    y[2] = NAN
    assert valid_time(y, prediction) == 3.0
    y[3, 0] = NAN  # one of two columns: still wrong by 3
    assert valid_time(y, prediction) == 3.0
    y[3, 1] = 5.0  # and now right where it was seen
    assert valid_time(y, prediction) == 4.0


def test_entropy_is_its_definition():
    edges = np.linspace(-1, 1, 65)
    middles = 0.5 * (edges[1:] + edges[:-1])
    assert entropy(middles) == pytest.approx(6.0)
    assert entropy(np.full((3, 5), 0.3)) == 0.0
    assert entropy([0.1, 0.1, 0.1, 0.6], bins=4) == pytest.approx(-0.75 * math.log2(0.75) + 0.5)
    assert entropy([-1.0, 1.0], bins=2) == 1.0  # both ends belong
    assert entropy([0.0, 10.0], bins=2, range=(0.0, 10.0)) == 1.0
    rng = np.random.default_rng(8)
    assert entropy(rng.uniform(-1, 1, 100_000)) == pytest.approx(6.0, abs=1e-3)
    shares = np.diff(stats.norm.cdf(edges, scale=0.2))
    assert entropy(np.clip(rng.normal(0, 0.2, 200_000), -1, 1)) == pytest.approx(stats.entropy(shares, base=2), abs=0.01)


# missing values, precision, refusals


def test_missing_values_are_ignored():
    rng = np.random.default_rng(9)
    y, mean, std = rng.normal(size=(40, 2)), rng.normal(size=(40, 2)), rng.uniform(0.5, 2, size=(40, 2))
    gaps = y.copy()
    gaps[::3, 0] = NAN
    seen = ~np.isnan(gaps)
    first = seen[:, 0]
    for score in GAUSSIAN_SCORES:
        np.testing.assert_array_equal(score(gaps, mean, std), np.where(seen, score(y, mean, std), NAN))
    samples = rng.normal(size=(5, 40, 2))
    np.testing.assert_array_equal(crps_ensemble(gaps, samples), np.where(seen, crps_ensemble(y, samples), NAN))
    rows = log_score(gaps, mean, cov=np.eye(2))
    np.testing.assert_array_equal(rows, np.where(first, log_score(y, mean, cov=np.eye(2)), NAN))
    assert coverage(gaps, mean, std) == coverage(y[seen], mean[seen], std[seen])
    assert coverage(gaps, mean, std, axis=0)[0] == coverage(y[first, 0], mean[first, 0], std[first, 0])
    np.testing.assert_array_equal(pit_histogram(gaps, mean, std)[0], pit_histogram(y[seen], mean[seen], std[seen])[0])
    np.testing.assert_allclose(nrmse(gaps, mean)[0], nrmse(y[first, 0], mean[first, 0]), rtol=1e-14)
    assert np.isnan(gaps).sum() == (~seen).sum()  # and what was given is as it was


def test_single_precision_is_kept():
    y, mean, std = (np.array(values, np.float32) for values in ([0.5, NAN], [0.0, 0.0], [1.0, 2.0]))
    for score in GAUSSIAN_SCORES:
        assert score(y, mean, std).dtype == np.float32
        assert score(y, 0.0, 1.0).dtype == np.float32
        assert score(y, mean.astype(float), std).dtype == np.float64
        np.testing.assert_allclose(score(y, mean, std), score(y.astype(float), mean.astype(float), std.astype(float)), rtol=1e-6)
    assert crps_ensemble(y, np.zeros((3, 2), np.float32)).dtype == np.float32
    assert log_score(y, mean, cov=np.eye(2, dtype=np.float32)).dtype == np.float32
    large = np.array([3e38], np.float32)
    np.testing.assert_allclose(crps_gaussian(large, np.float32([0.0]), np.float32([1e-40])), large)
    assert nrmse(large * np.float32([1, -1]), large * np.float32([1, 1])) == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("score", [*GAUSSIAN_SCORES, coverage, pit_histogram])
@pytest.mark.parametrize(("arguments", "named"), [
    (([1.0], [NAN], [1.0]), "mean"), (([1.0], [0.0], [-1.0]), "std"), (([math.inf], [0.0], [1.0]), "y"),
    ((["a"], [0.0], [1.0]), "y"), ((np.ma.masked_array([1.0], [True]), [0.0], [1.0]), "y"),
    ((np.zeros(3), np.zeros((3, 1)), 1.0), "mean"),  # would be (3, 3)
    ((np.zeros(3), np.zeros(3), np.ones(2)), "std"),
])  # fmt: skip
def test_invalid_forecasts_are_refused(score, arguments, named):
    with pytest.raises((ValueError, TypeError), match=f"^{named} must "):
        score(*arguments)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: coverage([1.0], 0.0, 1.0, level=1.0), r"level must lie in \(0, 1\), got 1.0"),
    (lambda: coverage([NAN], 0.0, 1.0), "y must have at least one observed value, got none"),
    (lambda: coverage([[NAN, 1.0]], 0.0, 1.0, axis=0), "y must have at least one observed value along axis 0"),
    (lambda: pit_histogram([1.0], 0.0, 1.0, bins=0), "bins must be 1 or more, got 0"),
    (lambda: crps_ensemble([1.0], [1.0]), r"samples must have the shape of y and one axis more, axis 0, got .*\(1,\)"),
    (lambda: crps_ensemble(1.0, [NAN]), "samples must be finite, got nan"),
    (lambda: crps_ensemble(1.0, [2.0], fair=True), "samples must be 2 or more along axis 0, got 1"),
    (lambda: crps_ensemble(1.0, [2.0], fair=1), "fair must be True or False"),
    (lambda: log_score(1.0, 0.0), "std or cov must be given, and not both, got neither"),
    (lambda: log_score([1.0], [0.0], 1.0, cov=[[1.0]]), "std or cov must be given, and not both, got both"),
    (lambda: log_score(1.0, 0.0, cov=1.0), "y must have at least one axis where cov is given"),
    (lambda: log_score([1.0, 1.0], 0.0, cov=np.eye(3)), "cov must have shape"),
    (lambda: log_score([1.0, 1.0], 0.0, cov=np.diag([1.0, 0.0])), "cov must be positive definite, got a variance of 0"),
    (lambda: log_score([1.0, 1.0], 0.0, cov=[[1.0, 2.0], [2.0, 1.0]]), "cov must be positive semi-definite"),
    (lambda: nrmse([1.0, 2.0], [1.0]), r"prediction must have the shape of y, \(2,\), got \(1,\)"),
    (lambda: nrmse([1.0, 2.0], [1.0, NAN]), "prediction must be finite, got nan at index 1"),
    (lambda: nrmse([0.1, 0.1, 0.1], [1.0, 2.0, 3.0]), "y must vary.* got 0.1 everywhere"),
    (lambda: valid_time([1.0, 2.0], [1.0, 2.0], dt=0.0), "dt must lie in"),
    (lambda: valid_time(1.0, 1.0), r"y must have shape \(n,\) or \(n, d\), got \(\)"),
    (lambda: entropy([1.2]), r"values must lie in range, \[-1, 1\], got 1.2"),
    (lambda: entropy([]), "values must not be empty"), (lambda: entropy([0.0], range=(1.0, -1.0)), "range must be"),
])  # fmt: skip
def test_invalid_arguments_are_refused(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()
