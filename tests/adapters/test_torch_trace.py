"""Tests of tracing torch modules: affine operations and activations are read from one run as equivalent layers, whose Gaussian
closure agrees with samples. Operations without a closed form raise, or use points with closure="auto"."""

import copy
import math
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from pesn import Gaussian, propagate  # noqa: E402
from pesn.adapters.torch.trace import trace_layers  # noqa: E402
from pesn.networks import propagate_gaussian  # noqa: E402
from pesn.networks.layers import forward, is_linear  # noqa: E402


class Residual(nn.Module):
    """A residual network of tanh blocks."""

    def __init__(self, d=20, width=64, blocks=4):
        super().__init__()
        self.enter, self.leave = nn.Linear(d, width), nn.Linear(width, 3)
        self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(blocks)])

    def forward(self, x):
        h = torch.tanh(self.enter(x))
        for block in self.blocks:
            h = h + torch.tanh(block(h))
        return self.leave(h)


class Convolutional(nn.Module):
    """Convolutions, a residual sum, a batch's running statistics, transposed convolution, pooling."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second, self.up = nn.Conv2d(4, 4, 3, padding=1), nn.ConvTranspose2d(4, 2, 2, stride=2)
        self.pool, self.leave = nn.AvgPool2d(2), nn.Linear(72, 3)
        self.norm.register_buffer("running_mean", torch.randn(4))
        self.norm.register_buffer("running_var", 0.5 + 1.5 * torch.rand(4))

    def forward(self, x):
        h = functional.relu(self.norm(self.first(x)))
        h = h + functional.relu(self.second(h))
        return self.leave(self.pool(self.up(h)).flatten(1))


class Last(nn.Module):
    """A recurrent layer and a readout of its last step."""

    def __init__(self, layer, width):
        super().__init__()
        self.layer, self.leave = layer, nn.Linear(width, 3)

    def forward(self, x):
        return self.leave(self.layer(x)[0][:, -1])


class Function(nn.Module):
    """A module with two layers that calls a function of tensors."""

    def __init__(self, function, d=4):
        super().__init__()
        self.function, self.a, self.b = function, nn.Linear(d, d), nn.Linear(d, d)
        self.register_buffer("c", torch.linspace(0.5, 2.0, d))

    def forward(self, *x):
        return self.function(self, *x)


def made(make, seed=0):
    torch.manual_seed(seed)
    return make().eval()


def samples(network, x, shape, n=2**14):
    """Return the mean and standard deviations of the network output for many Sobol points."""
    y = propagate(network, x, shape=shape, closure="sobol", n_samples=n)
    return y.mean, y.std


# name: how it is made and the shape of one input
CLOSED = {
    "residual": (Residual, (20,)),
    "convolutional": (Convolutional, (1, 6, 6)),
    "rnn": (lambda: Last(nn.RNN(4, 24, 2, batch_first=True), 24), (8, 4)),
}
NO = "no closed form is known for"
BY_POINTS = {
    "gru": (lambda: nn.GRU(4, 6, batch_first=True), (5, 4), "no closed form is known for mul"),
    "lstm": (lambda: nn.LSTM(4, 6, batch_first=True, bidirectional=True), (5, 4), "no closed form is known for"),
    "layer-norm": (lambda: nn.Sequential(nn.Linear(20, 8), nn.LayerNorm(8)), (20,), f"Sequential.1: {NO} native_layer_norm"),
    "attention": (lambda: nn.TransformerEncoderLayer(16, 2, 24, batch_first=True), (4, 16), "TransformerEncoderLayer: no closed"),
    "max-pool": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2)), (1, 8, 8), f"Sequential.1: {NO} max_pool2d"),
}


@pytest.mark.parametrize("name", CLOSED)
def test_closed_form_agrees_with_samples_and_layers_with_the_network(name):
    make, shape = CLOSED[name]
    network, d = made(make), math.prod(shape)
    x = Gaussian(np.random.default_rng(1).normal(size=d), var=0.04)
    y = propagate(network, x, shape=shape, closure="gaussian")
    mean, std = samples(network, x, shape)
    np.testing.assert_allclose(y.std, std, rtol=0.01)
    assert np.abs((y.mean - mean) / std).max() < 0.025
    assert y.closure == "gaussian"
    assert y.error < 0.06
    np.testing.assert_array_equal(y.cov, y.cov.T)
    assert np.linalg.eigvalsh(y.cov).min() > -1e-9 * y.var.max()
    third = propagate(network, x, shape=shape, closure="third-order")
    np.testing.assert_allclose(third.std, std, rtol=0.01)
    rows = np.random.default_rng(2).normal(size=(4, d))
    with torch.no_grad():
        out = network.double()(torch.from_numpy(rows).reshape(4, *shape)).reshape(4, -1).numpy()
    np.testing.assert_allclose(forward(trace_layers(network, (shape,)), rows), out, atol=1e-10)  # the layers are the network


@pytest.mark.parametrize("name", BY_POINTS)
def test_models_without_a_closed_form_use_points(name):
    make, shape, words = BY_POINTS[name]
    network = made(make)
    x = Gaussian(np.random.default_rng(1).normal(size=math.prod(shape)), var=0.04)
    y = propagate(network, x, shape=shape)
    assert y.closure == "sobol"
    with torch.no_grad():
        out = network(torch.as_tensor(x.sample(20_000, rng=0), dtype=torch.float32).reshape(-1, *shape))
    out = (out[0] if isinstance(out, tuple) else out).reshape(20_000, -1)
    np.testing.assert_allclose(y.std, out.double().std(dim=0), rtol=0.06)
    for closure in ("gaussian", "third-order"):
        with pytest.raises(TypeError, match=f"^.*{words}.*use closure='sobol'\\Z"):  # one line
            propagate(network, x, shape=shape, closure=closure)


# ---------------------------------------------------------------- activations

ACTIVATIONS = [
    nn.Tanh(), nn.Sigmoid(), nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(0.2), nn.ELU(0.7), nn.SELU(), nn.CELU(0.6), nn.GELU(),
    nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.Softplus(2.0), nn.LogSigmoid(), nn.Softsign(), nn.Tanhshrink(), nn.Softshrink(0.3),
    nn.Hardtanh(-0.5, 2.0), nn.Hardsigmoid(), nn.Hardswish(), nn.RReLU(), nn.PReLU(),
]  # fmt: skip


@pytest.mark.parametrize("module", ACTIVATIONS, ids=str)
def test_every_activation_is_exact_on_one_layer(module):
    if isinstance(module, nn.PReLU):
        nn.init.uniform_(module.weight, -0.5, 0.8)
    m, s = np.array([-3.0, -0.4, 0.0, 0.5, 2.0]), np.array([1.0, 0.3, 0.8, 0.2, 2.0])
    y = propagate(module.eval(), Gaussian(m, var=s * s), closure="gaussian")
    z = np.linspace(-9.0, 9.0, 200_001)
    weights = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
    with torch.no_grad():
        f = module.double()(torch.from_numpy(m + s * z[:, None])).numpy()
    module.float()
    mean = weights @ f
    np.testing.assert_allclose(y.mean, mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(y.var, weights @ np.square(f - mean), rtol=1e-3, atol=1e-6)
    assert y.error == 0.0
    np.testing.assert_array_equal(propagate(module, Gaussian(m, var=s * s)).cov, y.cov)  # and taken by "auto", as it is exact


# ---------------------------------------------------------------- operations, each by itself


def filled(self, x):
    """Outputs laid out first, filled in a loop, as many write it."""
    out = torch.zeros(len(x), 3, 4)
    for t in range(3):
        out[:, t] = self.c * x * t
    return out.flatten(1)


OPERATIONS = {
    "filled": filled,
    "scattered": lambda self, x: torch.zeros(len(x), 6).scatter_add(1, torch.tensor([[0, 1, 5, 0]]).expand(len(x), 4), x),
    "scalars": lambda self, x: 1.0 - (2.0 * x / 3.0 + 1.0) * 0.5,
    "square": lambda self, x: x**2,
    "product": lambda self, x: self.a(x) * self.b(x),
    "clamp": lambda self, x: x.clamp(-0.2, 0.7),
    "quick-gelu": lambda self, x: x * torch.sigmoid(1.702 * x),
    "by-hand-gelu": lambda self, x: 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * x**3))),
    "softsign": lambda self, x: x / (1.0 + x.abs()),
    "logistic": lambda self, x: 1.0 / (1.0 + torch.exp(-x)),
    "buffer": lambda self, x: x * self.c + self.c,
    "einsum": lambda self, x: torch.einsum("bi,ij->bj", x, self.a.weight),
    "means": lambda self, x: x - x.mean(dim=1, keepdim=True) + x.sum(1)[:, None],
    "index": lambda self, x: x[:, [2, 0, 1, 2]],
    "where": lambda self, x: torch.where(self.c > 1.0, x, -x),
    "padded": lambda self, x: functional.pad(x, (1, 2)),
    "no-op": lambda self, x: functional.dropout(x, 0.5, training=self.training).contiguous().to(torch.float32),
}
NEARLY = {  # more than one operation that is not affine
    "twice": lambda self, x: self.a(torch.tanh(self.a(x))),
    "two-outputs": lambda self, x: (self.a(x), {"more": torch.tanh(self.b(x)), "certain": torch.ones(len(x), 1)}),
    "two-branches": lambda self, x: torch.tanh(self.a(x)) + torch.relu(self.b(x)) + x,
    "pre-activation": lambda self, x: x + self.b(torch.tanh(x + torch.tanh(self.a(x)))),
}


@pytest.mark.parametrize("name", [*OPERATIONS, *NEARLY])
def test_operations_agree_with_samples(name):
    module = made(lambda: Function({**OPERATIONS, **NEARLY}[name]))
    x = Gaussian([0.5, -0.3, 1.0, 0.1], cov=0.03 * np.eye(4) + 0.01)
    y = propagate(module, x, closure="gaussian")
    mean, std = samples(module, x, None)
    exact = name in OPERATIONS
    np.testing.assert_allclose(y.mean, mean, atol=(0.005 if exact else 0.02) * std.max() + 1e-5)
    np.testing.assert_allclose(y.std, std, rtol=0.005 if exact else 0.05, atol=1e-6)
    if exact:
        assert y.error == 0.0
        assert propagate(module, x).closure == "gaussian"


def test_elementwise_functions_are_read_as_one_layer():
    for name in ("quick-gelu", "by-hand-gelu", "softsign"):
        layers = trace_layers(made(lambda name=name: Function(OPERATIONS[name])), ((4,),))
        assert [is_linear(layer) for layer in layers] == [False], name


# ---------------------------------------------------------------- several inputs, shapes


def test_several_inputs_equal_one_joint_input():
    module = made(lambda: Function(lambda self, x, h: torch.tanh(self.a(x) + self.b(h)) + h))
    x, h = Gaussian(np.ones(4), var=0.04), Gaussian(np.zeros(4), cov=0.03 * np.eye(4) + 0.01)
    y = propagate(module, (x, h), closure="gaussian")
    np.testing.assert_allclose(y.std, samples(module, (x, h), None)[1], rtol=0.02)
    joint = np.zeros((8, 8))
    joint[:4, :4], joint[4:, 4:] = x.cov, h.cov
    one = propagate(module, Gaussian(np.concatenate([x.mean, h.mean]), cov=joint), shape=[(4,), (4,)], closure="gaussian")
    np.testing.assert_allclose(one.cov, y.cov, rtol=1e-12)


def test_tensors_are_never_detached_silently():
    """Several inputs require arrays: tensors are not detached and options are not ignored silently."""
    one = Gaussian(torch.zeros(3), var=torch.ones(3))
    cell = made(lambda: nn.GRUCell(3, 3))
    with pytest.raises(TypeError, match=r"x must hold Gaussians of arrays .* got tensors; give x\[i\].numpy\(\)"):
        propagate(cell, (one, Gaussian(np.zeros(3), var=1.0)))
    assert propagate(cell, (one.numpy(), one.numpy())).mean.shape == (3,)
    chain = made(lambda: nn.Sequential(nn.Flatten(), nn.Linear(3, 2)))
    assert propagate(chain, one, shape=(1, 3)).mean.shape == (2,)
    with pytest.raises(ValueError, match="shape must hold the 3 numbers of its input"):
        propagate(chain, one, shape=(1, 4))
    assert propagate(chain, one, closure="third-order").closure == "third-order"


@pytest.mark.parametrize(
    ("layer", "options", "steps", "n_outputs"),
    [
        *((layer, {"batch_first": first}, 4, 20) for layer in (nn.RNN, nn.GRU, nn.LSTM) for first in (True, False)),
        *((nn.RNNCell, {}, 1, 5), (nn.GRUCell, {}, 1, 5), (nn.LSTMCell, {}, 1, 10)),
    ],
)
def test_recurrent_layers_and_cells_agree_with_points(layer, options, steps, n_outputs):
    network = made(lambda: layer(3, 5, **options))
    x = Gaussian(np.random.default_rng(0).normal(size=3 * steps), var=0.04)
    y = propagate(network, x, closure="gaussian" if layer is nn.RNN else "auto")
    assert y.mean.shape == (n_outputs,)
    assert y.closure == ("gaussian" if layer in (nn.RNN, nn.RNNCell) else "sobol")
    other = propagate(network, x, shape=(steps, 3) if options else None, closure="sobol", n_samples=4096)
    np.testing.assert_allclose(y.std, other.std, rtol=0.03)
    mean = torch.tensor(x.mean).requires_grad_()
    tensors = propagate(network, Gaussian(mean, var=0.04), closure="gaussian" if layer is nn.RNN else "auto")
    np.testing.assert_allclose(tensors.std.detach(), y.std, rtol=1e-4)
    assert torch.autograd.grad(tensors.std.sum(), mean)[0].abs().min() > 0.0


# ---------------------------------------------------------------- torch semantics


def inplace(self, x):
    h = self.a(x)
    y = functional.relu_(h[:, :2])  # changes h itself
    return h + y.sum(1, keepdim=True)


def inplace_module(self, x):
    h = self.a(x)
    return h + nn.ReLU(inplace=True)(h)


@pytest.mark.parametrize("function", [inplace, inplace_module])
def test_in_place_operations_change_their_views(function):
    module = made(lambda: Function(function))
    x = Gaussian([0.5, -0.3, 1.0, 0.1], var=0.3)
    y = propagate(module, x, closure="gaussian")
    np.testing.assert_allclose(y.std, samples(module, x, None)[1], rtol=0.005, atol=0.002)


def test_hooks_and_parametrizations_are_run():
    network = made(lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)))
    nn.utils.parametrizations.weight_norm(network[0])
    network[1].register_forward_hook(lambda module, args, out: 2.0 * out)
    x = Gaussian([0.5, -0.3, 1.0, 0.1], var=0.3)
    y = propagate(network.eval(), x, closure="gaussian")
    np.testing.assert_allclose(y.std, samples(network, x, None)[1], rtol=0.005)
    assert len(network[1]._forward_hooks) == 1


def test_traced_scripted_and_compiled_modules_are_unwrapped(recwarn, monkeypatch):
    validates = torch.distributions.Distribution
    monkeypatch.setattr(validates, "_validate_args", validates._validate_args)  # which the compiler turns off for all
    network = made(lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)))
    x = Gaussian([0.5, -0.3, 1.0, 0.1], var=0.3)
    expected = propagate(network, x)
    forms = {
        "jit.trace": torch.jit.trace(network, torch.zeros(1, 4)),
        "jit.script": torch.jit.script(network),
        "fx": torch.fx.symbolic_trace(network),
        "compile": torch.compile(network),
    }
    recwarn.clear()  # deprecation warnings of torch.jit
    for name, form in forms.items():
        y = propagate(form, x)
        np.testing.assert_allclose(y.cov, expected.cov, rtol=1e-9, err_msg=name)
        assert y.closure == "gaussian"
    assert len(propagate_gaussian(forms["compile"], x)) == 2  # of torch.compile, the very chain
    tensors = Gaussian(torch.tensor(x.mean), var=0.3)
    np.testing.assert_allclose(propagate(forms["compile"], tensors).cov.detach(), expected.cov, rtol=1e-5)
    for name in ("jit.trace", "jit.script", "fx"):
        np.testing.assert_allclose(propagate(forms[name], tensors).std.detach(), expected.std, rtol=0.01)
        np.testing.assert_allclose(propagate(forms[name], tensors, closure="gaussian").cov.detach(), expected.cov, rtol=1e-5)


def test_network_and_torch_settings_are_not_modified():
    network = made(lambda: Convolutional())
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    threads, grad = torch.get_num_threads(), torch.is_grad_enabled()
    fast, mkldnn = torch.backends.mha.get_fastpath_enabled(), torch.backends.mkldnn.enabled
    propagate(network, Gaussian(np.zeros(36), var=0.1), shape=(1, 6, 6), closure="gaussian")
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert (torch.get_num_threads(), torch.is_grad_enabled()) == (threads, grad)
    assert (torch.backends.mha.get_fastpath_enabled(), torch.backends.mkldnn.enabled) == (fast, mkldnn)
    assert not any(module._forward_hooks for module in network.modules())


# ---------------------------------------------------------------- what is refused, and by which words

X4 = Gaussian([0.5, -0.3, 1.0, 0.1], var=0.1)


def branch(self, x):
    return self.a(x) if x.sum() > 0 else self.b(x)


def write_behind(self, x):
    h = self.a(x)
    h[:, 1:] = torch.tanh(h[:, 1:])
    return h


REFUSED = {
    "branch": (branch, "depends on the numbers themselves"),
    "sort": (lambda self, x: x.sort(dim=1).values, "no closed form is known for sort"),
    "root": (lambda self, x: torch.sqrt(x.abs() + 1.0) * self.a(x).sqrt().nan_to_num(), "no closed form is known for sqrt"),
    "quotient": (lambda self, x: self.a(x) / (9.0 + self.b(x)), "no closed form is known for div"),
    "logarithm": (lambda self, x: torch.log(x + 3.0), "no closed form is known for log"),
    "written behind": (write_behind, "no closed form is known for slice_scatter"),
    "slopes": (lambda self, x: functional.prelu(x, self.c), "no closed form is known for _prelu_kernel"),
    "matrix": (lambda self, x: x.view(-1, 2, 2) @ self.a(x).view(-1, 2, 2), "for bmm"),
    "half-numpy": (lambda self, x: x * torch.from_numpy(np.tanh(x.detach().numpy())), "leaves torch, as by .numpy"),
    "numpy": (lambda self, x: torch.from_numpy(np.sort(x.detach().numpy())), "cannot be followed from its inputs to its outputs"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_operations_without_a_closed_form_use_points_in_auto_only(name):
    function, words = REFUSED[name]
    module = made(lambda: Function(function))
    y = propagate(module, X4)
    assert y.closure == "sobol"
    with pytest.raises(TypeError, match=f"{words}.*closure='sobol'"):
        propagate(module, X4, closure="gaussian")


class Kept(nn.Module):
    """Whose output depends on how often it was called."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def infinite():
    network = Residual(4, 6, 1)
    with torch.no_grad():
        network.enter.weight[0, 0] = math.inf
    return network


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (lambda: Function(lambda self, x: functional.dropout(x, 0.5, training=True)), {}, "must treat each row by itself"),
        (Kept, {}, "the same row the same each time"),
        (lambda: Function(lambda self, x: x - x.mean(0)), {}, "got numbers that change with the other rows"),
        (lambda: nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False)), {}, "must have running statistics; without them"),
        (lambda: Function(lambda self, x: self.a(x) * 1e39), {"closure": "gaussian"}, "finite numbers for x, got -?inf"),
        (lambda: Last(nn.GRU(2, 4), 4), {"shape": (2, 2)}, r"Is the first axis the batch \(batch_first=True"),
        (lambda: nn.Embedding(4, 2), {}, r"network cannot be run on a batch of shape \(n, 4\): .*give shape="),
        (lambda: nn.Linear(4, 2, device="meta"), {}, "weight of network has no numbers: it lies on the meta device"),
        (lambda: nn.Sequential(Residual(4, 6, 1), nn.LazyLinear(64)), {}, "1.weight of network has not been initialized; run"),
        (infinite, {}, "enter.weight of network must be finite, got inf"),
        (lambda: Residual(4).train(), {}, r"network is in training mode; call network.eval\(\) first"),
        (lambda: Function(lambda self, x: torch.ones(len(x), 2)), {"closure": "gaussian"}, "the same for every input"),
        (lambda: Function(lambda self, x: x.sum()), {}, r"a row for each of 2, got one of shape \(\)"),
        (lambda: Function(lambda self, x: "text"), {}, "^network must give tensors, .* got a str"),
        (lambda: Function(lambda self, x: torch.fft.fft(x)), {}, "^network must give real numbers, got dtype torch.complex64"),
        (lambda: Function(lambda self, x, h: x + h), {}, "missing 1 required positional argument"),
    ],
    ids=["dropout", "kept", "batch", "batch-statistics", "too-large", "batch-second",
         "integers", "meta", "lazy", "infinite", "training", "same",
         "scalar", "text", "complex", "arguments"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_invalid_networks_raise(make, options, words):
    torch.manual_seed(0)
    network = make()
    network = network if words.startswith("network is in training") else network.eval()
    with pytest.raises((ValueError, TypeError), match=words):
        propagate(network, X4, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_network_may_modify_its_input_in_place(dtype):
    module = made(lambda: Function(lambda self, x: torch.tanh(self.a(x.add_(1.0).tanh_())))).to(dtype)
    other = made(lambda: Function(lambda self, x: torch.tanh(self.a(torch.tanh(x + 1.0))))).to(dtype)
    for closure in ("auto", "gaussian"):
        found, expected = (propagate(one, X4, closure=closure).cov for one in (module, other))
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def two_layers():
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2))


