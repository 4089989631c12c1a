"""Tests of driven reservoirs:

1. W has the requested spectral radius within 1e-10, the exact number of weights, and is strongly connected. A seed gives the
   same weights on every platform and for all scalings.
2. The compiled loops agree with a naive NumPy implementation: with teacher forcing, with output feedback, with noise, and for
   the mean and variance of the probabilistic network.
3. A split run equals the whole run bit by bit.
4. Moments inside the loop agree with ``pesn.moments`` within 1e-8, variances also within a relative 1e-6. Variances are finite
   and nonnegative. Without variance and noise, the probabilistic network equals the deterministic one.
5. Invalid input raises an error that names the parameter.
"""

import hashlib

import numpy as np
import pytest
import scipy.sparse.linalg
from scipy.sparse.csgraph import connected_components

import pesn
from pesn.reservoir import kernels
from pesn.reservoir.drive import State, run, run_gaussian
from pesn.reservoir.weights import Reservoir, draw

T, D, M = 200, 2, 3


@pytest.fixture(scope="module")
def reservoir():
    return draw(70, D, M, feedback_scaling=0.3, leak_rate=0.3, rng=5)  # not a multiple of 4, nor of a block of 64


@pytest.fixture(scope="module")
def data(reservoir):
    rng = np.random.default_rng(1)
    return {
        "inputs": rng.normal(size=(T, D)), "var": rng.uniform(0.0, 0.3, (T, D)), "teacher": rng.normal(size=(T, M)),
        "readout": rng.normal(size=(M, 1 + D + reservoir.n_units)) / 10.0,
        "state": State(rng.uniform(-0.5, 0.5, 70), rng.uniform(0.0, 0.2, 70), rng.normal(size=M), np.full(M, 0.1)),
    }  # fmt: skip


# ---------------------------------------------------------------- 1. drawing


@pytest.mark.parametrize(("n_units", "density", "radius"), [
    (1, 1.0, 0.5), (2, 0.5, 0.9), (10, 0.1, 0.9), (50, 1.0, 1.3), (100, 0.1, 0.9), (201, 0.1, 1e-3), (300, 0.02, 0.99),
    (400, 0.1, 0.9),
])  # fmt: skip
def test_spectral_radius_density_and_connectivity_are_as_requested(n_units, density, radius):
    for seed in range(3):
        W = draw(n_units, 1, 1, spectral_radius=radius, density=density, rng=seed).W
        assert abs(np.abs(np.linalg.eigvals(W.toarray())).max() - radius) < 1e-10
        assert W.nnz == np.count_nonzero(W.data) == round(density * n_units**2)
        assert np.ptp(np.diff(W.indptr)) <= 1
        assert connected_components(W, directed=True, connection="strong")[0] == 1


def test_spectral_radius_of_a_cycle_is_the_geometric_mean_of_its_weights():
    data = draw(1000, 1, 1, density=1 / 1000, rng=0).data  # eigenvalue solvers do not reach 1e-10 here
    assert np.exp(np.log(np.abs(data)).mean()) == pytest.approx(0.9, abs=1e-12)
    W = draw(30, 1, 1, density=1 / 30, rng=0).W
    assert np.abs(np.linalg.eigvals(W.toarray())) == pytest.approx(0.9, abs=1e-10)


def test_falls_back_to_dense_eigenvalues_if_arpack_does_not_converge(monkeypatch):
    W = draw(250, 1, 1, rng=0).W

    def fails(*_, **__):
        raise scipy.sparse.linalg.ArpackNoConvergence("no", [], [])

    monkeypatch.setattr("scipy.sparse.linalg.eigs", fails)
    np.testing.assert_allclose(draw(250, 1, 1, rng=0).W.data, W.data, rtol=1e-12)


def test_seed_gives_the_same_weights_on_every_platform():
    drawn = draw(220, 2, 1, input_scaling=0.5 * 2**0.5, feedback_scaling=0.3, rng=42)
    digest = hashlib.sha256()
    for part in drawn[:6]:
        digest.update(np.round(np.asarray(part, float) * 1e9).astype("<i8").tobytes())
    assert digest.hexdigest()[:16] == "45c8aa634084ba18"


