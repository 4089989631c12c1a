"""Claim: Sobol's points are spread as the input is, whatever its units, and what cannot be summed up of them is said."""

import numpy as np
import pytest

import pesn
from pesn.networks.points import spread_points, standard_points

CORRELATIONS = np.array([[1.0, 0.9, 0.5, 0.3], [0.9, 1.0, 0.6, 0.2], [0.5, 0.6, 1.0, -0.4], [0.3, 0.2, -0.4, 1.0]])


def itself(rows):
    return rows


SCALES = {"alike": (1.0, 2.0, 0.5, 1.0), "1e16 apart": (1e-8, 1.0, 1e8, 1e3), "1e250 apart": (1e-150, 1e-20, 1e40, 1e100)}


@pytest.mark.parametrize("units", SCALES)
def test_units_do_not_matter(units):
    scale = SCALES[units]
    x = pesn.Gaussian(np.zeros(4), cov=CORRELATIONS * np.outer(scale, scale))
    found = pesn.propagate(itself, x, n_samples=4096)
    np.testing.assert_allclose(found.cov / np.outer(scale, scale), CORRELATIONS, atol=0.01)


def test_a_row_of_uneven_units_is_the_same_among_others():
    covs = np.stack([CORRELATIONS, CORRELATIONS * np.outer([1e-8, 1.0, 1e8, 1.0], [1e-8, 1.0, 1e8, 1.0])])
    points = standard_points(4, 64, np.random.default_rng(0))
    batch = list(spread_points(pesn.Gaussian(np.zeros((2, 4)), cov=covs), points))
    for cov, among in zip(covs, batch, strict=True):
        (alone,) = spread_points(pesn.Gaussian(np.zeros(4), cov=cov), points)
        np.testing.assert_allclose(among, alone, rtol=1e-9)


def test_what_is_certain_stays_where_it_is():
    cov = np.zeros((4, 4))
    cov[np.ix_([0, 2, 3], [0, 2, 3])] = CORRELATIONS[np.ix_([0, 2, 3], [0, 2, 3])]
    x = pesn.Gaussian([0.1, 3.0, 0.2, 0.3], cov=cov)
    (points,) = spread_points(x, standard_points(4, 64, np.random.default_rng(0)))
    assert (points[:, 1] == 3.0).all()  # a category stays one


def test_a_constant_has_no_deviation():
    found = pesn.propagate(lambda rows: np.full(len(rows), 0.1), pesn.Gaussian([1.0], var=1.0))
    assert (found.mean.item(), found.std.item(), found.reliability.item()) == (0.1, 0.0, 0.0)


@pytest.mark.parametrize(("mean", "var"), [(np.float32([1e6]), np.float32(1e-4)), ([1.0], 1e-300)], ids=["float32", "float64"])
def test_a_deviation_below_the_last_bit_is_not_trusted(mean, var):
    assert pesn.propagate(itself, pesn.Gaussian(mean, var=var)).reliability == 1.0
    assert pesn.propagate(itself, pesn.Gaussian(mean)).reliability == 0.0  # of what is certain nothing is lost


@pytest.mark.filterwarnings("error")
def test_variances_beyond_all_numbers():
    with pytest.raises(ValueError, match=r"network must give numbers whose variance is finite, got numbers up to \d.*e\+200"):
        pesn.propagate(lambda rows: 1e200 * rows, pesn.Gaussian([1.0], var=1.0))


@pytest.mark.parametrize("spread", [{"var": [0.1, 0.2, 0.3]}, {"cov": CORRELATIONS[:3, :3]}], ids=["var", "cov"])
def test_a_batch_may_have_more_axes(spread):
    mean = np.random.default_rng(0).normal(size=(2, 4, 3))
    found = pesn.propagate(np.sin, pesn.Gaussian(mean, **spread), return_samples=True)
    assert (found.cov.shape, found.reliability.shape, found.samples.shape) == ((2, 4, 3, 3), (2, 4), (2, 4, 2048, 3))
    one = pesn.propagate(np.sin, pesn.Gaussian(mean[1, 2], **spread))
    np.testing.assert_allclose(found.cov[1, 2], one.cov, rtol=1e-9)


def test_no_rows():
    with pytest.raises(ValueError, match=r"x must have a row, .*got a mean of shape \(0, 2\)"):
        pesn.propagate(itself, pesn.Gaussian(np.zeros((0, 2)), var=1.0))


@pytest.mark.parametrize("closure", ["auto", "gaussian", "third-order", "sobol"])
def test_no_rows_of_layers(closure):
    layers = [pesn.Dense(np.ones((3, 2)), None, "tanh"), pesn.Dense(np.ones((1, 3)), None, "tanh")]
    with pytest.raises(ValueError, match=r"x must have a row, .*got a mean of shape \(0, 2\)"):
        pesn.propagate(layers, pesn.Gaussian(np.zeros((0, 2)), var=1.0), closure=closure)


@pytest.mark.parametrize("rng", [-1, 1.5, "a", np.random.RandomState(0)], ids=["negative", "a fraction", "a word", "RandomState"])
def test_what_is_no_seed(rng):
    with pytest.raises((TypeError, ValueError), match=r"rng must be None, a seed \(0 or more\) or a NumPy generator, got "):
        pesn.propagate(itself, pesn.Gaussian([1.0], var=1.0), rng=rng)
