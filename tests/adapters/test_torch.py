"""Tests of the torch adapter: tensors agree with arrays. Gradients of inputs and weights are correct at small, zero and large
variance. Dtypes, batches and nesting are supported; unknown modules raise. TanhNormal has exact moments and a mode. Gaussians
are converted from and to torch.distributions."""

import copy
import itertools
import math
import pickle
import re

import numpy as np
import pytest

import pesn

pytest.importorskip("torch", reason="torch is an extra")

import torch
from torch import distributions, nn

from pesn.adapters.torch import TanhNormal, TensorGaussian
from pesn.networks import propagate_gaussian

pytestmark = pytest.mark.usefixtures("one_torch_thread")

F64 = torch.float64


def propagate(network, x, **options):
    """Return the output's Gaussian by the Gaussian closure."""
    return propagate_gaussian(network, x, **options)[-1]


ACTIVATIONS = [
    nn.Tanh(), nn.Sigmoid(), nn.ReLU(), nn.LeakyReLU(0.1), nn.ELU(), nn.ELU(0.5), nn.GELU(), nn.GELU("tanh"), nn.SiLU(),
    nn.Softplus(), nn.Softplus(3.0), nn.Hardtanh(-0.5, 2.0), nn.ReLU6(),
]  # fmt: skip

SEVERAL = [nn.Tanh(), nn.ReLU(), nn.ELU(0.5), nn.GELU(), nn.Softplus(3.0), nn.Hardtanh(-0.5, 2.0)]  # one of each kind
MORE = [
    nn.SELU(), nn.CELU(0.6), nn.Mish(), nn.LogSigmoid(), nn.Softsign(), nn.Hardsigmoid(), nn.Softshrink(0.3), nn.RReLU(),
]  # fmt: skip


def of(*shape, seed=0, scale=1.0):
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def network(activation, sizes=(4, 12, 9, 3), seed=0):
    torch.manual_seed(seed)
    modules = []
    for d, p in itertools.pairwise(sizes):
        modules += [nn.Linear(d, p), activation]
    return nn.Sequential(*modules[:-1]).double().eval()


def gaussian(d=4, scale=0.5, seed=0):
    root = of(d, d, seed=seed, scale=scale)
    return pesn.Gaussian(of(d, seed=seed + 1), cov=root @ root.T)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("activation", [*ACTIVATIONS, *MORE], ids=str)
@pytest.mark.parametrize("scale", [1e-4, 0.5, 3.0])
def test_tensors_agree_with_arrays(activation, scale):
    net, x = network(activation), gaussian(scale=scale)
    ours, theirs = propagate_gaussian(net, x), propagate_gaussian(net, x.numpy(), method="exact")
    assert len(ours) == len(theirs) == 3
    first = True
    for a, b in zip(ours, theirs, strict=True):
        assert isinstance(a, TensorGaussian)
        # Behind the first layer the means depend on covariances, which both ways cut off at 1e-6 of a correlation.
        np.testing.assert_allclose(a.mean.detach(), b.mean, atol=1e-12 if first else 1e-7, rtol=1e-12)
        np.testing.assert_allclose(a.var.detach(), b.var, rtol=2e-9 if first else 1e-5, atol=1e-300)
        np.testing.assert_allclose(a.cov.detach(), b.cov, atol=2e-6 * max(1e-3, float(np.max(b.var))))
        first = False
    x = pesn.Gaussian(x.mean, var=x.var)
    a, b = propagate(net, x, covariance="diagonal"), propagate(net, x.numpy(), covariance="diagonal", method="exact")
    np.testing.assert_allclose(a.mean.detach(), b.mean, atol=1e-9)
    np.testing.assert_allclose(a.var.detach(), b.var, rtol=1e-8)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_very_wide_gaussians_have_accurate_moments_and_finite_gradients(activation):
    mean = torch.tensor([1e5, -1e5, 3.0], dtype=F64, requires_grad=True)
    cov = (1e10 * torch.tensor([[1.0, 0.3, 0.2], [0.3, 2.0, 0.5], [0.2, 0.5, 1.0]], dtype=F64)).requires_grad_()
    x = pesn.Gaussian(mean, cov=cov)
    y, theirs = propagate(activation.eval(), x), propagate(activation, x.numpy(), method="exact")
    np.testing.assert_allclose(y.mean.detach(), theirs.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(y.var.detach(), theirs.var, rtol=1e-9)
    (y.mean.sum() + y.cov.sum()).backward()
    assert torch.isfinite(mean.grad).all()
    assert torch.isfinite(cov.grad).all()


def test_inaccurate_covariances_are_logged(caplog):
    x = pesn.Gaussian(torch.zeros(2, dtype=F64), cov=1e8 * torch.tensor([[1.0, 0.9999], [0.9999, 1.0]], dtype=F64))
    propagate(nn.Sequential(nn.Identity(), nn.Tanh()).eval(), x)
    assert re.search(r"layer 1, Tanh: covariances may be off by 0\.\d+ of the largest variance; .* nearly collinear", caplog.text)


def test_ordinary_networks_log_nothing(caplog):
    for seed, var in itertools.product(range(3), (0.1, 10.0)):
        propagate(network(nn.ReLU(), sizes=(1, 20, 20, 1), seed=seed), pesn.Gaussian(of(1, seed=seed), var=var))
    assert not caplog.records


def outputs(activation, hidden, output):
    net = nn.Sequential(nn.Linear(1, 2, bias=False), activation, nn.Linear(2, 1, bias=False)).double().eval()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor(hidden)[:, None])
        net[2].weight.copy_(torch.tensor(output)[None])
    return net