@pytest.mark.parametrize("make", [two_layers, lambda: Residual(4, 6, 1), lambda: Last(nn.GRU(2, 4, batch_first=True), 4)],
                         ids=["chain", "graph", "recurrent"])  # fmt: skip
@pytest.mark.parametrize(("mean", "std"), [(1.0, 1e-5), (1.0, 1e-7), (0.0, 1e-9)])
def test_inputs_below_float32_resolution_use_float64(make, mean, std, caplog):
    """In float32 the differences between points would be dominated by rounding errors."""
    network, shape = made(make), (2, 2) if "Last" in str(made(make)) else (4,)
    mean = mean * np.array([30.0, -20.0, 25.0, 10.0])
    with torch.no_grad():
        next(network.parameters()).div_(30.0)
    before = {name: (tensor.dtype, tensor.clone()) for name, tensor in network.state_dict().items()}
    y = propagate(network, Gaussian(mean, var=std**2), shape=shape)
    double = copy.deepcopy(network).double()
    slopes = torch.autograd.functional.jacobian(lambda x: double(x.reshape(1, *shape))[0], torch.as_tensor(mean))
    np.testing.assert_allclose(y.std, std * slopes.norm(dim=1).numpy(), rtol=0.01)
    assert y.closure == "sobol"
    assert all(before[name][0] == t.dtype and torch.equal(before[name][1], t) for name, t in network.state_dict().items())