@pytest.mark.parametrize("d", [1, 4, 50])
def test_input_variance_per_unit_does_not_depend_on_the_number_of_inputs(d):
    W_in = draw(2000, d, 1, input_scaling=0.6, density=0.001, rng=0).W_in
    assert np.abs(W_in).max() <= 0.6 / np.sqrt(d)
    assert np.mean(np.sum(W_in**2, axis=1)) == pytest.approx(0.6**2 / 3.0, rel=0.05)  # variance for inputs of variance 1


def test_scalings_do_not_change_the_random_draws():
    plain = draw(30, 2, 1, rng=0)
    scalings = {"spectral_radius": 0.45, "input_scaling": 1.0, "bias_scaling": 0.0, "feedback_scaling": 2.0}
    other = draw(30, 2, 1, rng=np.random.default_rng(0), **scalings)
    np.testing.assert_array_equal(other.indices, plain.indices)
    np.testing.assert_allclose(other.data, plain.data / 2.0, rtol=1e-14)
    np.testing.assert_allclose(other.W_in, plain.W_in * 2.0, rtol=1e-15)
    assert not other.bias.any()
    assert not plain.W_fb.any()
    assert 1.0 < np.abs(other.W_fb).max() <= 2.0
    assert (plain.n_units, plain.n_inputs, plain.n_outputs) == (30, 2, 1)


# ---------------------------------------------------------------- 2. naive recursion


def twin(r, z, state, teacher=None, readout=None, noise=None, var=None):
    """Run the documented recursion step by step; with var, that of the diagonal probabilistic network."""
    W, L = r.W.toarray(), r.leak_rate
    h, y = state.mean, state.output
    v, y_var = (state.var, state.output_var) if var is not None else (np.zeros_like(h), np.zeros_like(y))
    rows = []
    for k in range(len(z)):
        fed = teacher is not None or readout is not None
        a = r.W_in @ z[k] + W @ h + r.bias + (r.W_fb @ y if fed else 0.0)
        if var is None:
            h = (1 - L) * h + L * np.tanh(a) + (0.0 if noise is None else noise[k])
        else:
            a_var = r.W_in**2 @ var[k] + W**2 @ v + (r.W_fb**2 @ y_var if fed else 0.0)
            mean, unit, *_ = pesn.moments("tanh", a, a_var, method="exact")
            h, v = (1 - L) * h + L * mean, (1 - L) ** 2 * v + L**2 * unit + (noise or 0.0) ** 2
        out = out_var = None
        if readout is not None:
            out = readout @ np.concatenate([[1.0], z[k], h])
            out_var = readout**2 @ np.concatenate([[0.0], z[k] if var is None else var[k], v])
            y, y_var = out, out_var
        if teacher is not None:
            y, y_var = teacher[k], np.zeros(M)
        rows.append((h, v, out, out_var))
    return [None if column[0] is None else np.array(column) for column in zip(*rows, strict=True)]


FEEDBACKS = pytest.mark.parametrize("given", [(), ("teacher",), ("readout",), ("teacher", "readout")], ids="+".join)


def options(data, given, rows=slice(None)):
    return {
        "feedback": data["teacher"][rows] if "teacher" in given else None,
        "readout": data["readout"] if "readout" in given else None,
    }