@pytest.mark.parametrize("activation", SEVERAL, ids=str)
@pytest.mark.parametrize("scale", [0.7, 20.0])
def test_identical_units_are_perfectly_correlated(activation, scale):
    mean, var = (torch.tensor([value], dtype=F64, requires_grad=True) for value in (0.2, 1.0))
    net = outputs(activation, [scale, scale], [1.0, -1.0])
    y = propagate(net, pesn.Gaussian(mean, var=var))
    assert abs(y.cov.item()) < 1e-11 * scale**2
    y.cov.sum().backward()
    for gradient in (mean.grad, var.grad, net[0].weight.grad):
        assert torch.isfinite(gradient).all()
    assert abs(var.grad.item()) < 1e-10 * scale**2
    units = propagate(net[:2].eval(), pesn.Gaussian(mean, var=var))
    assert units.cov[0, 1].item() == pytest.approx(units.var[0].item(), rel=1e-12)


@pytest.mark.parametrize("activation", [nn.Tanh(), nn.Hardtanh()], ids=str)
def test_mirrored_units_cancel(activation):
    y = propagate(outputs(activation, [20.0, -20.0], [1.0, 1.0]), pesn.Gaussian(torch.tensor([0.3], dtype=F64), var=1.0))
    assert abs(y.mean.item()) < 1e-12
    assert y.std.item() < 1e-6


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.Tanh(), nn.SiLU(), nn.ELU(0.5)], ids=str)
def test_covariances_of_collinear_units_agree_with_quadrature(activation):
    hidden = nn.Linear(1, 12).double().eval()
    with torch.no_grad():
        hidden.weight.copy_(of(12, 1, seed=3, scale=4.0))
        hidden.bias.copy_(of(12, seed=4, scale=4.0))
    x = pesn.Gaussian(torch.zeros(1, dtype=F64), var=torch.ones(1, dtype=F64))
    y = propagate(nn.Sequential(hidden, activation).eval(), x).cov.detach()
    nodes = torch.linspace(-9.0, 9.0, 20_001, dtype=F64)
    p = torch.softmax(-0.5 * nodes.square(), 0)
    with torch.no_grad():
        values = activation(hidden(nodes[:, None]))
    values = values - p @ values
    exact = values.T @ (p[:, None] * values)
    deviation = exact.diagonal().sqrt()
    assert torch.all((y - exact).abs() < 2e-3 * deviation.max() ** 2)
    assert torch.linalg.eigvalsh(y)[0] > -1e-12 * deviation.max() ** 2
    torch.testing.assert_close(y.diagonal(), exact.diagonal(), rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("activation", [nn.Hardtanh(), nn.ReLU6()], ids=str)
def test_moments_of_clipped_units_are_accurate_for_any_variance(activation):
    high = activation.max_val
    half = 0.5 * (high - activation.min_val)
    for s in (1e2, 1e4, 1e6, 1e8, 1e12, 1e100):
        cov = s * s * torch.tensor([[1.0, 0.5], [0.5, 1.0]], dtype=F64)
        y = propagate(activation.eval(), pesn.Gaussian(torch.full((2,), high - half, dtype=F64), cov=cov))
        # E[f²] about the center: 1 − P(|z| < 1) + E[z²; |z| < 1] in units of half
        beta = half / s
        inside = math.sqrt(2.0 / math.pi) * beta * (1.0 - beta**2 / 6.0)
        assert y.var[0].item() == pytest.approx(half**2 * (1.0 - 2.0 / 3.0 * inside), rel=max(1e-12, 1e-1 * beta**3))
        assert y.cov[0, 1].item() == pytest.approx(half**2 / 3.0, rel=1e-5 + beta**2)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_covariances_are_symmetric_and_semi_definite(activation):
    net = nn.Sequential(nn.Linear(3, 30), activation).double().eval()  # rank 3 in 30 units
    y = propagate(net, gaussian(3, scale=1.0))
    assert torch.equal(y.cov, y.cov.T)
    values = torch.linalg.eigvalsh(y.cov)
    assert values[0] > -1e-13 * values[-1]


# ---------------------------------------------------------------- gradients


def sent(net, *, full=True, through=("mean", "cov")):
    def function(mean, spread):
        x = pesn.Gaussian(mean, cov=spread) if spread.ndim == 2 else pesn.Gaussian(mean, var=spread)
        y = propagate(net, x, covariance="full" if full else "diagonal")
        return tuple(getattr(y, name) for name in through)

    return function


@pytest.mark.parametrize("activation", SEVERAL, ids=str)
@pytest.mark.parametrize(("size", "step"), [(1e-2, 1e-9), (0.7, 1e-6), (10.0, 1e-5)])
def test_gradients_of_mean_and_covariance_pass_gradcheck(activation, size, step):
    net = network(activation, sizes=(2, 3, 2))
    x = gaussian(2, scale=size, seed=3)
    inputs = x.mean.requires_grad_(), (x.cov + 0.1 * size**2 * torch.eye(2)).requires_grad_()
    assert torch.autograd.gradcheck(sent(net), inputs, eps=step, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("activation", SEVERAL, ids=str)
@pytest.mark.parametrize("full", [True, False])
def test_gradients_of_variances_pass_gradcheck(activation, full):
    net = network(activation, sizes=(3, 3, 2))
    inputs = of(3, seed=5).requires_grad_(), torch.tensor([1e-4, 0.3, 100.0], dtype=F64).requires_grad_()
    assert torch.autograd.gradcheck(sent(net, full=full, through=("mean", "var")), inputs, eps=1e-6, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_gradients_at_zero_variance_equal_forward_differences(activation):
    net = network(activation, sizes=(3, 4, 2))
    mean, zero, step = of(3, seed=5), torch.zeros(3, dtype=F64), 1e-7
    for function in (sent(net), sent(net, full=False, through=("mean", "var"))):
        at_zero = function(mean, zero)
        backward = torch.autograd.functional.jacobian(lambda v, f=function: f(mean, v), zero)
        for j in range(3):
            forward = function(mean, zero + step * torch.eye(3, dtype=F64)[j])
            for high, low, jacobian in zip(forward, at_zero, backward, strict=True):
                torch.testing.assert_close(jacobian[..., j], ((high - low) / step).detach(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("activation", [nn.Tanh(), nn.ReLU(), nn.ELU(0.5), nn.GELU()], ids=str)
def test_gradients_of_weights_pass_gradcheck(activation):
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), activation, nn.Linear(3, 1)).double().eval()
    names, values = zip(*((n, p.detach().clone().requires_grad_()) for n, p in net.named_parameters()), strict=True)
    x = gaussian(2)

    def function(*parameters):
        for name, parameter in zip(names, parameters, strict=True):
            place, leaf = name.split(".")
            net[int(place)]._parameters[leaf] = parameter
        y = propagate(net, x)
        return y.mean, y.cov

    assert torch.autograd.gradcheck(function, values, atol=1e-6)


@pytest.mark.parametrize("activation", [*SEVERAL, nn.ELU(2.0)], ids=str)
def test_second_derivatives_pass_gradgradcheck(activation):
    inputs = of(2).requires_grad_(), torch.tensor([[0.6, -0.2], [-0.2, 0.9]], dtype=F64, requires_grad=True)
    assert torch.autograd.gradgradcheck(sent(activation.eval()), inputs, atol=1e-5)


def test_gradients_of_wide_clipped_units_pass_gradcheck():
    for s in (3.0, 1e3, 1e5):
        root = s * torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=F64)
        inputs = (s * of(2)).requires_grad_(), (root @ root.T).requires_grad_()
        assert torch.autograd.gradcheck(sent(nn.Hardtanh().eval()), inputs, eps=1e-5 * s, atol=1e-5 / s, rtol=1e-4)


def test_certain_units_do_not_affect_others_or_gradients():
    mean = of(3).requires_grad_()
    cov = torch.tensor([[0.5, 0.0, 0.2], [0.0, 0.0, 0.0], [0.2, 0.0, 0.4]], dtype=F64, requires_grad=True)
    y = propagate(nn.Tanh().eval(), pesn.Gaussian(mean, cov=cov))
    assert torch.all(y.cov[1] == 0.0)
    (y.mean.sum() + y.cov.square().sum() + y.std.sum()).backward()
    assert torch.isfinite(mean.grad).all()
    assert torch.isfinite(cov.grad).all()


# ---------------------------------------------------------------- dtypes, batches, nesting


def test_dtype_is_promoted_from_input_and_weights():
    net = network(nn.Tanh())
    exact = propagate(net, gaussian())
    single = pesn.Gaussian(gaussian().mean.float(), cov=gaussian().cov.float())
    y = propagate(net.float(), single)
    assert y.mean.dtype == y.cov.dtype == y.var.dtype == torch.float32
    torch.testing.assert_close(y.mean.double(), exact.mean, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(y.cov.double(), exact.cov, atol=1e-6, rtol=1e-4)
    assert propagate(net.float(), gaussian()).dtype == F64
    half = pesn.Gaussian(gaussian().mean.half(), var=gaussian().var.half())
    assert propagate(net.half(), half).dtype == torch.float16


@pytest.mark.parametrize("kind", ["cov", "var", "factor"])
def test_batch_equals_single_inputs(kind):
    net, n = network(nn.GELU()), 5
    mean, root = of(n, 4), of(n, 4, 4, seed=1, scale=0.5)
    spread = {"cov": root @ root.mT, "var": root[..., 0].square(), "factor": root[..., :2]}[kind]
    for covariance in ("full", "diagonal"):
        y = propagate(net, pesn.Gaussian(mean, **{kind: spread}), covariance=covariance)
        assert y.batch_shape == (n,)
        for k in range(n):
            one = propagate(net, pesn.Gaussian(mean[k], **{kind: spread[k]}), covariance=covariance)
            torch.testing.assert_close(y.mean[k], one.mean, atol=1e-8, rtol=0.0)
            torch.testing.assert_close(y.cov[k], one.cov, atol=1e-7, rtol=1e-6)


def test_empty_batch_stays_empty_in_closed_form_and_raises_elsewhere():
    net = network(nn.Tanh(), sizes=(2, 3, 2))
    for empty in (torch.zeros(0, 2), np.zeros((0, 2)), torch.zeros(0)):
        with pytest.raises(ValueError, match="x must have a row, and numbers in it, to be propagated, got a mean of shape"):
            pesn.propagate(net, pesn.Gaussian(empty, var=1.0))
    for x in (pesn.Gaussian(torch.zeros(0, 2), var=torch.ones(0, 2)), pesn.Gaussian(torch.zeros(0, 2), cov=torch.ones(0, 2, 2))):
        for covariance in ("full", "diagonal"):
            y = propagate(net, x, covariance=covariance)
            assert (y.mean.shape, y.var.shape, y.cov.shape) == ((0, 2), (0, 2), (0, 2, 2))


def test_nested_networks_equal_flat_networks():
    tanh = nn.Tanh()
    a, b, c = (nn.Linear(3, 3) for _ in range(3))
    flat = nn.Sequential(a, tanh, b, tanh, c).eval()
    named = type("Named", (nn.Sequential,), {})  # with an unchanged forward
    nested = named(nn.Sequential(a, nn.Sequential(tanh, nn.Identity()), b), tanh, nn.Flatten(), c).eval()
    x = pesn.Gaussian(torch.ones(3), var=0.2)
    assert torch.equal(propagate(flat, x).cov, propagate(nested, x).cov)
    assert len(propagate_gaussian(nested, x.numpy())) == 3


def test_certain_input_gives_the_network_output():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.BatchNorm1d(3), nn.Linear(3, 5, bias=False), nn.BatchNorm1d(5), nn.ReLU(), nn.BatchNorm1d(5, affine=False),
        nn.Dropout(0.5), nn.AlphaDropout(0.5), nn.Linear(5, 2), nn.Softplus(),
    ).double()  # fmt: skip
    for module in net:
        if isinstance(module, nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
            if module.affine:
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
    net.eval()
    rows = of(7, 3)
    for x in (pesn.Gaussian(rows), pesn.Gaussian(rows.numpy())):
        y = propagate(net, x)
        np.testing.assert_allclose(y.mean.detach() if isinstance(x, TensorGaussian) else y.mean, net(rows).detach(), atol=1e-14)
        assert not y.var.any()
    x = pesn.Gaussian(of(3), var=0.3)
    a, b = propagate(net, x), propagate(net, x.numpy(), method="exact")
    np.testing.assert_allclose(a.cov.detach(), b.cov, atol=1e-6)


def test_identity_network_and_scalar_input_are_accepted():
    x = gaussian()
    assert propagate(nn.Sequential(nn.Identity()).eval(), x) is x
    assert propagate(nn.Tanh().eval(), pesn.Gaussian(torch.tensor(0.3), var=0.1)).mean.shape == (1,)


# ---------------------------------------------------------------- refusals


class Own(nn.Module):
    def forward(self, x):
        return x


class Doubled(nn.Linear):
    def forward(self, x):
        return 2.0 * super().forward(x)


def hooked():
    module = nn.Linear(3, 3)
    module.register_forward_hook(lambda *_: None)
    return module


def broken():
    module = nn.Linear(3, 3)
    with torch.no_grad():
        module.weight[0, 1] = math.nan
    return module


@pytest.mark.parametrize(
    ("module", "error", "words"),
    [
        (nn.Conv1d(3, 3, 1), TypeError, "layer 1.1, Conv1d, is not known to pesn; known: AlphaDropout, BatchNorm1d, CELU,"),
        (Own(), TypeError, "layer 1.1, Own,"),
        (Doubled(3, 3), TypeError, r"layer 1.1, Doubled\(3 -> 3\), is not known"),
        (hooked(), ValueError, "forward hooks"),
        (broken(), ValueError, "1.1.weight of network must be finite, got nan"),
        (nn.LazyLinear(3), ValueError, "not been initialized"),
        (nn.Linear(3, 3, dtype=torch.complex64), TypeError, "must be real numbers, got dtype torch.complex64"),
        (nn.Linear(4, 3), ValueError, r"layer 1.1, Linear\(4 -> 3\), takes 4 numbers, but layer 0 gives 3"),
        (nn.BatchNorm1d(3, track_running_stats=False), ValueError, "running statistics"),
        (nn.Flatten(0), ValueError, "layer 1.1, Flatten, must leave rows"),
        (nn.Softplus(1.0, 1.0), ValueError, "layer 1.1, Softplus, has no closed form with the parameters beta=1.0"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Lazy modules")
@pytest.mark.filterwarnings("ignore:Complex modules")
def test_unknown_modules_raise_with_their_name(module, error, words):
    net = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Tanh(), module)).eval()
    with pytest.raises(error, match=words):
        propagate(net, pesn.Gaussian(torch.zeros(3), var=1.0))


NET = network(nn.Tanh())
TRAINING = re.escape("network is in training mode; call network.eval() first")
RESHAPED = re.escape("weight of layer 2, Linear(12 -> 9), must have shape (9, 12), got shape (5, 12)")


def reshaped():
    net = network(nn.Tanh())
    net[2].weight = nn.Parameter(torch.zeros(5, 12, dtype=F64))
    return net


@pytest.mark.parametrize(
    ("net", "x", "options", "error", "words"),
    [
        (NET, gaussian(), {"method": "mixture"}, ValueError, "method must be 'surface' or 'exact' for tensors, got 'mixture'"),
        (NET, gaussian(3), {}, ValueError, r"layer 0, Linear\(4 -> 12\), takes 4 numbers, but the input has 3"),
        (NET, torch.zeros(4), {}, TypeError, r"x must be a pesn\.Gaussian, got Tensor"),
        (nn.Linear(4, 2, device="meta").eval(), gaussian(), {}, ValueError, "network lies on meta and x on cpu"),
        *((network(nn.Tanh()).train(), x, {}, ValueError, TRAINING) for x in (gaussian(), gaussian().numpy())),
        *((reshaped(), x, {}, ValueError, RESHAPED) for x in (gaussian(), gaussian().numpy())),
    ],
)
def test_invalid_arguments_raise(net, x, options, error, words):
    with pytest.raises(error, match=words):
        propagate(net, x, **options)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 1e25), (F64, 1e180), (torch.float16, 6e4)])
def test_overflow_errors_name_the_layer(dtype, size, covariance):
    x = pesn.Gaussian(torch.zeros(2, dtype=dtype), var=1.0)
    for place, net in ((0, nn.Sequential(nn.Linear(2, 1))), (1, nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1), nn.Tanh()))):
        net.to(dtype).eval()
        with torch.no_grad():
            net[place].weight.fill_(size)
        words = rf"the variance overflows in layer {place}, Linear\(2 -> 1\)"
        if dtype == torch.float16 and place:
            assert torch.isfinite(propagate(net, x, covariance=covariance).var)  # inside it is float32
            continue
        with pytest.raises(ValueError, match=words):
            propagate(net, x, covariance=covariance)
    net = nn.Linear(2, 1).to(dtype).eval()
    with torch.no_grad():
        net.weight.fill_(6e4 if dtype == torch.float16 else torch.finfo(dtype).max)
    with pytest.raises(ValueError, match=r"the mean overflows in network, Linear\(2 -> 1\): .* torch\.float"):
        propagate(net, pesn.Gaussian(torch.full((2,), 10.0, dtype=dtype)))


