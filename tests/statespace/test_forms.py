"""Claim: one Gaussian over what is carried and the units, moved exactly where it is linear and by exact moments through tanh.

Full holds what a Gaussian can hold. LowRank keeps the variance of every unit and the covariances of all that is carried and
read out; with room for all columns it is Full but for tanh's rest. Nothing turns negative, infinite or NaN.
"""

import numpy as np
import pytest

import pesn
from pesn.linalg import as_root
from pesn.moments.covariance import covariance
from pesn.reservoir.drive import draw, run
from pesn.statespace import FORMS, Coupling, Diagonal, Full, LowRank, Noise, start

COVARIANT = ("full", "low-rank")


def coupled(n=8, p=2, *, leak=0.6, seed=0, outputs=2, scale=0.8, bias=0.3, **options):
    rng = np.random.default_rng(seed)
    reservoir = draw(n, p, outputs, density=min(1.0, 4.0 / n), leak_rate=leak, bias_scaling=bias, rng=seed)
    return Coupling(reservoir, scale * reservoir.W_in, rng.normal(size=(outputs, n)) / np.sqrt(n), **options)


def some(coupling, p=2, spread=0.3, seed=1, form="full"):
    """A belief with correlations everywhere, c and h among them."""
    n = len(coupling.bias)
    rng = np.random.default_rng(seed)
    belief = start(form, rng.normal(size=n) * 0.5, spread * rng.normal(size=(n + 2, n)) / np.sqrt(n), coupling)
    K = rng.normal(size=(p, len(coupling.outputs))) @ coupling.outputs
    return belief.carry(K, rng.normal(size=p) * 0.3, spread * rng.normal(size=(p, p)))


def cov_of(belief):
    if isinstance(belief, Full):
        return belief.cov
    if isinstance(belief, Diagonal):
        return np.diag(belief.var)
    return belief.factor @ belief.factor.T + np.diag(np.concatenate([np.zeros(belief.carried), belief.own]))


def entering(coupling):
    return np.hstack([coupling.C, coupling.W.toarray()])


def twin(mean, cov, coupling, rest="all"):
    """Through the units by the formulas as they stand: the joint covariance of x and tanh a, then one matrix."""
    A, L, n = entering(coupling), coupling.leak, len(coupling.bias)
    p = len(mean) - n
    a, S = A @ mean + coupling.bias, A @ cov @ A.T
    S = 0.5 * (S + S.T)
    v = np.diag(S)
    g, unit = pesn.gain("tanh", a, v), pesn.moments("tanh", a, v)
    out = covariance("tanh", a, S)
    if rest != "all":
        own, linear = np.diag(unit.var - g * g * v), g[:, None] * S * g
        out = linear + own
        if rest == "second":
            k = (pesn.gain("tanh", a + 1e-5, v) - pesn.gain("tanh", a - 1e-5, v)) / 2e-5
            second = 0.5 * k[:, None] * S**2 * k
            out = linear + second + own - np.diag(np.diag(second))
    cross = cov @ A.T * g
    joint = np.block([[cov, cross], [cross.T, out]])
    M = np.zeros((p + n, p + 2 * n))
    M[:p, :p], M[p:, p : p + n], M[p:, p + n :] = np.eye(p), (1 - L) * np.eye(n), L * np.eye(n)
    return M @ np.concatenate([mean, unit.mean]), M @ joint @ M.T


def close(a, b, tolerance):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())


def is_covariance(cov):
    assert np.isfinite(cov).all()
    np.testing.assert_array_equal(cov, cov.T)
    values = np.linalg.eigvalsh(cov)
    assert values[0] >= -1e-12 * values[-1]


# ---------------------------------------------------------------- one step


@pytest.mark.parametrize("spread", [1e-3, 0.1, 0.5, 2.0])
@pytest.mark.parametrize("leak", [1.0, 0.6, 0.05])
def test_full_is_the_joint_gaussian_moved(spread, leak):
    coupling = coupled(leak=leak)
    before = some(coupling, spread=spread)
    after = before.through_units(coupling, offset=0.1)
    shifted = coupled(leak=leak)
    shifted.bias = coupling.bias + 0.1
    mean, cov = twin(before.mean, before.cov, shifted)
    close(after.mean, mean, 1e-10)
    close(after.cov, cov, 1e-9)
    is_covariance(after.cov)