@FEEDBACKS
def test_run_matches_the_naive_recursion(reservoir, data, given):
    states, outputs, last = run(reservoir, data["inputs"], data["state"], **options(data, given))
    true, _, true_outputs, _ = twin(reservoir, data["inputs"], data["state"], *options(data, given).values())
    np.testing.assert_allclose(states, true, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(last.mean, states[-1])
    assert last.var is last.output_var is None
    if "readout" in given:
        np.testing.assert_allclose(outputs, true_outputs, rtol=0, atol=1e-12)
    else:
        assert outputs is None
    expected = data["teacher"][-1] if "teacher" in given else outputs[-1] if given else data["state"].output
    np.testing.assert_array_equal(last.output, expected)


@FEEDBACKS
@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1.0, 100.0])
def test_run_gaussian_matches_the_naive_recursion(reservoir, data, given, scale):
    var, s = data["var"] * scale, data["state"]
    start = s._replace(var=min(scale, 1.0) * s.var, output_var=min(scale, 1.0) * s.output_var)
    means, variances, outputs, last = run_gaussian(
        reservoir, data["inputs"], var, start, noise=0.01 * scale, **options(data, given)
    )
    true = twin(reservoir, data["inputs"], start, *options(data, given).values(), noise=0.01 * scale, var=var)
    np.testing.assert_allclose(means, true[0], rtol=0, atol=3e-8)
    np.testing.assert_allclose(variances, true[1], rtol=2e-6, atol=0)
    np.testing.assert_array_equal(last.mean, means[-1])
    np.testing.assert_array_equal(last.var, variances[-1])
    if "readout" in given:
        np.testing.assert_allclose(outputs[0], true[2], rtol=0, atol=1e-7)
        np.testing.assert_allclose(outputs[1], true[3], rtol=2e-6, atol=0)
    else:
        assert outputs is None


@pytest.mark.parametrize(("method", "tolerance"), [
    (("spline", pesn.Mesh(-10.0, 10.0, 101)), 1e-4), ("spline-raw", 1e-3), ("mixture", 1e-6), ("analytic", 0.2),
    ("monte-carlo", 0.1),
])  # fmt: skip
def test_moment_methods_agree_with_the_exact_method(reservoir, data, method, tolerance):
    arguments = reservoir, data["inputs"][:20], data["var"][:20], data["state"]
    exact, other = (run_gaussian(*arguments, moments=name, rng=0) for name in ("exact", method))
    np.testing.assert_allclose(other[0], exact[0], rtol=0, atol=tolerance)
    np.testing.assert_allclose(other[1], exact[1], rtol=0, atol=tolerance)


# ---------------------------------------------------------------- 3. split runs