def test_vmap_raises_with_a_remedy():
    net, x = network(nn.Tanh()), gaussian()
    with pytest.raises(TypeError, match=r"mean must not come from torch\.func\.vmap; give all of the batch at once"):
        torch.func.vmap(lambda m: propagate(net, pesn.Gaussian(m, var=1.0)).mean)(of(5, 4))
    parameters = {f"net.{name}": torch.stack([value.detach()] * 2) for name, value in net.named_parameters()}

    class Sent(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self):
            return propagate(self.net, x).mean

    with pytest.raises(TypeError, match=r"weight of layer 0 must not come from torch\.func\.vmap"):
        torch.func.vmap(lambda p: torch.func.functional_call(Sent().eval(), p, ()))(parameters)


# ---------------------------------------------------------------- the front door


@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
@pytest.mark.parametrize("kind", ["var", "cov", "batch", "exact"])
def test_result_for_tensors_is_that_for_arrays(dtype, kind):
    """Closure, error estimate, samples, moments and intervals are those of the arrays, with gradients and without."""
    net = network(nn.Tanh(), sizes=(4, 12, 9, 3) if kind != "exact" else (4, 12, 3)).to(dtype)
    mean = of(*((3, 4) if kind == "batch" else (4,))).to(dtype).requires_grad_()
    spread = {"cov": gaussian().cov.to(dtype)} if kind == "cov" else {"std": torch.full((4,), 0.5, dtype=dtype)}
    x = pesn.Gaussian(mean, **spread)
    expected = pesn.propagate(net, x.numpy())
    y = pesn.propagate(net, x)
    with torch.no_grad():
        without = pesn.propagate(net, x)
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-7, "atol": 1e-9}
    for found in (y, without):
        assert isinstance(found, TensorGaussian)
        assert found.mean.dtype == dtype
        assert np.array_equal(found.closure, expected.closure)
        np.testing.assert_allclose(found.error, expected.error, rtol=1e-3)
        pairs = [(found.mean, expected.mean), (found.cov, expected.cov), *zip(found.interval(), expected.interval(), strict=True)]
        if kind == "exact":
            assert found.samples is expected.samples is None
        else:
            pairs += [(found.samples, expected.samples), (found.median, expected.median)]
        for one, other in pairs:
            np.testing.assert_allclose(one.detach(), other, **tolerance)
    assert y.mean.requires_grad
    assert not without.mean.requires_grad
    y.std.sum().backward()
    assert torch.isfinite(mean.grad).all()
    np.testing.assert_allclose(y.numpy().cov, expected.cov, **tolerance)


