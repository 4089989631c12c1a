"""Claim: a loop's step is the affine map that is written down, tanh apart; observing is conditioning; ten steps in a closed loop
have the mean, the deviations and the lag covariances of the stochastic system that it stands for."""

import dataclasses
import itertools

import numpy as np
import pytest

import pesn
from pesn.linalg import root_of
from pesn.readout.ridge import Readout
from pesn.reservoir.closed_loop import PARTS, Errors, Loop, follow, learn_errors
from pesn.reservoir.drive import draw
from pesn.reservoir.initial_state import learn as learn_start
from pesn.statespace import Noise, start

KINDS = {
    "change": {},
    "level": {"change": False},
    "controls": {"n_known": 2},
    "feedback": {"feedback": 0.4},
    "feedback of levels": {"feedback": 0.4, "change": False, "n_known": 1},
    "kinematics": {"learn": (3, 1), "d": 4, "n_known": 1, "feedback": 0.3},
    "low-rank": {"form": "low-rank", "n_known": 1},
}


def a_loop(
    *, d=2, learn=None, n_known=0, feedback=0.0, change=True, form="full", include=PARTS, N=14, rank=14, noise=True, seed=1
):
    rng = np.random.default_rng(seed)
    learn = np.arange(d) if learn is None else np.array(learn)
    rest = np.setdiff1d(np.arange(d), learn)
    m, r = len(learn), len(rest)
    reservoir = draw(N, d + n_known, m, density=0.4, input_scaling=0.4, feedback_scaling=feedback, rng=seed)
    weights = 0.25 * rng.normal(size=(m, 1 + d + n_known + N)) / np.sqrt(N)
    weights[:, 1 : 1 + d] -= 0.3 * np.eye(d)[learn] if change else 0.0
    S = 0.05 * rng.normal(size=(1 + d + n_known + N,) * 2)
    a = rng.normal(size=(d, d))
    cov = 0.05**2 * (a @ a.T + np.eye(d))
    rho = rng.uniform(0.2, 0.8, d)
    errors = Errors(cov, rho, cov * (1.0 - np.outer(rho, rho)))
    kinematics = 0.3 * rng.normal(size=(r, d)), 0.4 * rng.normal(size=(r, m)), 0.1 * rng.normal(size=r)
    own = Noise(0.02 * rng.normal(size=(3, N)), np.full(N, 0.01**2)) if noise else None
    scale = rng.uniform(0.5, 0.9, m)
    return Loop(
        reservoir,
        Readout(weights, np.eye(m), S, 500),
        errors,
        learn,
        rest,
        kinematics,
        scale,
        change,
        form,
        own,
        include,
        {"rank": rank},
    )


def begun(loop, seed=2, spread=0.15):
    """A belief in which everything is uncertain and correlated."""
    rng = np.random.default_rng(seed)
    N, d, n = loop.reservoir.n_units, loop.size, loop.reservoir.n_inputs - loop.size
    units = start(loop.form, 0.3 * rng.normal(size=N), spread * rng.normal(size=(N, N)) / np.sqrt(N), loop.coupling)
    belief = loop.enter(units, 0.5 * rng.normal(size=d), 0.1 * np.eye(d), 0.3 * rng.normal(size=n), np.full(n, 0.04))
    return loop.emit(loop.drive(belief), 0.3 * rng.normal(size=n), np.full(n, 0.01)).belief


def covariance(belief):
    if hasattr(belief, "cov"):
        return belief.cov
    own = np.concatenate([np.zeros(belief.carried), belief.own])
    return belief.factor @ belief.factor.T + np.diag(own)


def parts_of(loop, x):
    """[y, e, u, o, h] of a stacked vector, or of stacked rows."""
    d, m, n = loop.size, len(loop.learn), loop.reservoir.n_inputs - loop.size
    fed = m if np.any(loop.reservoir.W_fb) else 0
    return np.split(x, np.cumsum([d, d, n, fed]), axis=-1)


def slow_emit(loop, x, eta, u_new):
    """One step as the module's text has it, for one x or for rows of them."""
    y, e, u, _, h = parts_of(loop, x)
    A, B, c = loop.kinematics
    e = loop.errors.persistence * e + eta
    b = np.concatenate([np.ones_like(y[..., :1]), y, u, h], axis=-1)
    after = b @ loop.readout.weights.T * loop.scale + e[..., loop.learn]
    if loop.change:
        after = after + y[..., loop.learn]
    new = np.empty_like(y)
    new[..., loop.learn] = after
    new[..., loop.rest] = y @ A.T + after @ B.T + c + e[..., loop.rest]
    # what training feeds back: the target itself
    fed = (after - y[..., loop.learn] if loop.change else after) / loop.scale
    if not np.any(loop.reservoir.W_fb):
        fed = fed[..., :0]
    return np.concatenate([new, e, u_new, fed, h], axis=-1)


