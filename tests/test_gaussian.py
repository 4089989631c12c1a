"""A Gaussian agrees with the textbook formulas for every form of its covariance, validates its arguments and is immutable."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pesn.gaussian import Gaussian

KINDS = ("diagonal", "full", "factor", "factor+var")


def draw(kind, d=4, batch=(), seed=0, k=2, dtype=np.float64):
    rng = np.random.default_rng(seed)
    mean, var = rng.normal(size=(*batch, d)).astype(dtype), rng.uniform(0.1, 2.0, (*batch, d)).astype(dtype)
    factor = rng.normal(size=(*batch, d, k)).astype(dtype)
    if kind == "diagonal":
        return Gaussian(mean, var)
    if kind == "full":
        root = rng.normal(size=(*batch, d, d)).astype(dtype)
        return Gaussian(mean, cov=root @ np.swapaxes(root, -1, -2))
    return Gaussian(mean, factor=factor, var=var if kind == "factor+var" else None)


def textbook_condition(mean, cov, seen, values):
    rest = [i for i in range(len(mean)) if i not in seen]
    gain = cov[np.ix_(rest, seen)] @ np.linalg.inv(cov[np.ix_(seen, seen)])
    return mean[rest] + gain @ (values - mean[seen]), cov[np.ix_(rest, rest)] - gain @ cov[np.ix_(seen, rest)]


# ---------------------------------------------------------------- one covariance, four ways to keep it


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_variance_covariance_and_shapes_agree(kind, batch):
    x = draw(kind, batch=batch)
    assert (x.dim, x.batch_shape) == (4, batch)
    assert x.mean.shape == x.var.shape == x.std.shape == (*batch, 4)
    assert x.cov.shape == (*batch, 4, 4)
    np.testing.assert_allclose(np.diagonal(x.cov, axis1=-2, axis2=-1), x.var, rtol=1e-12)
    np.testing.assert_allclose(x.std**2, x.var, rtol=1e-12)
    np.testing.assert_array_equal(x.cov, np.swapaxes(x.cov, -1, -2))
    if x.factor is not None:
        own = np.zeros((*batch, 4)) if x.diagonal is None else x.diagonal
        np.testing.assert_allclose(x.cov, x.factor @ np.swapaxes(x.factor, -1, -2) + own[..., None] * np.eye(4), atol=1e-14)


def test_scalars_broadcast_variances_and_means_alone():
    assert Gaussian(np.zeros((3, 2)), cov=np.eye(2)).cov.shape == (3, 2, 2)  # for each of them
    np.testing.assert_array_equal(Gaussian(0.0, [1.0, 4.0]).std, [1.0, 2.0])
    x = Gaussian([1, 2, 3])
    assert x.mean.dtype == np.float64
    np.testing.assert_array_equal(x.var, 0.0)
    np.testing.assert_array_equal(x.sample(5, rng=0), np.tile([1.0, 2.0, 3.0], (5, 1)))
    # scalars
    x = Gaussian(1.0, 4.0)
    assert (x.mean, x.var, x.std, x.cov, x.dim, x.batch_shape) == (1.0, 4.0, 2.0, 4.0, 1, ())
    assert Gaussian(1.0, cov=4.0).var == 4.0
    assert x.sample(7, rng=0).shape == (7,)
    assert x.affine(3.0, 1.0).var == 36.0
    assert x.affine([[3.0]], [1.0]).mean.shape == (1,)
    assert x.join(x).var.tolist() == [4.0, 4.0]
    np.testing.assert_allclose(x.logpdf([0.0, 1.0]), stats.norm.logpdf([0.0, 1.0], 1.0, 2.0), rtol=1e-12)
    low, high = x.interval(0.5)
    assert low < x.mean < high


@pytest.mark.parametrize("kind", KINDS)
def test_float32_is_kept_and_mixed_precision_is_float64(kind):
    x = draw(kind, dtype=np.float32)
    one = x.mean.dtype.type(1.0)
    results = [
        x.mean, x.var, x.std, x.cov, x.sample(2, rng=0), *x.interval(0.9), x.logpdf(x.mean) if kind != "factor" else x.mean,
        x.affine(np.ones((2, 4), np.float32)).mean, x.affine(np.ones((2, 4), np.float32), np.ones(2, np.float32)).cov,
        x.affine(one).cov,
        x.join(x).cov, x.marginal([1]).cov, x.condition([0], np.ones(1, np.float32)).cov,
        x.observe(np.ones((1, 4), np.float32), np.ones(1, np.float32), one).cov,
        x.observe(np.ones((1, 4), np.float32), np.ones(1, np.float32)).cov,
    ]  # fmt: skip
    assert {np.asarray(r).dtype for r in results} == {np.dtype(np.float32)}
    assert Gaussian(np.zeros(2, np.float32), np.ones(2)).mean.dtype == np.float64
    assert x.affine(np.ones((2, 4))).mean.dtype == np.float64


# ---------------------------------------------------------------- identities


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p", [1, 4, 9])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_affine_agrees_with_the_dense_formula(kind, p, batch):
    x, rng = draw(kind, batch=batch), np.random.default_rng(p)
    A, b = rng.normal(size=(p, 4)), rng.normal(size=p)
    y = x.affine(A, b)
    np.testing.assert_allclose(y.mean, x.mean @ A.T + b, rtol=1e-12)
    np.testing.assert_allclose(y.cov, A @ x.cov @ A.T, atol=1e-12)
    np.testing.assert_allclose(x.affine(-2.0, 1.0).cov, 4.0 * x.cov, rtol=1e-12)
    np.testing.assert_allclose(x.affine(-2.0, 1.0).mean, 1.0 - 2.0 * x.mean, rtol=1e-12)


def test_affine_keeps_a_low_rank():
    x = Gaussian(np.zeros(500), factor=np.ones((500, 3)))
    y = x.affine(np.ones((800, 500)))
    assert y.factor.shape == (800, 3)
    assert "cov" not in vars(x)
    assert "cov" not in vars(y)
    y.var, y.sample(2, rng=0), y.interval(0.9)
    Gaussian(np.zeros(500), var=1.0, factor=np.ones((500, 3))).logpdf(np.zeros(500))
    assert "cov" not in vars(y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_marginals_of_a_join_are_the_parts(kind, other):
    x, y = draw(kind, batch=(3,)), draw(other, d=3, seed=1)
    z = x.join(y)
    assert z.mean.shape == (3, 7)
    whole = x.marginal([0]).join(x.marginal([1, 2, 3]), cross=x.cov[:, :1, 1:])
    np.testing.assert_allclose(whole.cov, x.cov, rtol=1e-12)
    np.testing.assert_array_equal(z.cov[:, :4, 4:], 0.0)
    for part, whole in ((z.marginal(slice(4)), x), (z.marginal([4, 5, 6]), y)):
        np.testing.assert_array_equal(part.mean, np.broadcast_to(whole.mean, part.mean.shape))
        np.testing.assert_allclose(part.cov, np.broadcast_to(whole.cov, part.cov.shape), rtol=1e-12)


def test_marginal_by_number_list_mask_and_slice():
    x = draw("full")
    np.testing.assert_array_equal(x.marginal(-1).cov, x.cov[3:, 3:])
    np.testing.assert_array_equal(x.marginal([2, 0]).cov, x.cov[np.ix_([2, 0], [2, 0])])
    np.testing.assert_array_equal(x.marginal([True, False, True, False]).mean, x.mean[[0, 2]])
    np.testing.assert_array_equal(x.marginal(slice(1, None)).mean, x.mean[1:])
    assert x.marginal([]).mean.shape == (0,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seen", [[0], [2, 1], [3, 0]])
def test_condition_agrees_with_the_textbook_formula(kind, seen):
    x, values = draw(kind), np.array([0.3, -1.2])[: len(seen)]
    mean, cov = textbook_condition(x.mean, x.cov, seen, values)
    y = x.condition(seen, values)
    np.testing.assert_allclose(y.mean, mean, atol=1e-12)
    np.testing.assert_allclose(y.cov, cov, atol=1e-12)
    batch, many = draw(kind, batch=(3,)), np.random.default_rng(3).normal(size=(3, len(seen)))
    y, one = batch.condition(seen, many), x.condition(seen, many)  # one prior, three observations
    for i in range(3):
        mean, cov = textbook_condition(batch.mean[i], batch.cov[i], seen, many[i])
        np.testing.assert_allclose(y.mean[i], mean, atol=1e-11)
        np.testing.assert_allclose(y.cov[i], cov, atol=1e-11)
        np.testing.assert_allclose(one.mean[i], textbook_condition(x.mean, x.cov, seen, many[i])[0], atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", ["number", "vector", "matrix", "none"])
def test_observe_agrees_with_conditioning_the_joint_gaussian(kind, noise):
    x, rng = draw(kind), np.random.default_rng(8)
    H, y = rng.normal(size=(2, 4)), rng.normal(size=2)
    R = {"number": 0.3, "vector": np.array([0.1, 0.4]), "matrix": np.array([[0.4, 0.1], [0.1, 0.2]]), "none": 0.0}[noise]
    full = R if noise == "matrix" else R * np.eye(2)
    joint = np.block([[x.cov, x.cov @ H.T], [H @ x.cov, H @ x.cov @ H.T + full]])
    mean, cov = textbook_condition(np.concatenate([x.mean, H @ x.mean]), joint, [4, 5], y)
    z = x.observe(H, y) if noise == "none" else x.observe(H, y, R)
    np.testing.assert_allclose(z.mean, mean, atol=1e-11)
    np.testing.assert_allclose(z.cov, cov, atol=1e-11)


def test_many_and_dependent_observations_of_a_low_rank():
    x, rng = draw("factor", d=8, k=3), np.random.default_rng(0)
    for _ in range(100):
        x = x.observe(rng.normal(size=(1, 8)), rng.normal(size=1), 1e-6)
    assert x.factor.shape == (8, 3)
    assert (x.var > 0.0).all()
    assert x.var.max() < 1e-5
    # condition of a low rank on dependent variables
    line = Gaussian(np.zeros(4), factor=[[1.0], [2.0], [3.0], [4.0]]).condition([0, 1, 2], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(line.mean, [4.0], rtol=1e-12)
    np.testing.assert_allclose(line.cov, [[0.0]], atol=1e-28)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(KINDS), st.floats(-12.0, 6.0))
def test_observe_never_increases_a_variance(seed, kind, exponent):
    x = draw(kind, seed=seed)
    y = x.observe(np.random.default_rng(seed).normal(size=(2, 4)), [0.0, 1.0], 10.0**exponent)
    assert ((y.var >= 0.0) & (y.var <= x.var * (1.0 + 1e-12))).all()
    assert np.linalg.eigvalsh(y.cov).min() >= -1e-13 * x.var.max()


def singular_factor(rng):
    """Return a factor with few columns, duplicates, zeros or round numbers, and units from 1e-8 to 1e8."""
    d = int(rng.integers(2, 8))
    F = rng.normal(size=(d, int(rng.integers(1, d + 1))))
    kind = rng.integers(4)
    if kind == 1:
        F[rng.integers(d)] = F[rng.integers(d)]
    elif kind == 2:
        F[rng.integers(d)] = 0.0
    elif kind == 3:
        F = np.round(2.0 * F) / 2.0
    return F, 10.0 ** rng.uniform(-8.0, 8.0, size=d)


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_condition_of_a_singular_covariance_in_different_units(first):
    for seed in range(first, first + 100):
        rng = np.random.default_rng(seed)
        F, units = singular_factor(rng)
        d, G = len(F), F * units[:, None]
        seen = np.sort(rng.permutation(d)[: rng.integers(1, d)])
        rest = np.setdiff1d(np.arange(d), seen)
        w = rng.normal(size=F.shape[1])
        x = Gaussian(np.zeros(d), cov=G @ G.T)
        y = x.condition(seen, (G @ w)[seen])
        # The reference conditions the factor in equal units. Rounding grows with the condition number of what is seen.
        _, sizes, basis = np.linalg.svd(F[seen])
        rank = int((sizes > 1e-10).sum())
        left = F[rest] @ basis[rank:].T
        tolerance = 1e-12 / (sizes[rank - 1] / sizes[0]) ** 2 if rank else 1e-12
        std = np.where(F[rest].any(axis=1), np.linalg.norm(F[rest], axis=1), 1.0) * units[rest]
        correlations = y.cov / std[:, None] / std
        expected = left @ left.T * units[rest, None] * units[rest] / std[:, None] / std
        np.testing.assert_allclose(correlations, expected, atol=tolerance, err_msg=f"seed {seed}")
        mean = F[rest] @ (basis[:rank].T @ (basis[:rank] @ w)) * units[rest]
        np.testing.assert_allclose(y.mean / std, mean / std, atol=1e3 * tolerance, err_msg=f"seed {seed}")
        assert (y.var <= x.var[rest] * (1.0 + 1e-12)).all(), f"seed {seed}"
        assert np.linalg.eigvalsh(correlations).min() >= -1e-14, f"seed {seed}"
        prior = x.cov[np.ix_(rest, rest)] / std[:, None] / std
        assert np.linalg.eigvalsh(prior - correlations).min() >= -tolerance, f"seed {seed}"
        # one after the other is the same as all at once
        order = [k for k in range(d) if k != seen[0]]
        step = x.condition(seen[:1], (G @ w)[seen[:1]]).condition([order.index(k) for k in seen[1:]], (G @ w)[seen[1:]])
        np.testing.assert_allclose(step.cov / std[:, None] / std, correlations, atol=1e3 * tolerance, err_msg=f"seed {seed}")
        observed = x.observe(np.eye(d)[seen], (G @ w)[seen]).marginal(rest)
        np.testing.assert_allclose(observed.cov / std[:, None] / std, correlations, atol=tolerance, err_msg=f"seed {seed}")


def test_condition_on_inconsistent_duplicates_uses_their_mean():
    x = Gaussian(np.zeros(3), cov=np.array([[1.0, 1.0, 0.6], [1.0, 1.0, 0.6], [0.6, 0.6, 1.0]]) / 3.0)
    np.testing.assert_allclose(x.condition([0, 1], [1.0, 3.0]).mean, [1.2], rtol=1e-12)
    np.testing.assert_array_equal(x.condition([0], [1.0]).var[0], 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_logpdf_agrees_with_scipy(kind):
    x = draw(kind, k=4)
    points = np.random.default_rng(2).normal(size=(5, 4))
    np.testing.assert_allclose(x.logpdf(points), stats.multivariate_normal(x.mean, x.cov).logpdf(points), rtol=1e-8)
    batch = draw(kind, batch=(5,), k=4)
    each = [stats.multivariate_normal(m, c).logpdf(p) for m, c, p in zip(batch.mean, batch.cov, points, strict=True)]
    np.testing.assert_allclose(batch.logpdf(points), each, rtol=1e-8)


def test_logpdf_of_a_low_rank_and_a_tiny_variance():
    F = np.array([[1.0], [2.0]])
    x = Gaussian([0.0, 0.0], var=1e-14, factor=F)
    # Along F the density is that of the factor, across it that of the variance: an orthogonal basis gives both in one line.
    along, across = np.sqrt(5.0 + 1e-14), 1e-7
    expected = stats.norm.logpdf(3.0, scale=along) + stats.norm.logpdf(2e-7, scale=across)
    point = 3.0 * F[:, 0] / np.sqrt(5.0) + 2e-7 * np.array([2.0, -1.0]) / np.sqrt(5.0)
    assert x.logpdf(point) == pytest.approx(expected, rel=1e-6)


# ---------------------------------------------------------------- samples and intervals


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_samples_have_the_mean_and_covariance(kind, batch):
    n, x = 40_000, draw(kind, batch=batch)
    s = x.sample(n, rng=1)
    assert s.shape == (n, *batch, 4)
    np.testing.assert_array_equal(x.sample(3, rng=1), x.sample(3, rng=np.random.default_rng(1)))
    assert np.all(np.abs(s.mean(axis=0) - x.mean) < 5.0 * x.std / math.sqrt(n))
    centerd = s - x.mean
    cov = np.einsum("n...i,n...j->...ij", centerd, centerd) / n
    error = np.sqrt((x.var[..., :, None] * x.var[..., None, :] + x.cov**2) / n)  # Isserlis
    assert np.all(np.abs(cov - x.cov) < 5.0 * error)


def test_samples_of_singular_covariances():
    x = Gaussian(np.zeros(3), cov=[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    s = x.sample(1000, rng=0)
    np.testing.assert_allclose(s[:, 0], s[:, 1], atol=1e-7)
    np.testing.assert_allclose(s[:, 2], 0.0, atol=1e-7)
    assert abs(s[:, 0].var() - 1.0) < 0.25
    np.testing.assert_array_equal(Gaussian(np.zeros(2), cov=np.zeros((2, 2))).sample(2, rng=0), 0.0)


@settings(max_examples=50, deadline=None)
@given(st.floats(-1e3, 1e3), st.floats(1e-6, 1e6), st.floats(1e-6, 1.0 - 1e-9))
def test_interval_agrees_with_scipy(mean, std, level):
    low, high = Gaussian(mean, std**2).interval(level)
    expected = -stats.norm.interval(level)[0]  # the lower end: SciPy's upper one comes from 1 − tiny
    assert high - mean == pytest.approx(expected * std, rel=1e-9, abs=1e-12)
    assert mean - low == pytest.approx(expected * std, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("v", [0.0, 1e-300, 1.0, 1e300])
def test_extreme_variances_stay_finite(v):
    F = np.diag(np.sqrt([v, v]))
    for x in (Gaussian([0.0, 1.0], v), Gaussian([0.0, 1.0], cov=v * np.eye(2)), Gaussian([0.0, 1.0], factor=F)):
        np.testing.assert_allclose(x.std, math.sqrt(v), rtol=1e-12)
        for array in (*x.interval(0.99), x.sample(10, rng=0), x.condition([0], [0.0]).std, x.observe([[1.0, 0.0]], [0.0], v).std):
            assert np.isfinite(array).all()
        np.testing.assert_allclose(x.condition([0], [0.0]).std, math.sqrt(v), rtol=1e-12)
        np.testing.assert_allclose(x.observe([[1.0, 0.0]], [0.0], v).std, [math.sqrt(v / 2), math.sqrt(v)], rtol=1e-12)


# ---------------------------------------------------------------- it does not change


def test_gaussian_is_immutable():
    mean, cov = np.zeros(2), np.eye(2)
    x = Gaussian(mean, cov=cov)
    mean[0], cov[0, 0] = 7.0, 7.0
    assert (x.mean[0], x.cov[0, 0]) == (0.0, 1.0)
    for name in ("mean", "var", "anything"):
        with pytest.raises(AttributeError, match="does not change"):
            setattr(x, name, 1.0)
    for kind in KINDS:
        y = draw(kind)
        for again in (y, copy.copy(y), copy.deepcopy(y), pickle.loads(pickle.dumps(y))):
            np.testing.assert_array_equal(again.cov, y.cov)
            for array in (again.mean, again.var, again.cov):
                with pytest.raises(ValueError, match="read-only"):
                    array[0] = 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_condition_on_no_and_on_all_variables(kind):
    x = draw(kind)
    np.testing.assert_allclose(x.condition([], []).cov, x.cov, rtol=1e-12, atol=1e-13)
    assert x.condition([0, 1, 2, 3], np.zeros(4)).mean.shape == (0,)
    empty = x.marginal([])
    assert empty.cov.shape == (0, 0)
    np.testing.assert_allclose(empty.join(x).cov, x.cov, rtol=1e-12)
    assert Gaussian([], cov=np.zeros((0, 0))).sample(2, rng=0).shape == (2, 0)


def test_repr():
    assert repr(Gaussian([0.0, 1.0], 4.0)) == "Gaussian(mean=[0. 1.], std=[2. 2.], covariance='diagonal')"
    assert "full" in repr(draw("full"))
    assert "low-rank" in repr(draw("factor"))
    assert len(repr(Gaussian(np.zeros(10_000)))) < 200


# ---------------------------------------------------------------- what is refused


def test_rounding_of_a_covariance_is_accepted():
    c = np.array([[1.0, 0.5], [0.5 + 1e-14, 1.0]])
    x = Gaussian([0.0, 0.0], cov=c)
    assert x.cov[0, 1] == x.cov[1, 0]
    assert (Gaussian([0.0, 0.0], cov=[[1.0, 0.0], [0.0, -1e-17]]).var >= 0.0).all()
    root = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    for dtype in (np.float32, np.float64):
        low_rank = root.astype(dtype)
        assert Gaussian(np.zeros(300, dtype), cov=low_rank @ low_rank.T).sample(1, rng=0).shape == (1, 300)


Z2, I2 = np.zeros(2), np.eye(2)


@pytest.mark.parametrize(("arguments", "error", "words"), [
    ({"mean": [0.0, np.nan]}, ValueError, "mean must be finite, got nan at index 1"),
    ({"mean": [0.0, 1.0j]}, TypeError, "mean must be real numbers"),
    ({"mean": [[1.0], [1.0, 2.0]]}, ValueError, "mean must be an array of numbers"),
    ({"mean": Z2, "var": [1.0, -1.0]}, ValueError, "var must not be negative, got -1"),
    ({"mean": Z2, "var": [1.0, 1.0, 1.0]}, ValueError, r"mean and var must broadcast, got shapes \(2,\) and \(3,\)"),
    ({"mean": Z2, "cov": I2, "var": 1.0}, ValueError, "cov must be given alone, got var too"),
    ({"mean": Z2, "cov": np.eye(3)}, ValueError, r"cov must have shape \(2, 2\), got shape \(3, 3\)"),
    ({"mean": 0.0, "cov": I2}, ValueError, "cov must have no axes"),
    ({"mean": np.zeros((4, 2)), "cov": np.ones((3, 1, 1)) * I2}, ValueError, "cov must have the batch shape of mean"),
    ({"mean": Z2, "cov": [[1.0, 0.5], [0.4, 1.0]]}, ValueError, r"symmetric, got 0.5 at \(0, 1\) and 0.4 at \(1, 0\)"),
    ({"mean": Z2, "cov": [[1.0, 2.0], [2.0, 1.0]]}, ValueError, "semi-definite, got a smallest eigenvalue of -1"),
    ({"mean": Z2, "cov": [[1e-9, 0.0], [0.0, -1e-9]]}, ValueError, "cov must be positive semi-definite"),
    ({"mean": Z2, "factor": np.ones((3, 1))}, ValueError, r"factor must have shape \(2, k\)"),
    ({"mean": 0.0, "factor": [[1.0]]}, ValueError, "factor must have a mean of at least one dimension"),
    ({"mean": Z2, "factor": [[1e200], [1.0]]}, ValueError, "factor must have finite squares"),
])  # fmt: skip
def test_invalid_arguments_of_the_constructor_raise(arguments, error, words):
    with pytest.raises(error, match=words):
        Gaussian(**arguments)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda x: x.interval(0.0), ValueError, r"level must lie in \(0, 1\), got 0.0"),
    (lambda x: x.interval("95%"), TypeError, "level must be a number in"),
    (lambda x: x.sample(2.5), TypeError, "n must be a whole number"),
    (lambda x: x.affine(np.ones((2, 3))), ValueError, r"A must have shape \(p, 2\)"),
    (lambda x: x.affine(np.ones((3, 2)), [1.0, 2.0]), ValueError, r"b must have shape \(3,\)"),
    (lambda x: x.join(3.0), TypeError, "other must be a Gaussian, got float"),
    (lambda x: x.join(x, cross=np.ones((1, 2))), ValueError, r"cross must have shape \(2, 2\)"),
    (lambda x: x.join(x, cross=3.0 * I2), ValueError, "cross, with both covariances, must be positive semi-definite"),
    (lambda x: Gaussian(np.zeros((3, 2))).join(Gaussian(np.zeros((4, 2)))), ValueError, "batch shape"),
    (lambda x: x.marginal([2]), ValueError, "indices must be positions"),
    (lambda x: x.condition([0, 0], [1.0, 1.0]), ValueError, "indices must not repeat"),
    (lambda x: x.condition([0], [1.0, 1.0]), ValueError, "values must have 1 entries"),
    (lambda x: x.observe(I2, [1.0]), ValueError, "y must have 2 entries"),
    (lambda x: x.observe(I2, Z2, [1.0, 1.0, 1.0]), ValueError, "R must have shape"),
    (lambda x: x.observe(I2, Z2, -I2), ValueError, "R must be positive semi-definite"),
    (lambda x: x.logpdf([1.0]), ValueError, "x must have 2 entries"),
    (lambda x: Gaussian(Z2).logpdf(Z2), ValueError, "logpdf needs a positive definite covariance"),
])  # fmt: skip
def test_invalid_arguments_of_methods_raise(call, error, words):
    with pytest.raises(error, match=words):
        call(Gaussian(Z2, 1.0))


def test_std_is_the_root_of_var():
    mean, std = np.zeros((2, 3)), np.array([0.0, 1e-150, 2.0])
    for rest in ({}, {"factor": np.ones((2, 3, 1))}):
        np.testing.assert_array_equal(Gaussian(mean, std=std, **rest).cov, Gaussian(mean, var=std**2, **rest).cov)
    assert Gaussian(np.float32(1.0), std=np.float32(0.1)).std.dtype == np.float32
    for wrong, words in (
        ({"std": -1.0}, "std must not be negative, got -1.0"),
        ({"std": [1.0, 2.0]}, "broadcast"),
        ({"std": 1e-170}, "std must have squares that are neither 0 nor infinite in float64, got 1e-170"),
        ({"std": 1e200}, "std must have squares that are neither 0 nor infinite"),
        ({"std": 1.0, "var": 1.0}, "var and std must not both be given"),
        ({"std": 1.0, "cov": np.eye(3)}, "cov must be given alone, got std too"),
        ({"std": np.nan}, "std must be finite"),
    ):
        with pytest.raises(ValueError, match=words):
            Gaussian(np.zeros(3), **wrong)