# ---------------------------------------------------------------- Gaussians of tensors


def test_gaussian_of_tensors_keeps_the_tensors():
    mean, var = torch.zeros(3, requires_grad=True), torch.ones(3, requires_grad=True)
    x = pesn.Gaussian(mean, var=var)
    assert isinstance(x, TensorGaussian)
    assert x.mean is mean
    assert x.var is var
    assert isinstance(pesn.Gaussian([0.0, 1.0], var=torch.ones(2)), TensorGaussian)
    assert pesn.Gaussian(torch.zeros(2, dtype=F64), var=0.1).var[0] == 0.1
    assert pesn.Gaussian(torch.arange(3)).dtype == torch.float32
    assert pesn.Gaussian(torch.zeros(2), var=torch.ones(2, dtype=F64)).dtype == F64
    assert not isinstance(pesn.Gaussian([0.0]), TensorGaussian)


def test_access_under_no_grad_keeps_the_graph():
    x = pesn.Gaussian(torch.zeros(2), factor=torch.ones(2, 1, requires_grad=True))
    with torch.no_grad():
        assert not x.cov.requires_grad
    assert x.cov.requires_grad


def test_tensor_gaussians_agree_with_array_gaussians():
    root, own = of(4, 3, 2), of(4, 3, seed=1).square()
    for x in (
        pesn.Gaussian(of(4, 3), var=own, factor=root),
        pesn.Gaussian(of(4, 3), cov=root @ root.mT),
        pesn.Gaussian(of(3), var=1),
    ):
        y = x.numpy()
        assert not isinstance(y, TensorGaussian)
        A, b = of(2, 3, seed=2), of(2, seed=3)
        for ours, theirs in ((x, y), (x.affine(A, b), y.affine(A.numpy(), b.numpy())), (x.marginal([2, 0]), y.marginal([2, 0])),
                             (x.affine(2.0, 1.0), y.affine(2.0, 1.0))):  # fmt: skip
            for name in ("mean", "var", "std", "cov"):
                np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-14)
            assert (ours.dim, ours.batch_shape) == (theirs.dim, theirs.batch_shape)
        for again in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            assert isinstance(again, TensorGaussian)
            assert torch.equal(again.cov, x.cov)
    for name in ("condition", "sample", "logpdf", "interval"):
        with pytest.raises(TypeError, match=r"use \.to_torch\(\), or \.numpy\(\)"):
            getattr(x, name)()