def slow_drive(loop, x, w=0.0):
    y, _, u, o, h = parts_of(loop, x)
    r = loop.reservoir
    a = np.concatenate([y, u], axis=-1) @ r.W_in.T + h @ r.W.toarray().T + r.bias
    if o.shape[-1]:
        a = a + o @ r.W_fb.T
    h = (1 - r.leak_rate) * h + r.leak_rate * np.tanh(a) + w
    return np.concatenate([x[..., : x.shape[-1] - h.shape[-1]], h], axis=-1)


def innovation(loop, belief):
    """Of the errors, with what the weights' doubt adds: bᵀ A⁻¹ b on average, for as few rows as the errors leave independent."""
    d, n = loop.size, loop.reservoir.n_inputs - loop.size
    p = belief.carried
    places = [*range(d), *range(2 * d, 2 * d + n), *range(p, p + loop.reservoir.n_units)]
    inverse = loop.readout.covariance_root @ loop.readout.covariance_root.T
    b = np.concatenate([[1.0], belief.mean[places]])
    doubt = b @ inverse @ b + np.trace(inverse[1:, 1:] @ covariance(belief)[np.ix_(places, places)])
    rho = loop.errors.persistence
    grown = np.array([np.sqrt(1 + (1 + rho[i]) / (1 - rho[i]) * doubt) if i in loop.learn else 1.0 for i in range(d)])
    return loop.errors.innovation * np.outer(grown, grown)


# ---------------------------------------------------------------- one step


@pytest.mark.parametrize("kind", KINDS)
def test_emit_is_the_affine_map_that_is_written_down(kind):
    loop = a_loop(**KINDS[kind])
    belief = begun(loop)
    n, d = loop.reservoir.n_inputs - loop.size, loop.size
    u, u_var = np.linspace(-1.0, 1.0, n), np.linspace(0.0, 0.2, n)
    step = loop.emit(belief, u, u_var)
    # the matrix of an affine function, column by column, over [x, η, u]
    size = len(belief.mean)
    zero = slow_emit(loop, np.zeros(size), np.zeros(d), np.zeros(n))
    M = np.array([slow_emit(loop, *np.split(unit, [size, size + d])) - zero for unit in np.eye(size + d + n)]).T
    cov = np.zeros((size + d + n,) * 2)
    R = innovation(loop, belief)
    # of a low-rank belief, what each unit has to itself is nothing that the readout sees
    cov[:size, :size] = belief.cov if hasattr(belief, "cov") else belief.factor @ belief.factor.T
    cov[size : size + d, size : size + d] = R
    cov[size + d :, size + d :] = np.diag(u_var)
    np.testing.assert_allclose(step.belief.mean, slow_emit(loop, belief.mean, np.zeros(d), u), rtol=0, atol=1e-12)
    p = belief.carried
    np.testing.assert_allclose(step.belief.cov_carried(), (M @ cov @ M.T)[:p, :p], rtol=0, atol=1e-12)
    np.testing.assert_allclose(step.belief.with_carried(slice(0, d)), (M @ cov @ M.T)[:, :d], rtol=0, atol=1e-12)
    # the three parts: each is what the map makes of its own covariance, in y
    J = M[:d, size : size + d]
    new, noise = np.diag(J @ R @ J.T), np.diag(J @ loop.errors.innovation @ J.T)
    noise = np.minimum(noise, new)  # doubt about one column may cancel noise in another: no part is negative
    np.testing.assert_allclose(step.parts["noise"], noise, rtol=1e-9)
    np.testing.assert_allclose(step.parts["weights"], new - noise, atol=1e-14)
    np.testing.assert_allclose(step.parts["state"], np.diag(M[:, :size] @ cov[:size, :size] @ M[:, :size].T)[:d], atol=1e-12)


