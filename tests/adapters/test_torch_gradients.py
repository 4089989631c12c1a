"""Tests of tensors through any torch module: closure and numbers are those of the arrays, and gradients by the input and by the
parameters agree with finite differences, for points, the Gaussian and the third-order closure.

The fast mode of gradcheck compares all entries at once, in a random direction; test_torch compares the Gaussian closure entry by
entry.
"""

import numpy as np
import pytest

import pesn

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from pesn.adapters.torch import tensor_propagation  # noqa: E402
from pesn.adapters.torch.tensor_closures import _Semidefinite  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("one_torch_thread"),
    pytest.mark.filterwarnings("ignore:.torch.jit.:DeprecationWarning"),
]
F64 = torch.float64


class Network(nn.Module):
    """A module with the layers ``parts`` and a forward function."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.function(self, x)


def residual(self, x):
    h = torch.tanh(self.a(x))
    h = h + self.scale * torch.relu(self.b(h))
    return self.c(functional.silu(h @ self.b.weight) + h)


def convolutional(self, x):
    h = torch.relu(self.a(x))
    return self.c((h + torch.tanh(self.b(h))).flatten(1))


def make(name):
    torch.manual_seed(0)
    linear = {"a": nn.Linear(4, 5), "b": nn.Linear(5, 5), "c": nn.Linear(5, 2)}
    return {
        "chain": lambda: nn.Sequential(linear["a"], nn.Tanh(), linear["b"], nn.Tanh(), linear["c"]),
        "residual": lambda: Network(residual, **linear, scale=nn.Parameter(torch.tensor(0.7))),
        "product": lambda: Network(lambda net, x: net.c(torch.tanh(net.a(x) * net.d(x))), **linear, d=nn.Linear(4, 5)),
        "normal": lambda: nn.Sequential(linear["a"], nn.LayerNorm(5), nn.Tanh(), linear["c"]),
        "cell": lambda: Network(lambda net, x: net.c(net.cell(x)), cell=nn.GRUCell(4, 5), **linear),
        "images": lambda: Network(
            convolutional, a=nn.Conv2d(1, 2, 2), b=nn.Conv2d(2, 2, 1), c=nn.Linear(2, 2)
        ),
        "script": lambda: torch.jit.script(nn.Sequential(linear["a"], nn.Tanh(), linear["b"], nn.Tanh(), linear["c"])),
    }[name]().double().eval()  # fmt: skip


ROOT = torch.tensor([[0.5, 0.0, 0.0, 0.0], [0.1, 0.4, 0.0, 0.0], [-0.2, 0.1, 0.3, 0.0], [0.3, 0.0, 0.1, 0.6]], dtype=F64)
MEAN = torch.tensor([0.3, -0.5, 0.1, 0.8], dtype=F64)
SPREADS = {
    "cov": ROOT @ ROOT.T,
    "isotropic": 0.1 * torch.eye(4, dtype=F64),
    "singular": ROOT[:, :2] @ ROOT[:, :2].T,
    "none": torch.zeros(4, 4, dtype=F64),
    "var": torch.full((4,), 0.2, dtype=F64),
    "var of some": torch.tensor([0.2, 0.0, 1e-300, 0.1], dtype=F64),
}
CLOSURES = {
    "sobol": {"closure": "sobol", "n_samples": 64},
    "gaussian": {"closure": "gaussian"},
    "third-order": {"closure": "third-order"},
}
CLOSED, ALL = ("chain", "residual", "product", "images", "script"), ("chain", "residual", "images", "normal", "cell", "script")
CASES = [(name, "sobol") for name in ALL] + [(name, closure) for name in CLOSED for closure in ("gaussian", "third-order")]


def gaussian(mean, spread):
    return pesn.Gaussian(mean, cov=spread) if spread.ndim > mean.ndim else pesn.Gaussian(mean, var=spread)


def sent(name, **options):
    network, shape = make(name), (1, 2, 2) if name == "images" else None
    return network, lambda x: pesn.propagate(network, x, shape=shape, **options)


@pytest.mark.parametrize(("name", "closure"), [*CASES, *((name, "auto") for name in ALL)])
def test_tensors_equal_arrays_and_have_finite_gradients(name, closure):
    network, propagate = sent(name, **CLOSURES.get(closure, {"tol": 0.05}))
    for spread in SPREADS.values():
        mean, given = MEAN.clone().requires_grad_(), spread.clone().requires_grad_()
        found, expected = propagate(gaussian(mean, given)), propagate(gaussian(MEAN.numpy(), spread.numpy()))
        assert found.closure == expected.closure
        np.testing.assert_allclose(found.mean.detach(), expected.mean, atol=1e-7)
        np.testing.assert_allclose(found.cov.detach(), expected.cov, atol=1e-7)
        inputs = mean, given, *network.parameters()
        for one in torch.autograd.grad(found.mean.sum() + found.cov.sum() + found.std.sum(), inputs, allow_unused=True):
            assert one is None or torch.isfinite(one).all()


@pytest.mark.parametrize(("name", "closure"), CASES)
def test_gradients_pass_gradcheck(name, closure):
    network, propagate = sent(name, **CLOSURES[closure])
    for key in ("cov", "isotropic", "var") if closure == "sobol" else ("cov", "var"):
        inputs = MEAN.clone().requires_grad_(), SPREADS[key].clone().requires_grad_()

        def function(mean, spread):
            y = propagate(gaussian(mean, spread))
            return y.mean, y.cov

        assert torch.autograd.gradcheck(function, inputs, eps=1e-5, atol=1e-5, rtol=1e-3, fast_mode=True)
    x = gaussian(MEAN, SPREADS["cov"])
    for parameter in network.parameters():
        y = propagate(x)
        (slope,) = torch.autograd.grad(y.mean.sum() + y.cov.sum(), parameter, allow_unused=True)
        if slope is None:
            continue
        values = []
        with torch.no_grad():
            for step in (1e-5, -1e-5):
                parameter.view(-1)[0] += step
                y = propagate(x)
                values.append(float(y.mean.sum() + y.cov.sum()))
                parameter.view(-1)[0] -= step
        assert float(slope.reshape(-1)[0]) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", ["chain", "residual"])
@pytest.mark.parametrize("options", CLOSURES.values(), ids=CLOSURES)
def test_torch_func_gives_the_gradients_of_autograd(name, options):
    network, propagate = sent(name, **options)

    def function(mean, spread):
        return propagate(gaussian(mean, spread)).std

    inputs = MEAN, SPREADS["cov"]
    expected = torch.autograd.functional.jacobian(function, inputs)
    for one, other in zip(torch.func.jacrev(function, argnums=(0, 1))(*inputs), expected, strict=True):
        torch.testing.assert_close(one, other)

    whole = Network(lambda net, mean: function(mean, SPREADS["cov"]).sum(), network=network).eval()
    parameters = dict(whole.named_parameters())
    found = torch.func.grad(lambda given: torch.func.functional_call(whole, given, (MEAN,)))(parameters)
    expected = torch.autograd.grad(whole(MEAN), parameters.values(), allow_unused=True, materialize_grads=True)
    for one, other in zip(found.values(), expected, strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(TypeError, match=r"must not come from torch.func.vmap; give all of the batch at once"):
        torch.func.vmap(lambda mean: function(mean, SPREADS["cov"]))(MEAN.expand(2, 4))


@pytest.mark.parametrize("options", CLOSURES.values(), ids=CLOSURES)
def test_second_derivatives_are_right_or_raise(options):
    _, propagate = sent("residual", **options)

    def function(mean, cov):
        return propagate(gaussian(mean, 0.5 * (cov + cov.T))).std

    inputs = MEAN.clone().requires_grad_(), SPREADS["cov"].clone().requires_grad_()
    if options["closure"] != "third-order":
        assert torch.autograd.gradgradcheck(function, inputs, atol=1e-5, rtol=1e-3, fast_mode=True)
        return
    (slope,) = torch.autograd.grad(function(*inputs).sum(), inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match="the third-order closure has no second derivatives; use closure='gaussian'"):
        slope.sum().backward()


@pytest.mark.parametrize("rng", [3, "generator"])
def test_rows_of_a_batch_have_their_own_points(rng, monkeypatch):
    network, _ = sent("chain")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter *= 3.0
    mean, var = (
        MEAN * torch.arange(5.0, dtype=F64)[:, None],
        torch.tensor([0.0, 1e-4, 0.01, 0.1, 3.0], dtype=F64)[:, None] + 0 * MEAN,
    )
    given = [np.random.default_rng(5) if rng == "generator" else rng for _ in range(3)]
    expected = pesn.propagate(network, pesn.Gaussian(mean.numpy(), var=var.numpy()), tol=0.01, rng=given[0])
    assert expected.closure[0] == "gaussian"
    gradients = []
    for k, size in ((1, 2**19), (2, 2**6)):  # the second in parts that are computed again for the gradient
        monkeypatch.setattr(tensor_propagation, "_AT_ONCE", size)
        inputs = mean.clone().requires_grad_(), var.clone().requires_grad_()
        found = pesn.propagate(network, pesn.Gaussian(inputs[0], var=inputs[1]), tol=0.01, rng=given[k])
        assert list(found.closure) == list(expected.closure)
        for one, other in ((found.mean, expected.mean), (found.cov, expected.cov), (found.samples, expected.samples)):
            np.testing.assert_allclose(one.detach(), other, atol=1e-9)
        gradients.append(torch.autograd.grad(found.mean.sum() + found.cov.sum(), inputs))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_events_have_the_probabilities_of_arrays():
    network = Network(lambda _, x: x > 0.2).eval()
    x = pesn.Gaussian(MEAN.clone().requires_grad_(), var=0.1)
    found, expected = pesn.propagate(network, x, n_samples=256), pesn.propagate(network, x.numpy(), n_samples=256)
    np.testing.assert_allclose(found.mean.detach(), expected.mean, rtol=1e-6)


def test_inputs_below_float32_resolution_use_float64():
    network = make("residual").float()
    x = pesn.Gaussian(torch.full((4,), 3.0, dtype=F64, requires_grad=True), std=1e-7)
    found, expected = pesn.propagate(network, x, closure="sobol"), pesn.propagate(network, x.numpy(), closure="sobol")
    np.testing.assert_allclose(found.std.detach(), expected.std, rtol=1e-6)
    (slope,) = torch.autograd.grad(found.std.sum(), network.a.weight)
    assert torch.isfinite(slope).all()


def test_negative_eigenvalues_are_removed_differentiably():
    matrix = torch.tensor([[1.0, 0.9, -0.4], [0.9, 1.0, 0.6], [-0.4, 0.6, 1.0]], dtype=F64, requires_grad=True)
    assert torch.linalg.eigvalsh(matrix)[0] < -0.1
    assert torch.autograd.gradcheck(lambda one: _Semidefinite.apply(0.5 * (one + one.mT)), matrix)


@pytest.mark.parametrize(
    ("network", "error", "words"),
    [
        (lambda: make("residual").train(), ValueError, r"network is in training mode; call network.eval\(\) first"),
        (lambda: Network(lambda _, x: x.detach().numpy()).eval(), TypeError, "network must give tensors, .* got a ndarray"),
        (lambda: Network(lambda _, x: x - x.mean(0)).eval(), ValueError, "network must treat each row by itself"),
        (lambda: Network(lambda _, x: x.sum()).eval(), TypeError, "network must give tensors with a row for each"),
        (lambda: Network(lambda _, x: torch.log(x - 5.0)).eval(), ValueError, "network must give finite numbers"),
    ],
)
def test_invalid_networks_raise(network, error, words):
    with pytest.raises(error, match=words):
        pesn.propagate(network(), pesn.Gaussian(MEAN.clone().requires_grad_(), var=0.1))