L2 = torch.tensor([[2.0, 0.0], [1.0, 1.0]])


@pytest.mark.parametrize(
    "given",
    [
        distributions.Normal(torch.tensor(1.0), torch.tensor(2.0)),
        distributions.Independent(distributions.Normal(torch.zeros(3), torch.tensor([1.0, 2.0, 3.0])), 1),
        distributions.MultivariateNormal(torch.zeros(2), scale_tril=L2),
        distributions.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2)),
    ],
    ids=str,
)
def test_distributions_round_trip(given):
    x = pesn.Gaussian(given)
    for back in (x.to_torch(), x.numpy().to_torch()):
        assert type(back) is type(given)
        assert back.event_shape == given.event_shape
        torch.testing.assert_close(back.mean, given.mean)
        torch.testing.assert_close(back.variance, given.variance)
        point = torch.full(given.event_shape, 0.3)
        torch.testing.assert_close(back.log_prob(point), given.log_prob(point))
    np.testing.assert_allclose(x.numpy().logpdf(point.numpy()), given.log_prob(point), rtol=1e-5)


def test_singular_gaussians_are_no_distributions():
    for singular in (pesn.Gaussian(torch.zeros(2)), pesn.Gaussian([0.0, 0.0], cov=[[1.0, 1.0], [1.0, 1.0]])):
        with pytest.raises(ValueError, match="to_torch needs a positive definite covariance"):
            singular.to_torch()