@pytest.mark.parametrize("variance", [1e-4, 1e-2, 0.3, 1.0, 4.0])
def test_full_against_samples(variance):
    coupling = coupled(6)
    before = some(coupling, spread=np.sqrt(variance))
    after = before.through_units(coupling)
    rng = np.random.default_rng(7)
    x = before.mean + rng.standard_normal((400_000, 8)) @ as_root(before.cov)
    L = coupling.leak
    x[:, 2:] = (1 - L) * x[:, 2:] + L * np.tanh(x @ entering(coupling).T + coupling.bias)
    n = len(x)
    error = np.sqrt(np.diag(after.cov) / n)
    assert np.all(np.abs(x.mean(axis=0) - after.mean) < 5.0 * error)
    d = x - x.mean(axis=0)
    for i in range(8):
        product = d[:, i : i + 1] * d
        assert np.all(np.abs(product.mean(axis=0) - after.cov[i]) < 5.0 * product.std(axis=0) / np.sqrt(n))


@pytest.mark.parametrize("form", COVARIANT)
def test_the_covariance_of_what_is_carried_with_a_unit_is_exact(form):
    coupling = coupled(1, 1, outputs=1, leak=0.7)
    belief = start(form, np.array([0.4]), np.array([[0.9]]), coupling)
    belief = belief.carry(np.array([[0.5]]), np.array([-0.2]), np.array([[0.8]]))
    after = belief.through_units(coupling)
    x, w = np.polynomial.hermite_e.hermegauss(120)
    w /= w.sum()
    h = 0.4 + 0.9 * x[:, None]
    c = 0.5 * h - 0.2 + 0.8 * x[None, :]
    A = entering(coupling)[0]
    new = 0.3 * h + 0.7 * np.tanh(A[0] * c + A[1] * h + coupling.bias[0])
    weight = w[:, None] * w[None, :]
    mean = np.sum(weight * new)
    assert after.mean[1] == pytest.approx(mean, rel=1e-9)
    assert cov_of(after)[0, 1] == pytest.approx(np.sum(weight * (new - mean) * (c - np.sum(weight * c))), rel=1e-9)
    assert cov_of(after)[1, 1] == pytest.approx(np.sum(weight * (new - mean) ** 2), rel=1e-9)


@pytest.mark.parametrize(("rest", "products", "tolerance"), [("none", 0, 1e-10), ("second", 1000, 3e-4)])
@pytest.mark.parametrize("spread", [0.02, 0.4])
@pytest.mark.parametrize("leak", [1.0, 0.4])
def test_a_complete_factor_is_full_without_the_rest_between_units(rest, products, tolerance, spread, leak):
    coupling = coupled(rank=20, products=products, leak=leak)
    belief = some(coupling, spread=spread, form="low-rank")
    mean, cov = belief.mean, cov_of(belief)
    K = np.hstack([0.5 * np.eye(2), coupling.outputs])
    for _ in range(4):
        small = rest == "second" and spread < 0.1  # a rest this small is not taken apart
        belief = belief.through_units(coupling)
        mean, cov = twin(mean, cov, coupling, "none" if small else rest)
        close(belief.mean, mean, tolerance)
        close(cov_of(belief), cov, tolerance)
        full = np.vstack([K, np.hstack([np.zeros((8, 2)), np.eye(8)])])
        noise = np.zeros((10, 2))
        noise[:2] = 0.1 * np.eye(2)
        belief = belief.carry(K, np.zeros(2), noise[:2])
        mean, cov = full @ mean, full @ cov @ full.T + noise @ noise.T
        close(cov_of(belief), cov, tolerance)