@pytest.mark.parametrize(
    ("function", "mean", "std"), [(torch.Tensor.frac, 1e6 + 0.5, 1e-3), (lambda x: x @ torch.ones(2, 1), 0.0, 0.5**0.5)]
)
def test_modules_without_parameters_have_the_precision_of_their_input(function, mean, std):
    module = type("Module", (nn.Module,), {"forward": lambda self, x: function(x)})().eval()  # the second has float32 constants
    y = propagate(module, Gaussian(np.full(2, mean), var=std**2), n_samples=1024)
    np.testing.assert_allclose(y.std, std if mean else 1.0, rtol=0.05)


def test_network_without_float64_copy_is_logged(caplog):
    network = made(lambda: Function(lambda self, x: torch.tanh(self.a(torch.tanh(x.float())))))
    propagate(network, Gaussian(np.full(4, 3.0), var=1e-14))
    assert "about as sharp as the rounding of the network's numbers" in caplog.text


def test_units_that_never_fire_keep_covariances_finite():
    network = made(lambda: Residual(4, 8, 1))
    with torch.no_grad():
        network.enter.bias.fill_(-60.0)
    y = propagate(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), network, nn.ReLU()).eval(), Gaussian(np.zeros(4), var=1e-4),
                  closure="gaussian")  # fmt: skip
    assert np.isfinite(y.cov).all()
    far = Function(lambda self, x: self.a(functional.relu(self.b(x) - 9.0)) + x)
    assert np.isfinite(propagate(far.eval(), Gaussian(np.zeros(4), var=0.06), closure="gaussian").cov).all()