I2 = torch.eye(2)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((distributions.Laplace(0.0, 1.0),), TypeError, "got Laplace"),
        ((TanhNormal(0.0, 1.0),), TypeError, "got TanhNormal"),
        ((distributions.Normal(0.0, 1.0), 1.0), ValueError, "var must not be given beside a distribution"),
        ((torch.tensor([0.0, math.nan]),), ValueError, "mean must be finite, got nan at index 1"),
        ((torch.zeros(2, dtype=torch.complex64),), TypeError, "mean must be real numbers, got dtype torch.complex64"),
        ((torch.zeros(2).to_sparse(),), TypeError, "mean must be a dense tensor"),
        ((torch.zeros(2), torch.tensor([1.0, -1.0])), ValueError, "var must not be negative, got -1.0"),
        ((torch.zeros(2), torch.ones(3)), ValueError, r"var must broadcast against mean, got shapes \(3,\) and \(2,\)"),
        ((torch.zeros(2), None, torch.tensor([[1.0, 0.5], [0.0, 1.0]])), ValueError, "cov must be symmetric, got 0.5 at"),
        ((torch.zeros(2), None, torch.tensor([[1.0, 2.0], [2.0, 1.0]])), ValueError, "a smallest eigenvalue of -1"),
        ((torch.zeros(2), None, torch.diag(torch.tensor([1e10, -9e5]))), ValueError, "a variance of -900000.0 on its diagonal"),
        ((torch.zeros(3), None, torch.tensor([[1e6, 0, 0], [0, 1.0, 30.0], [0, -5.0, 1.0]])), ValueError, r"30.0 at \(1, 2\)"),
        ((torch.zeros(2), None, torch.tensor([[1.0, 0.1], [0.1, 0.0]])), ValueError, "a covariance beside a variance of 0"),
        ((torch.zeros(3, 2), None, I2.expand(4, 2, 2)), ValueError, r"cov must have the batch shape of mean"),
        ((torch.zeros(2), None, None, torch.ones(3, 1)), ValueError, r"factor must have shape \(2, k\)"),
        ((torch.zeros(2, device="meta"), torch.ones(2)), ValueError, "var must lie on meta, as the rest does, got cpu"),
    ],
)  # fmt: skip
def test_invalid_tensors_raise_with_the_parameter_name(arguments, error, words):
    with pytest.raises(error, match=words):
        pesn.Gaussian(*arguments)