@FEEDBACKS
@pytest.mark.parametrize("cut", [30, 61, 90])
def test_split_at_zero_variance_equals_the_whole_run_bit_by_bit(reservoir, data, given, cut):
    reservoir = reservoir._replace(leak_rate=1.0, data=1e-60 * reservoir.data, W_fb=1e-60 * reservoir.W_fb)
    inputs, var = data["inputs"], np.zeros_like(data["var"])
    var[60] = 0.1  # zero again five steps later
    var[120:130] = 0.1
    whole = run_gaussian(reservoir, inputs, var, **options(data, given))
    state, parts = None, []
    for rows in (slice(0, cut), slice(cut, T)):
        *part, state = run_gaussian(reservoir, inputs[rows], var[rows], state, **options(data, given, rows))
        parts.append(part)
    for i in range(2):
        np.testing.assert_array_equal(np.concatenate([part[i] for part in parts]), whole[i])
        if "readout" in given:
            np.testing.assert_array_equal(np.concatenate([part[2][i] for part in parts]), whole[2][i])
    for ours, theirs in zip(state, whole[3], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert whole[1][60].any()
    assert not whole[1][80].any()
    np.testing.assert_array_equal(whole[0][:60], run(reservoir, inputs[:60], **options(data, given, slice(0, 60)))[0])


def test_inputs_and_state_are_not_modified(reservoir, data):
    before = {name: np.copy(value) for name, value in data.items() if name != "state"}
    mean = data["state"].mean.copy()
    run(reservoir, data["inputs"], data["state"], readout=data["readout"])
    run_gaussian(reservoir, data["inputs"], data["var"], data["state"], readout=data["readout"])
    np.testing.assert_array_equal(data["state"].mean, mean)
    for name, value in before.items():
        np.testing.assert_array_equal(data[name], value)


def test_strided_read_only_and_float32_arrays_give_equal_states(reservoir, data):
    z = data["inputs"].astype(np.float32)
    expected = run(reservoir, z.astype(float))[0]
    frozen = z.copy()
    frozen.flags.writeable = False
    for other in (z, frozen, np.repeat(z, 2, axis=0)[::2], np.asfortranarray(z), z.tolist()):
        np.testing.assert_array_equal(run(reservoir, other)[0], expected)


# ---------------------------------------------------------------- 4. moments inside the loop


def in_kernel(mean, var):
    m, v = np.array(mean, float), np.array(var, float)
    kernels.fill_moments(kernels.tanh_moments(), m, v)
    return m, v


@pytest.mark.parametrize(
    "var", [1e-250, 1e-12, 1e-6, 1e-4, 5.9e-3, 6.1e-3, 0.01, 0.011, 0.03, 0.05, 0.1, 0.11, 0.25, 0.26, 0.5, 0.51, 3.0, 1e6]
)
def test_kernel_moments_agree_with_pesn_moments(var):
    mean = np.linspace(-21.0, 21.0, 1281)
    got = in_kernel(mean, np.full_like(mean, var))
    for method in ("surface", "exact"):
        true_mean, true_var, *_ = pesn.moments("tanh", mean, var, method=method)
        np.testing.assert_allclose(got[0], true_mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(got[1], true_var, rtol=1e-6, atol=0)
        np.testing.assert_allclose(got[1], true_var, rtol=0, atol=1e-8)


@pytest.mark.parametrize("var", [1e-4, 1e-3, 6e-3, 0.01, 0.03, 0.05, 0.1, 0.25, 0.5])
def test_kernel_moments_are_accurate_at_the_limits_of_each_rule(var):
    x, w = np.polynomial.hermite_e.hermegauss(180)
    w, d = w / w.sum(), np.tanh(np.sqrt(var) * x)
    mean = np.linspace(-9.0, 9.0, 1281)
    t, g = np.tanh(mean)[:, None], (1.0 / np.cosh(mean) ** 2)[:, None]
    away = g * d / (1.0 + t * d)  # tanh(m + x) − tanh m, by the addition theorem: no cancellation
    true_var = (away - (away @ w)[:, None]) ** 2 @ w
    got = in_kernel(mean, np.full_like(mean, var))
    np.testing.assert_allclose(got[0], np.tanh(mean) + away @ w, rtol=0, atol=3e-10)
    np.testing.assert_allclose(got[1], true_var, rtol=0, atol=4e-9)
    np.testing.assert_allclose(got[1], true_var, rtol=2e-7, atol=0)


def test_kernel_tanh_is_odd_and_accurate_for_certain_units():
    x = np.concatenate([np.linspace(0.0, 40.0, 20_001), 10.0 ** np.linspace(-307, 300, 5001)])
    got, zero = in_kernel(x, np.zeros_like(x))
    np.testing.assert_allclose(got, np.tanh(x), rtol=4e-15, atol=0)
    np.testing.assert_array_equal(in_kernel(-x, np.zeros_like(x))[0], -got)
    assert not zero.any()
    # certain unit among uncertain ones stays certain
    mean, var = np.array([0.3, -2.0, 1.0]), np.array([0.0, 0.2, 0.0])
    got = in_kernel(mean, var)
    np.testing.assert_allclose(got[0][[0, 2]], np.tanh(mean[[0, 2]]), rtol=0, atol=4e-15)
    assert list(got[1] > 0.0) == [False, True, False]


@FEEDBACKS
def test_run_gaussian_without_variance_equals_run(reservoir, data, given):
    start = data["state"]._replace(var=None, output_var=None)
    states, outputs, last = run(reservoir, data["inputs"], start, **options(data, given))
    for var in (None, np.zeros((T, D))):
        means, variances, both, end = run_gaussian(reservoir, data["inputs"], var, start, **options(data, given))
        np.testing.assert_array_equal(means, states)
        assert not any(part.any() for part in (variances, end.var, end.output_var))
        np.testing.assert_array_equal(end.mean, last.mean)
        np.testing.assert_array_equal(end.output, last.output)
        if "readout" in given:
            np.testing.assert_array_equal(both[0], outputs)
    tiny = run_gaussian(reservoir, data["inputs"], np.full((T, D), 1e-300), start, **options(data, given))
    np.testing.assert_allclose(tiny[0], states, rtol=0, atol=1e-13)


@pytest.mark.parametrize("var", [1e-308, 1.0, 1e6, 1e300, 1e308])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e3, 1e300])
def test_variances_stay_finite_and_nonnegative(reservoir, data, var, size):
    means, variances, *_ = run_gaussian(reservoir, size * np.sign(data["inputs"]), np.full((T, D), var), data["state"])
    assert np.abs(means).max() <= 1.0
    assert np.isfinite(variances).all()
    assert variances.min() >= 0.0
    assert variances.max() <= 1.0