def test_the_second_order_brings_low_rank_nearer_to_full():
    errors = []
    root = 0.5 * np.random.default_rng(0).normal(size=(3, 40))
    for products in (0, 4):
        coupling = coupled(40, leak=1.0, rank=20, products=products, bias=1.0)
        full, low = (start(form, np.zeros(40), root, coupling).carry(np.zeros((2, 40)), np.zeros(2)) for form in COVARIANT)
        full, low = full.through_units(coupling), low.through_units(coupling)
        seen = coupling.outputs @ low.factor[2:]
        errors.append(np.abs(seen @ seen.T - coupling.outputs @ full.cov[2:, 2:] @ coupling.outputs.T).max())
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize("rank", [1, 6, 12])
def test_a_cut_factor_keeps_variances_outputs_and_all_that_is_carried(rank):
    n, p = 30, 2
    coupling, whole = coupled(n, p, rank=rank, products=0), coupled(n, p, rank=100, products=0)
    cut, complete = (some(c, form="low-rank") for c in (coupling, whole))
    for _ in range(2):  # before a step the cut one counts as given; so the first step tells of start, the next of a step
        close(cut.variances(), complete.variances(), 1e-12)
        close(cut.with_carried(slice(None)), complete.with_carried(slice(None)), 1e-12)
        seen, all_seen = (b.factor[b.units].T @ coupling.outputs.T for b in (cut, complete))
        close(cut.factor @ seen, complete.factor @ all_seen, 1e-12)
        complete = Full(cut.mean, p, cut.cross, cov_of(cut))
        mean, cov = twin(cut.mean, complete.cov, coupling, "none")
        cut = cut.through_units(coupling)
        complete = LowRank(mean, p, cut.cross, as_root(0.5 * (cov + cov.T)).T, np.zeros(n))


def test_noise_of_the_units_is_added_in_every_form():
    rng = np.random.default_rng(3)
    noise = Noise(rng.normal(size=(3, 8)), rng.random(8))
    coupling = coupled(rank=20)
    for form in FORMS:
        belief = some(coupling, form=form)
        extra = cov_of(belief.through_units(coupling, noise=noise)) - cov_of(belief.through_units(coupling))
        expected = noise.root.T @ noise.root + np.diag(noise.diagonal)
        close(np.diag(extra)[2:], np.diag(expected), 1e-12)
        close(noise.variances(), np.diag(expected), 1e-12)
        if form != "diagonal":
            close(extra[2:, 2:], expected, 1e-12)
            close(noise.cov(), expected, 1e-12)


def test_diagonal_is_the_papers_form():
    coupling = coupled()
    belief = some(coupling, form="diagonal")
    after = belief.through_units(coupling)
    L = coupling.leak
    unit = pesn.moments("tanh", entering(coupling) @ belief.mean + coupling.bias, entering(coupling) ** 2 @ belief.var)
    close(after.mean[2:], (1 - L) * belief.mean[2:] + L * unit.mean, 1e-12)
    close(after.var[2:], (1 - L) ** 2 * belief.var[2:] + L * L * unit.var, 1e-12)
    np.testing.assert_array_equal(after.var[:2], belief.var[:2])


@pytest.mark.parametrize("form", COVARIANT)
def test_a_method_that_sees_less_variance_leaves_a_covariance(form):
    coupling = coupled(method="analytic", rank=20)
    belief = some(coupling, spread=0.4, form=form)
    for _ in range(5):
        belief = belief.through_units(coupling)
    is_covariance(cov_of(belief))


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("leak", [1.0, 0.3])
def test_without_variance_it_is_the_deterministic_run(form, leak):
    reservoir = draw(20, 2, 1, leak_rate=leak, density=0.2, bias_scaling=0.2, rng=0)
    inputs = np.random.default_rng(0).normal(size=(50, 2))
    states, _, _ = run(reservoir, inputs)
    coupling = Coupling(reservoir, reservoir.W_in)
    belief = start(form, np.zeros(20), np.zeros((0, 20)), coupling)
    for z, h in zip(inputs, states, strict=True):
        belief = belief.carry(np.zeros((2, len(belief.mean))), z, np.zeros((2, 2))).through_units(coupling)
        np.testing.assert_allclose(belief.mean[2:], h, rtol=0, atol=1e-13)
        assert not belief.variances().any()