def test_rounding_in_a_covariance_is_accepted():
    root = of(6, 2) * 10.0 ** torch.arange(-3.0, 3.0, dtype=F64)[:, None]
    for dtype in (F64, torch.float32, torch.float16):
        cov = (root @ root.T).to(dtype) if dtype != torch.float16 else torch.ones(6, 6, dtype=dtype)
        assert pesn.Gaussian(torch.zeros(6, dtype=dtype), cov=cov).dtype == dtype
    moved = torch.eye(3, dtype=F64)
    moved[0, 1] += 1e-6
    assert torch.equal(pesn.Gaussian(torch.zeros(3, dtype=F64), cov=moved).cov[0], torch.tensor([1.0, 5e-7, 0.0], dtype=F64))


# ---------------------------------------------------------------- TanhNormal

LOCS = [-30.0, -3.0, -0.2, 0.0, 1.0, 8.0]


@pytest.mark.parametrize("scale", [1e-200, 1e-6, 0.01, 0.5, 3.0, 40.0, 1000.0])
def test_tanh_normal_has_the_exact_moments(scale):
    policy = TanhNormal(torch.tensor(LOCS, dtype=F64), torch.tensor(scale, dtype=F64))
    exact = pesn.moments("tanh", LOCS, scale**2, method="exact")
    np.testing.assert_allclose(policy.mean, exact.mean, atol=1e-13)
    np.testing.assert_allclose(policy.variance, exact.var, rtol=1e-7, atol=1e-300)  # 1e-9 but beyond the table, at -30
    np.testing.assert_allclose(policy.variance[1:], exact.var[1:], rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(policy.stddev, np.sqrt(exact.var) if scale > 1e-100 else policy.stddev, rtol=1e-7)
    assert scale > 1e-100 or abs(policy.stddev[3] / scale - 1.0) < 1e-9


@pytest.mark.parametrize("scale", [1e-3, 0.5, 3.0, 100.0])
def test_tanh_normal_gradients(scale):
    inputs = torch.tensor([-1.5, 0.3, 4.0], dtype=F64).requires_grad_(), torch.full((3,), scale, dtype=F64).requires_grad_()

    def function(loc, scale):
        policy = TanhNormal(loc, scale)
        return policy.mean, policy.variance, policy.stddev, policy.mode

    assert torch.autograd.gradcheck(function, inputs, eps=1e-6 * max(scale, 1e-2), atol=1e-6, rtol=1e-4)


def test_tanh_normal_follows_parameters_that_change_in_place():
    loc, scale = torch.zeros(2, dtype=F64, requires_grad=True), torch.ones(2, dtype=F64)
    policy = TanhNormal(loc, scale)
    policy.mean.sum().backward()
    policy.variance.sum().backward()  # has a graph of its own
    before = policy.variance
    with torch.no_grad():
        loc += 1.0
        assert (policy.variance < before).all()
    torch.testing.assert_close(policy.variance, TanhNormal(loc, scale).variance)


@pytest.mark.parametrize(("dtype", "within"), [(F64, 1e-9), (torch.float32, 1e-6)])
def test_tanh_normal_gradients_agree_with_quadrature(dtype, within):
    loc, scale = torch.meshgrid(torch.linspace(-5.0, 5.0, 21, dtype=F64), torch.logspace(-2.0, 1.0, 13, dtype=F64), indexing="ij")
    x = torch.linspace(-9.0, 9.0, 4001, dtype=F64)
    inputs = [one.to(dtype).requires_grad_() for one in (loc, scale)]
    doubles = [one.detach().double().requires_grad_() for one in inputs]
    values, p = torch.tanh(doubles[0][..., None] + doubles[1][..., None] * x), torch.softmax(-0.5 * x.square(), 0)
    mean = values @ p
    policy = TanhNormal(*inputs)
    for found, expected in ((policy.mean, mean), (policy.variance, (values - mean[..., None]).square() @ p)):
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), expected, rtol=0.0, atol=within)
        exact = torch.autograd.grad(expected.sum(), doubles, retain_graph=True)
        for one, other in zip(torch.autograd.grad(found.sum(), inputs), exact, strict=True):
            assert one.dtype == dtype
            torch.testing.assert_close(one.double(), other, rtol=0.0, atol=within)