# ---------------------------------------------------------------- 5. invalid input


def changed(array, place, value):
    array = np.array(array)
    array[place] = value
    return array


@pytest.mark.parametrize(("function", "change", "message"), [
    (run, lambda d: {"inputs": changed(d["inputs"], (3, 1), np.nan)}, r"inputs must be finite, got nan at index \(3, 1\)"),
    (run, lambda d: {"inputs": d["inputs"][:, :1]}, r"inputs must have shape \(T, 2\), got \(200, 1\)"),
    (run, lambda d: {"inputs": d["inputs"].astype(str)}, "inputs must be real numbers"),
    (run, lambda d: {"feedback": d["teacher"][1:]}, r"feedback must have shape \(200, 3\), got \(199, 3\)"),
    (run, lambda d: {"readout": d["readout"][:, 1:]}, r"readout must have shape \(3, 73\), got \(3, 72\)"),
    (run, lambda _: {"state": State(np.zeros(3))}, r"state.mean must have shape \(70,\), got \(3,\)"),
    (run, lambda _: {"state": State(np.zeros(70), output=np.zeros(2))}, r"state.output must have shape \(3,\), got \(2,\)"),
    (run, lambda _: {"state": np.zeros(70)}, "state must be a pesn.reservoir.drive.State, got ndarray"),
    (run, lambda _: {"noise": -0.1}, "noise must lie in"),
    (run_gaussian, lambda _: {"mean": np.full((T, D), np.nan)}, r"mean must be finite, got nan at index \(0, 0\)"),
    (run_gaussian, lambda _: {"var": np.full((T, D), -1.0)}, "var must not be negative, got -1.0"),
    (run_gaussian, lambda _: {"state": State(np.zeros(70), np.full(70, -1.0))}, "state.var must not be negative"),
    (run_gaussian, lambda _: {"moments": "surfaces"}, "moments must be one of 'surface', .* got 'surfaces'"),
])  # fmt: skip
def test_invalid_input_raises_with_the_parameter_name(reservoir, data, function, change, message):
    given = {"inputs": data["inputs"]} if function is run else {"mean": data["inputs"], "var": data["var"]}
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        function(reservoir, **given | change(data))


@pytest.mark.parametrize(("name", "value"), [("n_inputs", -1), ("n_outputs", "1")])
def test_numbers_of_columns_are_refused_by_name(name, value):
    with pytest.raises((TypeError, ValueError), match=f"^{name} must"):
        draw(**{"n_units": 20, "n_inputs": 1, "n_outputs": 1, name: value})


@pytest.mark.parametrize(("change", "message"), [
    (lambda r: {"indices": changed(r.indices, 3, 70)}, "indices must be below n_units = 70, got 70"),
    (lambda r: {"indices": r.indices.astype(np.int64)}, "indptr and indices must be uint32"),
    (lambda r: {"indptr": changed(r.indptr, 2, 400)}, "indptr, indices and data must describe 70 rows"),
    (lambda r: {"data": changed(r.data, 0, np.nan)}, "data must be finite"),
    (lambda r: {"leak_rate": 0.0}, "leak_rate must lie in"),
])  # fmt: skip
def test_check_rejects_inconsistent_weights(reservoir, change, message):
    reservoir.check()
    with pytest.raises(ValueError, match=f"^{message}"):
        Reservoir(**{**reservoir._asdict(), **change(reservoir)}).check()