def test_layers_too_large_for_a_covariance_use_points():
    network = made(lambda: nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.Tanh(), nn.Conv2d(16, 1, 3), nn.Tanh(), nn.Flatten()))
    x = Gaussian(np.zeros(576), var=0.01)
    with pytest.raises(ValueError, match=r"would bring \d+ numbers into one covariance"):
        propagate(network, x, shape=(1, 24, 24), closure="gaussian")
    assert propagate(network, x, shape=(1, 24, 24), n_samples=8).closure == "sobol"


MEMORY = """
import resource, sys
import numpy as np, torch
from torch import nn
import pesn
torch.manual_seed(0)
torch.set_num_threads(1)
pairs = ((32, 16), (16, 8), (8, 8), (8, 1))
enlarge = [part for a, b in pairs for part in (nn.Upsample(scale_factor=2), nn.Conv2d(a, b, 3, padding=1), nn.Tanh())]
decoder = nn.Sequential(nn.Linear(16, 32 * 16 * 16), nn.Tanh(), nn.Unflatten(1, (32, 16, 16)), *enlarge).eval()
y = pesn.propagate(decoder, pesn.Gaussian(np.zeros(16), var=0.1), covariance="diagonal", n_samples=512)
assert y.std.shape == (256**2,) and np.all(y.std > 0.0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20))
"""


def test_variances_of_an_image_fit_in_a_gigabyte():
    """The covariance would take 34 GB, all outputs of the first 256 points with the units before them 1.7 GB."""
    pytest.importorskip("resource")
    # the peak of a process counts that of the one that started it, so a small one starts it
    start = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    done = subprocess.run([sys.executable, "-c", start, MEMORY], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.0, done.stdout