@pytest.mark.parametrize("name", ["mean", "variance"])
def test_tanh_normal_has_second_derivatives_and_torch_func(name):
    loc, scale = of(4), of(4, seed=1).abs() + 0.1

    def function(loc, scale):
        return getattr(TanhNormal(loc, scale, validate_args=False), name)

    assert torch.autograd.gradgradcheck(function, (loc.requires_grad_(), scale.requires_grad_()))
    expected = torch.autograd.functional.jacobian(function, (loc, scale))
    for one, other in zip(torch.func.jacrev(function, argnums=(0, 1))(loc, scale), expected, strict=True):
        torch.testing.assert_close(one, other)
    rows = torch.stack([loc, loc + 1.0]).detach()
    torch.testing.assert_close(torch.func.vmap(function, in_dims=(0, None))(rows, scale), function(rows, scale.expand(2, -1)))
    with torch.no_grad():
        before = getattr(policy := TanhNormal(loc, scale), name)
    torch.testing.assert_close(getattr(policy, name), before)
    with torch.no_grad():
        loc += 1.0
    assert not torch.allclose(getattr(policy, name), before)  # not from a table of what loc was


@pytest.mark.parametrize("scale", [0.1, 0.6, math.sqrt(0.5), 0.8, 1.5])
def test_mode_maximizes_log_prob(scale):
    locs = torch.tensor([-1.5, -0.1, 0.0, 0.1, 1.2], dtype=F64)
    policy = TanhNormal(locs, torch.tensor(scale, dtype=F64))
    grid = torch.tanh(torch.linspace(-12.0, 12.0, 40_001, dtype=F64))[:, None]
    assert torch.all(policy.log_prob(policy.mode) >= policy.log_prob(grid).amax(dim=0) - 1e-12)


def test_log_prob_agrees_with_torch_and_is_finite_at_the_boundary_and_at_the_mode():
    loc, scale = of(4), of(4, seed=1).abs() + 0.1
    policy = TanhNormal(loc, scale)
    torchs = distributions.TransformedDistribution(distributions.Normal(loc, scale), [distributions.TanhTransform()])
    values = torch.linspace(-0.999, 0.999, 11, dtype=F64)[:, None]
    torch.testing.assert_close(policy.log_prob(values), torchs.log_prob(values))
    edge = torch.tensor([-1.0, -1.0 + 1e-16, 1.0 - 1e-16, 1.0], dtype=F64)
    assert torch.isfinite(policy.log_prob(edge)).all()
    for dtype in (torch.float32, F64):
        wide = TanhNormal(torch.zeros(1000, dtype=dtype), torch.tensor(50.0, dtype=dtype))
        draw = wide.rsample()
        assert torch.isfinite(wide.log_prob(draw)).all()  # by the cache: the z that was drawn
        assert torch.isfinite(wide.log_prob(draw.clone())).all()
        policy = TanhNormal(torch.tensor([-50.0, 50.0], dtype=dtype), torch.tensor(100.0, dtype=dtype))
        assert torch.all(policy.mode.abs() < 1.0)
        assert torch.isfinite(policy.log_prob(policy.mode)).all()


def test_tanh_normal_implements_the_distribution_interface():
    policy = TanhNormal(torch.tensor([0.5, -1.0]), torch.tensor([0.3, 2.0]))
    assert isinstance(policy, distributions.TransformedDistribution)
    assert policy.has_rsample
    assert (policy.support.lower_bound, policy.support.upper_bound) == (-1.0, 1.0)
    assert policy.mean.dtype == policy.mode.dtype == torch.float32
    wide = policy.expand((3, 2))
    assert isinstance(wide, TanhNormal)
    assert wide.rsample((5,)).shape == (5, 3, 2)
    assert wide.mean.shape == wide.mode.shape == (3, 2)
    torch.manual_seed(0)
    draws = policy.rsample((200_000,))
    torch.testing.assert_close(draws.mean(0), policy.mean, atol=0.01, rtol=0.0)
    torch.testing.assert_close(draws.std(0), policy.stddev, atol=0.01, rtol=0.0)
    assert TanhNormal(0.5, 1.0).mean.shape == ()
    whole = TanhNormal(torch.tensor([1]), torch.tensor([1]))
    assert whole.mean.dtype == whole.mode.dtype == whole.rsample().dtype == torch.get_default_dtype()
    torch.testing.assert_close(whole.mean, TanhNormal(torch.ones(1), 1.0).mean)
    with pytest.raises(ValueError, match="scale"):
        TanhNormal(torch.tensor(0.0), torch.tensor(-1.0))


@pytest.mark.parametrize("call", [pesn.propagate, propagate])
def test_networks_of_other_packages_refuse_tensors_that_need_gradients(call):
    layers, mean = [pesn.Dense([[1.0, -1.0]], activation="tanh")], torch.tensor([0.5, 0.0], dtype=F64)
    plain = call(layers, TensorGaussian(mean, var=0.1 * torch.ones(2, dtype=F64)))
    np.testing.assert_allclose(plain.var, call(layers, pesn.Gaussian([0.5, 0.0], var=0.1)).var, rtol=1e-12)
    for x in (TensorGaussian(mean.clone().requires_grad_(), var=torch.ones(2, dtype=F64)),
              TensorGaussian(mean, var=torch.ones(2, dtype=F64, requires_grad=True))):  # fmt: skip
        with pytest.raises(TypeError, match="network must be a torch module for gradients with respect to x, got a list"):
            call(layers, x)