@pytest.mark.parametrize("form", COVARIANT)
@pytest.mark.parametrize("leak", [1.0, 0.5])
def test_where_tanh_is_linear_it_is_the_kalman_prediction(form, leak):
    coupling = coupled(10, leak=leak, bias=0.0, rank=12, method="exact")  # whose mean has its digits near 0, too
    tiny = 1e-7
    belief = some(coupling, spread=tiny, form=form)
    belief = belief.carry(np.hstack([np.eye(2), np.zeros((2, 10))]), np.zeros(2))
    belief = type(belief)(**{**vars(belief), "mean": tiny * belief.mean})
    mean, cov = belief.mean, cov_of(belief)
    T = np.eye(12)
    T[2:] = leak * entering(coupling)
    T[2:, 2:] += (1 - leak) * np.eye(10)
    K = np.hstack([0.9 * np.eye(2), 0.2 * coupling.outputs])
    M = np.vstack([K, np.eye(12)[2:]])
    noise = tiny * np.diag([1.0, 0.3])
    for _ in range(20):
        belief = belief.through_units(coupling).carry(K, tiny * np.ones(2), noise)
        mean = M @ T @ mean
        mean[:2] += tiny
        cov = M @ T @ cov @ T.T @ M.T
        cov[:2, :2] += noise @ noise.T
        close(belief.mean, mean, 1e-10)
        close(cov_of(belief), cov, 1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("variance", [1e-300, 1e-20, 1e20, 1e300])
@pytest.mark.parametrize("leak", [1.0, 0.01])
def test_extreme_variances_stay_numbers(form, variance, leak):
    coupling = coupled(leak=leak)
    belief = some(coupling, spread=np.sqrt(variance), form=form)
    for _ in range(3):
        belief = belief.through_units(coupling).carry(np.hstack([0.5 * np.eye(2), coupling.outputs]), np.zeros(2))
        assert np.isfinite(belief.mean).all()
        assert np.isfinite(cov_of(belief)).all()
        assert np.all(belief.variances() >= 0.0)
    assert np.all(np.abs(belief.mean[2:]) <= 2.0)


# ---------------------------------------------------------------- affine moves


@pytest.mark.parametrize("form", COVARIANT)
def test_carry_is_affine(form):
    rng = np.random.default_rng(0)
    coupling = coupled(rank=20)
    belief = some(coupling, form=form)
    K, k, noise = rng.normal(size=(3, 10)), rng.normal(size=3), rng.normal(size=(3, 2))
    after = belief.carry(K, k, noise)
    M = np.vstack([K, np.eye(10)[2:]])
    expected = M @ cov_of(belief) @ M.T
    expected[:3, :3] += noise @ noise.T
    close(after.mean, np.concatenate([K @ belief.mean + k, belief.mean[2:]]), 1e-13)
    close(cov_of(after), expected, 1e-13)
    close(after.cov_carried(), expected[:3, :3], 1e-13)
    close(after.with_carried(slice(1, 3)), expected[:, 1:3], 1e-13)
    close(after.variances(), np.diag(expected), 1e-13)
    A = rng.normal(size=(11, 11))
    A = A @ A.T
    assert after.trace(A) == pytest.approx(np.trace(A @ expected), rel=1e-12)
    assert after.units == slice(3, None)


def test_the_diagonal_form_drops_covariances():
    coupling = coupled()
    belief = some(coupling, form="diagonal")
    K, noise = np.random.default_rng(0).normal(size=(3, 10)), np.eye(3, 2)
    after = belief.carry(K, np.zeros(3), noise)
    close(after.var, np.concatenate([K**2 @ belief.var + [1.0, 1.0, 0.0], belief.var[2:]]), 1e-13)
    np.testing.assert_array_equal(after.cov_carried(), np.diag(after.var[:3]))
    np.testing.assert_array_equal(after.with_carried(slice(0, 1))[1:], 0.0)
    assert after.trace(np.ones((11, 11))) == pytest.approx(after.var.sum())
    seen = after.observe(np.array([1.0, np.nan, 2.0]))
    np.testing.assert_array_equal(seen.mean, np.concatenate([[1.0, after.mean[1], 2.0], after.mean[3:]]))
    np.testing.assert_array_equal(seen.var, np.concatenate([[0.0, after.var[1], 0.0], after.var[3:]]))


@pytest.mark.parametrize("form", COVARIANT)
@pytest.mark.parametrize("pattern", [(0,), (1, 3), (0, 1, 2, 3), ()])
@pytest.mark.parametrize("singular", [None, "certain", "twice", "units"])
def test_observing_conditions_the_gaussian(form, pattern, singular):
    rng = np.random.default_rng(0)
    coupling = coupled(rank=20)
    K = rng.normal(size=(4, 10))
    noise = 0.2 * rng.normal(size=(4, 4))
    if singular == "certain":
        K[1], noise[1] = 0.0, 0.0
    if singular == "twice":
        K[1], noise[1] = -2.0 * K[3], -2.0 * noise[3]
    if singular == "units":  # of measure
        K[1], noise[1] = 1e-9 * K[1], 1e-9 * noise[1]
    belief = some(coupling, form=form).carry(K, np.zeros(4), noise)
    cov, seen = cov_of(belief), list(pattern)
    truth = belief.mean + cov @ rng.normal(size=12) / np.sqrt(np.diag(cov).max())  # possible values
    values = np.full(4, np.nan)
    values[seen] = truth[seen]
    after = belief.observe(values)
    scale = np.diag(1.0 / np.where(np.diag(cov) > 0.0, np.sqrt(np.diag(cov)), 1.0))
    R = scale @ cov @ scale
    G = R[:, seen] @ np.linalg.pinv(R[np.ix_(seen, seen)], rcond=1e-12, hermitian=True)
    back = np.linalg.inv(scale)
    mean = belief.mean + back @ G @ scale[np.ix_(seen, seen)] @ (values - belief.mean[:4])[seen]
    expected = back @ (R - G @ R[seen]) @ back
    close(after.mean, mean, 1e-9)
    np.testing.assert_allclose(cov_of(after), expected, rtol=1e-8, atol=1e-11 * np.abs(cov).max())
    is_covariance(cov_of(after))
    np.testing.assert_array_equal(after.mean[seen], values[seen])
    assert not cov_of(after)[seen].any()
    again = after.observe(values)
    np.testing.assert_array_equal(again.mean, after.mean)
    close(cov_of(again), cov_of(after), 1e-12)


def test_what_the_units_have_to_themselves_is_not_observed():
    coupling = coupled(30, rank=4, products=0)
    belief = some(coupling, form="low-rank").through_units(coupling)
    assert belief.own.any()
    after = belief.observe(np.array([0.1, np.nan]))
    np.testing.assert_array_equal(after.own, belief.own)
    F = belief.factor
    S = F[0] @ F[0]
    close(after.factor @ after.factor.T, F @ F.T - np.outer(F @ F[0], F @ F[0]) / S, 1e-12)


# ---------------------------------------------------------------- over time


@pytest.mark.parametrize("form", COVARIANT)
def test_covariances_with_the_past_are_those_of_a_longer_state(form):
    coupling = coupled(rank=30)
    belief = some(coupling, spread=1e-5, form=form)
    mean, cov = belief.mean, cov_of(belief)
    K = np.hstack([0.7 * np.eye(2), coupling.outputs])
    p, n, L = 2, 8, coupling.leak
    belief = belief.remember(slice(0, 1))
    J = np.vstack([np.eye(10), np.eye(10)[:1]])  # the past stands at the end
    cov = J @ cov @ J.T
    for step in range(6):
        a = entering(coupling) @ mean + coupling.bias
        g = 1.0 - np.tanh(a) ** 2
        T = np.eye(len(cov))
        T[p : p + n, : p + n] = L * g[:, None] * entering(coupling)
        T[p : p + n, p : p + n] += (1 - L) * np.eye(n)
        mean = np.concatenate([mean[:p], (1 - L) * mean[p:] + L * np.tanh(a)])
        M = np.eye(len(cov))
        M[:p, : p + n] = K
        mean[:p] = K @ mean
        cov = M @ T @ cov @ T.T @ M.T
        cov[:p, :p] += 1e-10 * np.eye(p)
        belief = belief.through_units(coupling).carry(K, np.zeros(2), 1e-5 * np.eye(2))
        if step == 2:
            belief = belief.remember(slice(0, 2))
            J = np.vstack([np.eye(11), np.eye(11)[:2]])
            cov = J @ cov @ J.T
        if step == 3:  # what is learnt of now tells of the past
            value = belief.mean[1] + 1e-5
            gain = cov[:, 1] / cov[1, 1]
            mean = mean + gain[:10] * (value - mean[1])
            cov = cov - np.outer(gain, cov[1])
            belief = belief.observe(np.array([np.nan, value]))
        close(belief.cross, cov[:10, 10:], 1e-8)


def test_covariances_with_the_past_against_samples():
    coupling = coupled(6)
    belief = some(coupling, spread=0.5).remember(slice(None))
    rng = np.random.default_rng(2)
    x = belief.mean + rng.standard_normal((200_000, 8)) @ as_root(belief.cov)
    past = x[:, :2] - x[:, :2].mean(axis=0)
    after = belief.through_units(coupling)
    L = coupling.leak
    x[:, 2:] = (1 - L) * x[:, 2:] + L * np.tanh(x @ entering(coupling).T + coupling.bias)
    for j in range(2):
        product = (x - x.mean(axis=0)) * past[:, j : j + 1]
        assert np.all(np.abs(product.mean(axis=0) - after.cross[:, j]) < 5.0 * product.std(axis=0) / np.sqrt(len(x)))


def test_the_past_of_the_diagonal_form():
    coupling = coupled()
    belief = some(coupling, form="diagonal")
    after = belief.remember(slice(0, 1))
    np.testing.assert_array_equal(after.cross[:, 0], np.concatenate([belief.var[:1], np.zeros(9)]))
    assert not after.observe(np.array([0.0, np.nan])).cross.any()


@pytest.mark.parametrize("form", COVARIANT)
def test_many_steps(form):
    n, p = 12, 2
    coupling = coupled(n, p, rank=8)
    rng = np.random.default_rng(0)
    belief = some(coupling, p, form=form)
    K = np.hstack([0.9 * np.eye(p), 0.1 * coupling.outputs])
    shifts, noise = rng.normal(size=(2_000, p)), 0.05 * np.eye(p)
    for step, shift in enumerate(shifts):
        belief = belief.through_units(coupling).carry(K, 0.3 * shift, noise)
        if step % 7 == 0:
            belief = belief.observe(np.array([0.5 * shift[0], np.nan]))
        if step % 200 == 199:
            is_covariance(0.5 * cov_of(belief) + 0.5 * cov_of(belief).T)
            assert np.isfinite(belief.mean).all()
            assert np.all(belief.variances() < 10.0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("observed", [False, True])
def test_a_loop_that_diverges_stays_numbers(form, observed):
    coupling = coupled(4, rank=3)
    belief = some(coupling, form=form).remember(slice(0, 1))
    K = np.hstack([1.5 * np.array([[np.cos(1.0), -np.sin(1.0)], [np.sin(1.0), np.cos(1.0)]]), coupling.outputs])
    for step in range(1_000):
        belief = belief.through_units(coupling).carry(K, np.ones(2), np.eye(2))
        if observed and step % 700 == 699:
            belief = belief.observe(np.array([1.0, np.nan]))
        if step % 100 == 99:
            for part in (belief.mean, cov_of(belief), belief.cross):
                assert np.isfinite(part).all()
            values = np.linalg.eigvalsh(cov_of(belief))
            assert values[0] >= -1e-12 * values[-1]
    assert np.sqrt(belief.variances()[:2].max()) == pytest.approx(1e100, rel=1e-6) or observed
    assert np.all(np.abs(belief.mean[2:]) <= 1.0 + 1e-12)


# ---------------------------------------------------------------- starts and products


@pytest.mark.parametrize("rank", [3, 8, 50])
def test_a_start_keeps_variances_outputs_and_what_is_to_be_exact(rank):
    rng = np.random.default_rng(0)
    coupling = coupled(30, rank=rank)
    root, exact = rng.normal(size=(40, 30)), rng.normal(size=(2, 30))
    belief = start("low-rank", np.zeros(30), root, coupling, exact)
    cov = root.T @ root
    close(belief.variances(), np.diag(cov), 1e-12)
    for rows in (coupling.outputs, exact):
        close(belief.factor @ (belief.factor.T @ rows.T), cov @ rows.T, 1e-11)
    close(cov_of(start("full", np.zeros(30), root)), cov, 1e-13)
    close(start("diagonal", np.zeros(30), root).variances(), np.diag(cov), 1e-13)


@pytest.mark.parametrize("width", [1, 7, 8, 23, 40, 64, 90])
def test_sparse_products(width):
    rng = np.random.default_rng(width)
    coupling = coupled(50, 3)
    x = rng.normal(size=(53, width))
    close(coupling.enter(x), entering(coupling) @ x, 1e-14)
    close(coupling.enter(x, x[:, :2]), entering(coupling) @ np.hstack([x, x[:, :2]]), 1e-14)
    close(coupling.times(x[3:]), coupling.W @ x[3:], 1e-14)
    close(coupling.times_transposed(x[3:]), coupling.W.T @ x[3:], 1e-14)


def test_moves_leave_what_they_are_given_as_it_was():
    coupling = coupled(rank=4)
    for form in FORMS:
        belief = some(coupling, form=form).remember(slice(0, 1))
        parts = {name: np.copy(part) for name, part in vars(belief).items()}
        belief.through_units(coupling, noise=Noise(np.ones((1, 8)), np.ones(8)))
        belief.carry(np.ones((1, 10)), np.ones(1), np.ones((1, 1)))
        belief.observe(np.array([0.3, np.nan]))
        for name, part in parts.items():
            np.testing.assert_array_equal(getattr(belief, name), part)