@pytest.mark.parametrize("kind", ["feedback", "kinematics"])
def test_drive_moves_the_units_alone_and_by_stein(kind):
    loop = a_loop(**KINDS[kind])
    belief = begun(loop)
    after = loop.drive(belief)
    p, r = belief.carried, loop.reservoir
    C = np.zeros((r.n_units, p))
    d, m = loop.size, len(loop.learn)
    C[:, :d], C[:, 2 * d : p - m], C[:, p - m :] = r.W_in[:, :d], r.W_in[:, d:], r.W_fb
    T = np.hstack([C, r.W.toarray()])
    a, a_cov = T @ belief.mean + r.bias, T @ belief.cov @ T.T
    unit = pesn.moments("tanh", a, np.diag(a_cov))
    L, g = r.leak_rate, pesn.gain("tanh", a, np.diag(a_cov))
    h, h_cov = belief.mean[p:], belief.cov[p:, p:]
    np.testing.assert_allclose(after.mean, np.concatenate([belief.mean[:p], (1 - L) * h + L * unit.mean]), atol=1e-12)
    np.testing.assert_allclose(after.cov[:p, :p], belief.cov[:p, :p], atol=0)
    mixed = (1 - L) * belief.cov[p:, :p] + L * g[:, None] * (T @ belief.cov[:, :p])
    np.testing.assert_allclose(after.cov[p:, :p], mixed, atol=1e-12)
    own = np.diag((1 - L) ** 2 * h_cov) + L**2 * unit.var + 2 * (1 - L) * L * g * np.diag(T @ belief.cov[:, p:])
    np.testing.assert_allclose(np.diag(after.cov)[p:], own + loop.noise.variances(), atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seen", [[0], [1], [0, 1]])
def test_to_observe_is_to_condition(kind, seen):
    loop = a_loop(**KINDS[kind])
    belief = begun(loop)
    y = np.full(loop.size, np.nan)
    y[seen] = belief.mean[seen] + 0.1
    after, cov = loop.observe(belief, y), covariance(belief)
    gain = np.linalg.solve(cov[np.ix_(seen, seen)], cov[seen]).T
    np.testing.assert_allclose(after.mean, belief.mean + gain @ (y[seen] - belief.mean[seen]), atol=1e-9)
    np.testing.assert_allclose(covariance(after), cov - gain @ cov[seen], atol=1e-9)
    assert (after.mean[seen] == y[seen]).all()
    assert (after.variances()[seen] == 0.0).all()


def test_nothing_observed_changes_nothing():
    loop = a_loop()
    belief = begun(loop)
    assert loop.observe(belief, np.full(2, np.nan)) is belief


@pytest.mark.parametrize("change", [True, False])
def test_an_output_that_is_fed_back_is_known_once_both_rows_are(change):
    loop = a_loop(feedback=0.4, change=change)
    belief = loop.observe(begun(loop), np.array([0.2, -0.1]))
    after = loop.observe(loop.emit(loop.drive(belief), np.zeros(0), np.zeros(0)).belief, np.array([0.5, 0.1]))
    target = (np.array([0.3, 0.2]) if change else np.array([0.5, 0.1])) / loop.scale
    *_, o, _ = parts_of(loop, after.mean)
    np.testing.assert_allclose(o, target, atol=1e-9)
    np.testing.assert_allclose(parts_of(loop, after.variances())[3], 0.0, atol=1e-12)


@pytest.mark.parametrize("kind", ["kinematics"])
def test_positions_follow_their_map_exactly(kind):
    """With no errors of their own, y[rest] − A y_before − B y[learn] is the constant c: of no variance, to rounding."""
    loop = a_loop(**KINDS[kind])
    none = np.zeros(loop.size)
    none[loop.learn] = 1.0
    keep = np.outer(none, none)
    errors = Errors(loop.errors.cov * keep, loop.errors.persistence, loop.errors.innovation * keep)
    loop = Loop(**{**vars_of(loop), "errors": errors})
    A, B, c = loop.kinematics
    d = loop.size
    belief = loop.drive(begun(loop)).remember(slice(0, d))
    before = belief.mean[:d], covariance(belief)[:d, :d]
    after = loop.emit(belief, np.zeros(1), np.zeros(1)).belief
    joint = np.block([[before[1], after.cross[:d].T], [after.cross[:d], after.cov_carried()[:d, :d]]])
    rows = np.hstack([-A, np.eye(d)[loop.rest] - B @ np.eye(d)[loop.learn]])
    np.testing.assert_allclose(rows @ joint, 0.0, atol=1e-12)
    np.testing.assert_allclose(rows @ np.concatenate([before[0], after.mean[:d]]), c, atol=1e-12)


def vars_of(loop):
    return {name: getattr(loop, name) for name in loop.__dataclass_fields__}


# ---------------------------------------------------------------- ten steps


@pytest.mark.parametrize("kind", KINDS)
def test_ten_steps_are_those_of_the_stochastic_system(kind):
    """20,000 samples of the real recursion: means within 0.1 deviations, deviations within 10 %, lag correlations within 0.05."""
    loop = a_loop(**KINDS[kind], include=("state", "noise"))
    rng = np.random.default_rng(7)
    n, d, size = 20_000, loop.size, loop.reservoir.n_inputs - loop.size
    belief = begun(loop)
    x = belief.mean + rng.normal(size=(n, len(belief.mean))) @ root_of(covariance(belief)).T
    steps, R, Q = 10, root_of(loop.errors.innovation), root_of(loop.noise.cov())
    paths, means, joint = np.empty((steps, n, d)), np.empty((steps, d)), np.zeros((steps, d, steps, d))
    for k in range(steps):
        u, u_var = 0.3 * np.sin(k + np.arange(size)), np.full(size, 0.01)
        u_new = u + 0.1 * rng.normal(size=(n, size))
        x = slow_drive(loop, x, rng.normal(size=(n, len(Q))) @ Q.T)
        x = slow_emit(loop, x, rng.normal(size=(n, d)) @ R.T, u_new)
        paths[k] = x[:, :d]
        belief = loop.emit(loop.drive(belief), u, u_var).belief
        means[k], joint[k, :, k] = belief.mean[:d], belief.cov_carried()[:d, :d]
        joint[k, :, :k] = belief.cross[:d].reshape(d, k, d)
        joint[:k, :, k] = joint[k, :, :k].transpose(1, 2, 0)
        belief = belief.remember(slice(0, d))
    std = np.sqrt(np.einsum("kiki->ki", joint))
    np.testing.assert_array_less(np.abs(paths.mean(axis=1) - means), 0.1 * std)
    np.testing.assert_allclose(std, paths.std(axis=1), rtol=0.1)
    correlation = joint.reshape(steps * d, -1) / np.outer(std, std)
    found = np.corrcoef(paths.transpose(0, 2, 1).reshape(steps * d, n))
    np.testing.assert_allclose(correlation, found, atol=0.05)


# ---------------------------------------------------------------- where it starts


@pytest.mark.parametrize(("form", "rank"), [("full", 14), ("low-rank", 14), ("low-rank", 6)])
@pytest.mark.parametrize("missing", [[0], [1], [0, 1], [0, 1, 2], []])
def test_a_first_row_with_gaps_is_conditioned_on_what_is_there(form, rank, missing):
    loop = a_loop(n_known=1, form=form, rank=rank)
    rng = np.random.default_rng(0)
    z = np.cumsum(rng.normal(size=(400, 3)), axis=0) % 5.0 - 2.5
    h = np.tanh(z @ rng.normal(size=(3, 14)) + 0.3 * rng.normal(size=(400, 14)))
    given = learn_start([(z, h, 0)])
    row = np.array([0.3, -0.2, 0.5])
    row[missing] = np.nan
    u_var = np.isnan(row[2:]).astype(float)
    belief = loop.start_joint(given, row[:2], np.nan_to_num(row[2:]), u_var)
    mean, root = given.joint()
    cov = root.T @ root
    seen = np.flatnonzero(~np.isnan(row))
    gain = np.linalg.solve(cov[np.ix_(seen, seen)], cov[seen]).T
    mean, cov = mean + gain @ (row[seen] - mean[seen]), cov - gain @ cov[seen]
    keep = [0, 1, *range(3, 17)]  # y and h
    places = [0, 1, *range(belief.carried, belief.carried + 14)]
    np.testing.assert_allclose(belief.mean[places], mean[keep], atol=1e-9)
    np.testing.assert_allclose(belief.with_carried(slice(0, 2))[places], cov[np.ix_(keep, [0, 1])], atol=1e-9)
    np.testing.assert_allclose(belief.variances()[places], np.diag(cov)[keep], atol=1e-9)
    np.testing.assert_allclose(np.diag(belief.cov_carried())[4:5], u_var)


# ---------------------------------------------------------------- far out


def test_y_grows_no_wider_than_the_long_run_allows_and_stays_finite():
    loop = a_loop()
    wild = loop.readout._replace(weights=loop.readout.weights + 0.9 * np.eye(2, 17, 1))
    loop = Loop(**{**vars_of(loop), "readout": wild})
    belief = begun(loop)
    for _ in range(60):
        step = loop.emit(loop.drive(belief), np.zeros(0), np.zeros(0))
        belief = step.belief
        std = np.sqrt(np.diag(belief.cov_carried())[:2])
        np.testing.assert_allclose(sum(step.parts.values()), std**2, rtol=1e-9)
        assert np.isfinite(covariance(belief)).all()
        assert (std <= np.maximum(2.0, 4.0 * np.abs(belief.mean[:2])) * 1.0000001).all()
    assert np.linalg.eigvalsh(belief.cov).min() > -1e-9 * np.trace(belief.cov)


# ---------------------------------------------------------------- errors that go on


def test_errors_are_learnt_from_residuals_that_go_on():
    rng = np.random.default_rng(0)
    rho, a = np.array([0.9, 0.3, -0.5]), rng.normal(size=(3, 3))
    Q = a @ a.T
    runs = []
    for _ in range(3):
        e = np.zeros((6000, 3))
        for k, new in enumerate(rng.normal(size=(5999, 3)) @ a.T):
            e[k + 1] = rho * e[k] + new
        runs.append(e[200:])
    errors = learn_errors(runs)
    stationary = Q / (1.0 - np.outer(rho, rho))
    std = np.sqrt(np.diag(stationary))
    np.testing.assert_allclose(errors.persistence, rho, atol=0.03)
    np.testing.assert_allclose(errors.innovation / np.outer(np.sqrt(np.diag(Q)), np.sqrt(np.diag(Q))), _correlation(Q), atol=0.05)
    np.testing.assert_allclose(errors.cov / np.outer(std, std), _correlation(stationary), atol=0.15)
    twice = learn_errors(runs, worth=2.0)
    np.testing.assert_allclose(twice.cov, 2.0 * errors.cov)
    np.testing.assert_allclose(twice.innovation, 2.0 * errors.innovation)
    np.testing.assert_array_equal(twice.persistence, errors.persistence)


def test_no_step_of_an_error_leads_from_one_run_into_the_next():
    """Two runs of opposite sign: within each the error stays, between them it jumps."""
    runs = [np.full((50, 1), 1.0), np.full((50, 1), -1.0)]
    assert learn_errors(runs).innovation[0, 0] < 1e-3 < learn_errors([np.vstack(runs)]).innovation[0, 0]


@pytest.mark.parametrize("residuals", [[np.ones((1, 2))], [np.zeros((5, 2))], [np.ones((1, 2)), np.zeros((1, 2))]])
def test_few_or_no_errors_are_numbers_all_the_same(residuals):
    for part in learn_errors(residuals):
        assert np.isfinite(part).all()


def test_errors_are_followed_to_where_they_go():
    """Each error with a share: what learning from all of them at once would find, where they have come to rest."""
    rng = np.random.default_rng(0)
    a = np.array([[1.0, 0.0], [0.6, 0.5]])
    rho, e = np.array([0.7, -0.2]), np.zeros((20_000, 2))
    for k, new in enumerate(rng.normal(size=(19_999, 2)) @ a.T):
        e[k + 1] = rho * e[k] + new
    errors = Errors(1e-4 * np.eye(2), rho, 1e-4 * np.eye(2))
    for before, after in itertools.pairwise(e):
        errors = follow(errors, after, before, 1e-3)
    found = learn_errors([e[-5000:]])
    np.testing.assert_allclose(errors.innovation, found.innovation, atol=0.1)
    np.testing.assert_allclose(errors.cov, found.cov, atol=0.2)


def _correlation(cov):
    std = np.sqrt(np.diag(cov))
    return cov / np.outer(std, std)


# ---------------------------------------------------------------- after learning


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal"])
@pytest.mark.parametrize("kind", ["controls", "feedback", "kinematics"])
def test_a_loop_that_has_learnt_is_one_made_anew(kind, form):
    loop, other = (a_loop(**{**KINDS[kind], "form": form, "rank": 6, "seed": seed}) for seed in (1, 3))
    begun(loop)  # everything that is kept is there
    moved = loop.moved(other.readout, other.errors)
    anew = dataclasses.replace(loop, readout=other.readout, errors=other.errors)
    known = np.zeros(loop.reservoir.n_inputs - loop.size)
    for _ in range(2):  # the loop itself stays what it was
        found, expected = (one.emit(one.drive(begun(one)), known, known) for one in (moved, anew))
        np.testing.assert_array_equal(found.belief.mean, expected.belief.mean)
        np.testing.assert_array_equal(found.belief.variances(), expected.belief.variances())
        for part in PARTS:
            np.testing.assert_array_equal(found.parts[part], expected.parts[part])
        moved, anew = moved.moved(loop.readout, loop.errors), loop
