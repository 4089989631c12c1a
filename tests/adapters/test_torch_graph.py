"""Claim: whatever a torch module does with its inputs, the graph read from one run of it gives the same numbers, and its Gaussian
closure the mean and deviations of samples; what has no closed form is refused by its place, and sampled by "auto"."""

import copy
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import pesn  # noqa: E402
from graph_models import MODELS, Convolutional, Last, Normalised, Residual  # noqa: E402
from pesn import Gaussian, propagate  # noqa: E402
from pesn.adapters.torch.graph import as_graph  # noqa: E402
from pesn.networks.graph import through_graph  # noqa: E402


class Function(nn.Module):
    """A function of tensors as a module, with two layers of its own."""

    def __init__(self, function, d=4):
        super().__init__()
        self.function, self.a, self.b = function, nn.Linear(d, d), nn.Linear(d, d)
        self.register_buffer("c", torch.linspace(0.5, 2.0, d))

    def forward(self, *x):
        return self.function(self, *x)


def made(make, seed=0):
    torch.manual_seed(seed)
    return make().eval()


def samples(network, x, shape, n=2**15):
    """Mean and deviations of the network itself, of many of Sobol's points."""
    y = propagate(network, x, shape=shape, closure="sobol", n_samples=n)
    return y.mean, y.std


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_near_samples(name):
    make, shape, tolerance = MODELS[name]
    network, d = made(make), math.prod(shape)
    x = Gaussian(np.random.default_rng(1).normal(size=d), var=0.04)
    y = propagate(network, x, shape=shape, closure="gaussian")
    mean, std = samples(network, x, shape)
    np.testing.assert_allclose(y.std, std, rtol=tolerance)
    assert np.abs((y.mean - mean) / std).max() < max(2.5 * tolerance, 0.02)
    assert y.closure == "gaussian"
    assert y.reliability < 0.06
    np.testing.assert_array_equal(y.cov, y.cov.T)
    assert np.linalg.eigvalsh(y.cov).min() > -1e-9 * y.var.max()


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_is_the_network(name):
    make, shape, _ = MODELS[name]
    network = made(make).double()
    rows = np.random.default_rng(2).normal(size=(4, math.prod(shape)))
    with torch.no_grad():
        out = network(torch.from_numpy(rows).reshape(4, *shape)).reshape(4, -1).numpy()
    np.testing.assert_allclose(as_graph(network, (shape,))(rows), out, atol=1e-10)


# ---------------------------------------------------------------- activations

ACTIVATIONS = [
    nn.Tanh(), nn.Sigmoid(), nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(0.2), nn.ELU(0.7), nn.SELU(), nn.CELU(0.6), nn.GELU(),
    nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.Softplus(2.0), nn.LogSigmoid(), nn.Softsign(), nn.Tanhshrink(), nn.Softshrink(0.3),
    nn.Hardshrink(0.3), nn.Hardtanh(-0.5, 2.0), nn.Hardsigmoid(), nn.Hardswish(), nn.Threshold(0.2, -1.0), nn.RReLU(), nn.PReLU(),
    nn.PReLU(5),
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
    assert y.reliability == 0.0
    np.testing.assert_array_equal(propagate(module, Gaussian(m, var=s * s)).cov, y.cov)  # and taken by "auto", as it is exact


@pytest.mark.parametrize(
    "module",
    [m for m in ACTIVATIONS if not isinstance(m, nn.Tanhshrink | nn.Hardshrink | nn.Threshold | nn.PReLU | nn.Hardswish)],
    ids=str,
)
def test_tensors_go_through_what_arrays_go_through(module):
    net = nn.Sequential(nn.Linear(3, 6), module, nn.Linear(6, 2)).double().eval()
    mean = torch.tensor([0.5, -1.0, 0.2], dtype=torch.float64, requires_grad=True)
    y = propagate(net, Gaussian(mean, var=torch.full((3,), 0.3, dtype=torch.float64)))
    other = propagate(net, Gaussian(mean.detach().numpy(), var=0.3), closure="gaussian")
    np.testing.assert_allclose(y.mean.detach().numpy(), other.mean, atol=1e-7)
    np.testing.assert_allclose(y.cov.detach().numpy(), other.cov, atol=1e-6)
    (slope,) = torch.autograd.grad(y.mean.sum(), mean)
    step = 1e-5
    ahead, back = (
        propagate(net, Gaussian(mean.detach().numpy() + sign * step * np.eye(3)[0], var=0.3), closure="gaussian").mean.sum()
        for sign in (1.0, -1.0)
    )
    np.testing.assert_allclose(slope[0], (ahead - back) / (2.0 * step), rtol=1e-4, atol=1e-7)


# ---------------------------------------------------------------- operations, each by itself


def filled(self, x):
    """Outputs laid out first, filled in a loop, as many write it."""
    out = torch.zeros(len(x), 3, 4)
    for t in range(3):
        out[:, t] = self.c * x * t
    return out.flatten(1)


def filled_like(self, x):
    out = x.new_zeros(len(x), 6)
    out[:, 1:5] = torch.tanh(x)
    out[:, 0] += 1.0
    out *= 2.0
    return out


def put(self, x):
    h = self.a(x).clone()
    h[:, [0, 2]] = x[:, :2]
    return h


def put_behind(self, x):
    """Up to the end, of which torch says 2⁶³ − 1."""
    h = self.a(x)
    h[:, 1:] = torch.tanh(h[:, 1:])
    h[:, ::2].mul_(3.0)
    return h


OPERATIONS = {
    "filled": filled,
    "put-behind": put_behind,
    "filled-like": filled_like,
    "put": put,
    "scattered": lambda self, x: torch.zeros(len(x), 6).scatter_add(1, torch.tensor([[0, 1, 5, 0]]).expand(len(x), 4), x),
    "copied": lambda self, x: torch.empty_like(x).copy_(torch.tanh(x)).mul_(2.0),
    "powers": lambda self, x: torch.stack([x**k for k in range(3)], dim=-1).flatten(1),
    "scalars": lambda self, x: 1.0 - (2.0 * x / 3.0 + 1.0) * 0.5,
    "square": lambda self, x: x**2,
    "added-product": lambda self, x: torch.addcmul(x, x, self.a(x), value=0.5),
    "added-product-of-one": lambda self, x: torch.addcmul(self.c, x, self.a(x)),
    "cube": lambda self, x: x**3,
    "abs": lambda self, x: x.abs(),
    "sin-cos": lambda self, x: torch.cat([x.sin(), x.cos()], 1)[:, :4],
    "exp": lambda self, x: (0.5 * x).exp(),
    "erf": lambda self, x: torch.erf(x),
    "clamp": lambda self, x: x.clamp(-0.2, 0.7),
    "clamp-min": lambda self, x: x.clamp(min=0.1),
    "quick-gelu": lambda self, x: x * torch.sigmoid(1.702 * x),
    "by-hand-gelu": lambda self, x: 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * x**3))),
    "softsign": lambda self, x: x / (1.0 + x.abs()),
    "snake": lambda self, x: x + torch.sin(x) ** 2,
    "hyperbola": lambda self, x: torch.sqrt(1.0 + x**2),
    "softplus-by-hand": lambda self, x: torch.log1p(torch.exp(x)),
    "logistic": lambda self, x: 1.0 / (1.0 + torch.exp(-x)),
    "atan": lambda self, x: torch.atan(x),
    "buffer": lambda self, x: x * self.c + self.c,
    "constant": lambda self, x: x + torch.ones(4) - torch.arange(4),
    "einsum": lambda self, x: torch.einsum("bi,ij->bj", x, self.a.weight),
    "matmul": lambda self, x: x @ self.a.weight @ self.b.weight,
    "chunks": lambda self, x: torch.stack([*x.chunk(2, 1)], 1).flatten(1),
    "split": lambda self, x: torch.cat(x.split([1, 3], dim=1)[::-1], 1),
    "means": lambda self, x: x - x.mean(dim=1, keepdim=True) + x.sum(1)[:, None],
    "index": lambda self, x: x[:, [2, 0, 1, 2]],
    "where": lambda self, x: torch.where(self.c > 1.0, x, -x),
    "masked": lambda self, x: x.masked_fill(self.c > 1.0, 3.0),
    "padded": lambda self, x: functional.pad(x, (1, 2)),
    "roll": lambda self, x: x.roll(1, 1) + x.flip(1),
    "cumsum": lambda self, x: x.cumsum(1),
    "lerp": lambda self, x: torch.lerp(x, 2.0 * x, self.c),
    "addcmul": lambda self, x: torch.addcmul(x, x, self.c),
    "interpolate": lambda self, x: functional.interpolate(x[:, None], scale_factor=2, mode="linear")[:, 0],
    "no-op": lambda self, x: functional.dropout(x, 0.5, training=self.training).contiguous().to(torch.float32),
}
NEARLY = {  # more than one operation that is not affine
    "product": lambda self, x: self.a(x) * self.b(x),
    "gate": lambda self, x: torch.sigmoid(self.a(x)) * torch.tanh(self.b(x)),
    "twice": lambda self, x: self.a(torch.tanh(self.a(x))),
    "gram": lambda self, x: (x.view(-1, 2, 2) @ self.a(x).view(-1, 2, 2).mT).flatten(1),
    "maximum": lambda self, x: torch.maximum(self.a(x), self.b(x)),
    "largest": lambda self, x: x.amax(1, keepdim=True) - x.min(dim=1).values[:, None],
    "log-sum": lambda self, x: torch.logsumexp(x, 1, keepdim=True),
    "log-softmax": lambda self, x: functional.log_softmax(self.a(x), 1),
    "softmin": lambda self, x: functional.softmin(self.a(x), 1),
    "normalised-by-hand": lambda self, x: (x - x.mean(1, True)) / (x.var(1, keepdim=True) + 1.0).sqrt(),
    "bilinear": lambda self, x: functional.bilinear(x[:, :2], self.a(x), self.a.weight.view(2, 2, 4), self.c[:2]),
    "logarithm": lambda self, x: torch.log(1.0 + torch.exp(self.a(x)).sum(1, keepdim=True)),
    "masked-attention": lambda self, x: functional.scaled_dot_product_attention(
        self.a(x).view(-1, 2, 2), self.b(x).view(-1, 2, 2), x.view(-1, 2, 2), is_causal=True
    ).flatten(1),
    "pooled": lambda self, x: functional.adaptive_max_pool1d(self.a(x)[:, None], 2)[:, 0],
    "pooled-padded": lambda self, x: functional.max_pool1d(self.a(x)[:, None], 3, padding=1, stride=1, ceil_mode=True)[:, 0],
    "unit-length": lambda self, x: functional.normalize(x + 2.0, dim=1),
    "softmax-by-hand": lambda self, x: self.a(x).exp() / self.a(x).exp().sum(1, keepdim=True),
    "quotient": lambda self, x: self.a(x) / (3.0 + self.b(x).square()),
    "two-outputs": lambda self, x: (self.a(x), {"more": torch.tanh(self.b(x)), "certain": torch.ones(len(x), 1)}),
}


@pytest.mark.parametrize("name", [*OPERATIONS, *NEARLY])
def test_an_operation(name):
    module = made(lambda: Function({**OPERATIONS, **NEARLY}[name]))
    x = Gaussian([0.5, -0.3, 1.0, 0.1], cov=0.03 * np.eye(4) + 0.01)
    y = propagate(module, x, closure="gaussian")
    mean, std = samples(module, x, None)
    exact = name in OPERATIONS
    np.testing.assert_allclose(y.mean, mean, atol=(0.005 if exact else 0.02) * std.max() + 1e-5)
    np.testing.assert_allclose(y.std, std, rtol=0.005 if exact else 0.05, atol=1e-6)
    if exact and name not in ("sin-cos", "cube"):
        assert y.reliability == 0.0
        assert propagate(module, x).closure == "gaussian"


def test_one_function_of_each_number_is_one_node():
    for name in ("quick-gelu", "by-hand-gelu", "softsign", "snake"):
        nodes = as_graph(made(lambda name=name: Function(OPERATIONS[name])), ((4,),)).nodes
        assert len(nodes) == 1, name


def test_steps_that_are_computed_at_once_are_taken_apart():
    graph = as_graph(made(lambda: Last(nn.GRU(4, 12, batch_first=True), 12)), ((30, 4),))
    x = Gaussian(np.random.default_rng(0).normal(size=120), var=0.04)
    rows = np.random.default_rng(1).normal(size=(2, 120))
    widest = 0
    values = {"input": rows}
    for node in graph.nodes:
        values[node.name] = node.operation(*(values[name] for name in node.inputs))
        widest = max(widest, values[node.name].shape[1])
    assert widest <= 36  # the three gates of one step, never those of all
    assert through_graph(graph, x).dim == 3


def test_residual_sums_do_not_keep_all_that_they_are_made_of():
    graph = as_graph(made(lambda: Residual(blocks=12)), ((20,),))
    alive = max(
        sum(1 for n in {i for later in graph.nodes[k:] for i in later.inputs} if n in {m.name for m in graph.nodes[:k]})
        for k in range(len(graph.nodes))
    )
    assert alive <= 3


# ---------------------------------------------------------------- several inputs, shapes


def test_several_inputs():
    module = made(lambda: Function(lambda self, x, h: torch.tanh(self.a(x) + self.b(h)) * h))
    x, h = Gaussian(np.ones(4), var=0.04), Gaussian(np.zeros(4), cov=0.03 * np.eye(4) + 0.01)
    y = propagate(module, (x, h), closure="gaussian")
    np.testing.assert_allclose(y.std, samples(module, (x, h), None)[1], rtol=0.02)
    joint = np.zeros((8, 8))
    joint[:4, :4], joint[4:, 4:] = x.cov, h.cov
    one = propagate(module, Gaussian(np.concatenate([x.mean, h.mean]), cov=joint), shape=[(4,), (4,)], closure="gaussian")
    np.testing.assert_allclose(one.cov, y.cov, rtol=1e-12)


def test_tensors_lose_no_gradients_unseen():
    """Several inputs go by arrays: tensors are not detached without a word, nor are options left aside."""
    one = Gaussian(torch.zeros(3), var=torch.ones(3))
    cell = made(lambda: nn.GRUCell(3, 3))
    with pytest.raises(TypeError, match=r"x must hold Gaussians of arrays .* got tensors; give x\[i\].numpy\(\)"):
        propagate(cell, (one, Gaussian(np.zeros(3), var=1.0)))
    assert propagate(cell, (one.numpy(), one.numpy())).mean.shape == (3,)
    chain = made(lambda: nn.Sequential(nn.Flatten(), nn.Linear(3, 2)))
    assert propagate(chain, one, shape=(1, 3)).mean.shape == (2,)
    with pytest.raises(ValueError, match="shape must hold the 3 numbers of its input"):
        propagate(chain, one, shape=(1, 4))
    with pytest.raises(ValueError, match="closure must be 'gaussian' for tensors"):
        propagate(chain, one, n_samples=64)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("layer", [nn.RNN, nn.GRU, nn.LSTM])
def test_a_recurrent_layer_alone_gives_its_outputs(layer, batch_first):
    network = made(lambda: layer(3, 5, batch_first=batch_first))
    x = Gaussian(np.random.default_rng(0).normal(size=12), var=0.04)
    y = propagate(network, x, closure="gaussian")
    assert y.mean.shape == (20,)
    other = propagate(network, x, shape=(4, 3), closure="sobol", n_samples=4096)
    np.testing.assert_allclose(y.std, other.std, rtol=0.03)


@pytest.mark.parametrize(("cell", "states"), [(nn.RNNCell, 1), (nn.GRUCell, 1), (nn.LSTMCell, 2)])
def test_a_cell_alone(cell, states):
    network = made(lambda: cell(3, 5))
    y = propagate(network, Gaussian([0.5, -1.0, 0.2], var=0.04), closure="gaussian")
    assert y.mean.shape == (5 * states,)
    other = propagate(network, Gaussian([0.5, -1.0, 0.2], var=0.04), closure="sobol", n_samples=4096)
    np.testing.assert_allclose(y.std, other.std, rtol=0.03)


def test_a_batch_is_each_of_its_rows():
    network = made(lambda: Residual(4, 10, 2))
    x = Gaussian(np.random.default_rng(0).normal(size=(3, 4)), var=0.1)
    y = propagate(network, x, closure="gaussian")
    assert y.reliability.shape == (3,)
    for i in range(3):
        np.testing.assert_allclose(y.cov[i], propagate(network, Gaussian(x.mean[i], var=0.1), closure="gaussian").cov, rtol=1e-9)


# ---------------------------------------------------------------- as torch has it


def inplace(self, x):
    h = self.a(x)
    y = functional.relu_(h[:, :2])  # changes h itself
    return h + y.sum(1, keepdim=True)


def inplace_module(self, x):
    h = self.a(x)
    return h + nn.ReLU(inplace=True)(h)


@pytest.mark.parametrize("function", [inplace, inplace_module])
def test_in_place_operations_act_on_what_they_are_views_of(function):
    module = made(lambda: Function(function))
    x = Gaussian([0.5, -0.3, 1.0, 0.1], var=0.3)
    y = propagate(module, x, closure="gaussian")
    np.testing.assert_allclose(y.std, samples(module, x, None)[1], rtol=0.005, atol=0.002)


def test_hooks_and_parametrisations_are_run():
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
    recwarn.clear()  # that torch has other plans for scripts
    for name, form in forms.items():
        y = propagate(form, x)
        np.testing.assert_allclose(y.cov, expected.cov, rtol=1e-9, err_msg=name)
        assert y.closure == "gaussian"
    assert len(propagate(forms["compile"], x, return_layers=True)) == 2  # of torch.compile, the very chain
    tensors = Gaussian(torch.tensor(x.mean), var=0.3)
    np.testing.assert_allclose(propagate(forms["compile"], tensors).cov.detach(), expected.cov, rtol=1e-5)
    for name in ("jit.trace", "jit.script", "fx"):
        with pytest.raises(TypeError, match=r"was made by torch.jit or torch.fx, .* give the module that it was made from"):
            propagate(forms[name], tensors)


def changed_in_place(network):
    with torch.no_grad():
        network.leave.weight.mul_(2.0)


def changed_as_data(network):
    network.leave.weight.data.mul_(1.001)


def replaced(network):
    network.leave = nn.Linear(64, 3)


def hooked(network):
    network.leave.register_forward_hook(lambda module, args, out: 3.0 * out)


@pytest.mark.parametrize("change", [changed_in_place, changed_as_data, replaced, hooked])
def test_what_was_read_before_is_read_again_where_it_has_changed(change):
    network, x = made(lambda: Residual(20)), Gaussian(np.random.default_rng(0).normal(size=20), var=0.04)
    first = propagate(network, x, closure="gaussian", check=False)
    np.testing.assert_array_equal(propagate(network, x, closure="gaussian", check=False).cov, first.cov)
    change(network.eval())
    after = propagate(network.eval(), x, closure="gaussian", check=False)
    np.testing.assert_allclose(after.cov, through_graph(as_graph(network, ((20,),)), x).cov, rtol=1e-9)
    assert not np.allclose(after.cov, first.cov, rtol=1e-4)


def test_the_network_stays_as_it_was():
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


REFUSED = {
    "branch": (branch, "depends on the numbers themselves"),
    "sort": (lambda self, x: x.sort(dim=1).values, "no closed form is known for sort"),
    "compare": (lambda self, x: torch.where(x > 0.3, x, self.a(x)), "no closed form is known for"),
    "root": (lambda self, x: torch.sqrt(x.abs() + 1.0) * self.a(x).sqrt().nan_to_num(), "no closed form is known for sqrt"),
    "quotient": (lambda self, x: self.a(x) / (9.0 + self.b(x)), "no closed form is known for div"),
    "pole": (lambda self, x: 1.0 / (9.0 + x), "no closed form is known for reciprocal"),
    "places": (lambda self, x: self.a(x).max(dim=1), "no closed form is known for max with all that it gives"),
    "half-numpy": (lambda self, x: x * torch.from_numpy(np.tanh(x.detach().numpy())), "leaves torch, as by .numpy"),
    "numpy": (lambda self, x: torch.from_numpy(np.sort(x.detach().numpy())), "cannot be followed from its inputs to its outputs"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_closed_form_is_sampled_by_auto_and_else_refused(name):
    function, words = REFUSED[name]
    module = made(lambda: Function(function))
    y = propagate(module, X4)
    assert y.closure == "sobol"
    with pytest.raises(TypeError, match=words) as error:
        propagate(module, X4, closure="gaussian")
    assert "closure='sobol'" in str(error.value)


class Kept(nn.Module):
    """Whose output depends on how often it was called."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def embedding():
    return nn.Embedding(4, 2)


def meta():
    return nn.Linear(4, 2, device="meta")


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
        (lambda: Function(lambda self, x: x / x.max()), {}, "got numbers that change with the other rows"),
        (lambda: Function(lambda self, x: x / -x.min()), {}, "got numbers that change with the other rows"),
        (lambda: nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False)), {}, "must have running statistics; without them"),
        (lambda: Function(lambda self, x: self.a(x).exp() * 1e39), {"closure": "gaussian"}, "finite numbers for x, got inf"),
        (lambda: Last(nn.GRU(2, 4), 4), {"shape": (2, 2)}, r"Is the first axis the batch \(batch_first=True"),
        (embedding, {}, r"network cannot be run on a batch of shape \(n, 4\): .*give shape="),
        (lambda: nn.Conv2d(1, 2, 3), {}, r"network cannot be run on a batch of shape \(n, 4\): .*give shape="),
        (meta, {}, "weight of network has no numbers: it lies on the meta device"),
        (lambda: Normalised(nn.LazyLinear(64)), {}, "norm.weight of network has not been initialised; run"),
        (infinite, {}, "enter.weight of network must be finite, got inf"),
        (lambda: Residual(4).train(), {}, r"network is in training mode; call network.eval\(\) first"),
        (lambda: Function(lambda self, x: torch.ones(len(x), 2)), {"closure": "gaussian"}, "the same for every input"),
        (lambda: Function(lambda self, x: x.sum()), {}, r"a row for each of 2, got one of shape \(\)"),
        (lambda: Function(lambda self, x: None), {}, "network must give a tensor with numbers in it, got none"),
        (lambda: Function(lambda self, x: "text"), {}, "^network must give tensors, .* got a str"),
        (lambda: Function(lambda self, x: torch.fft.fft(x)), {}, "^network must give real numbers, got dtype torch.complex64"),
        (lambda: Function(lambda self, x, h: x + h), {}, "missing 1 required positional argument"),
    ],
    ids=["dropout", "kept", "batch", "batch-largest", "batch-least", "batch-statistics", "too-large", "batch-second",
         "integers", "shape", "meta", "lazy", "infinite", "training", "same",
         "scalar", "none", "text", "complex", "arguments"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_odd_networks_are_told_apart(make, options, words):
    torch.manual_seed(0)
    network = make()
    network = network if words.startswith("network is in training") else network.eval()
    with pytest.raises((ValueError, TypeError), match=words):
        propagate(network, X4, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_input_may_be_changed_in_place(dtype):
    module = made(lambda: Function(lambda self, x: torch.tanh(self.a(x.add_(1.0).tanh_())))).to(dtype)
    other = made(lambda: Function(lambda self, x: torch.tanh(self.a(torch.tanh(x + 1.0))))).to(dtype)
    for closure in ("auto", "gaussian"):
        np.testing.assert_allclose(
            propagate(module, X4, closure=closure).cov, propagate(other, X4, closure=closure).cov, rtol=1e-6
        )


def two_layers():
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2))


@pytest.mark.parametrize("make", [two_layers, lambda: Residual(4, 6, 1), lambda: Last(nn.GRU(2, 4, batch_first=True), 4)],
                         ids=["chain", "graph", "recurrent"])  # fmt: skip
@pytest.mark.parametrize("std", [1e-5, 1e-7])
def test_inputs_sharper_than_float32_go_through_in_float64(make, std, caplog):
    """Where points differ by less than the rounding of the network's numbers: their spread would be that of the rounding."""
    network, shape = made(make), (2, 2) if "Last" in str(made(make)) else (4,)
    mean = np.array([30.0, -20.0, 25.0, 10.0])
    with torch.no_grad():
        next(network.parameters()).div_(30.0)
    before = {name: (tensor.dtype, tensor.clone()) for name, tensor in network.state_dict().items()}
    y = propagate(network, Gaussian(mean, var=std**2), shape=shape)
    slopes = torch.autograd.functional.jacobian(
        lambda x: copy.deepcopy(network).double()(x.reshape(1, *shape))[0], torch.as_tensor(mean)
    )
    np.testing.assert_allclose(y.std, std * slopes.norm(dim=1).numpy(), rtol=0.01)
    assert y.closure == "sobol"
    assert all(before[name][0] == t.dtype and torch.equal(before[name][1], t) for name, t in network.state_dict().items())


def test_a_network_that_cannot_be_in_float64_is_told_of(caplog):
    network = made(lambda: Function(lambda self, x: torch.tanh(self.a(torch.tanh(x.float())))))
    propagate(network, Gaussian(np.full(4, 3.0), var=1e-14))
    assert "about as sharp as the rounding of the network's numbers" in caplog.text


def test_units_that_never_fire_are_no_hindrance():
    network = made(lambda: Residual(4, 8, 1))
    with torch.no_grad():
        network.enter.bias.fill_(-60.0)
    y = propagate(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), network, nn.ReLU()).eval(), Gaussian(np.zeros(4), var=1e-4),
                  closure="gaussian")  # fmt: skip
    assert np.isfinite(y.cov).all()
    far = Function(lambda self, x: self.a(functional.relu(self.b(x) - 9.0)) + x)
    assert np.isfinite(propagate(far.eval(), Gaussian(np.zeros(4), var=0.06), closure="gaussian").cov).all()


def test_what_is_too_large_for_a_covariance_is_sampled():
    network = made(lambda: nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.Tanh(), nn.Conv2d(16, 1, 3), nn.Tanh(), nn.Flatten()))
    x = Gaussian(np.zeros(576), var=0.01)
    with pytest.raises(ValueError, match=r"would bring \d+ numbers into one covariance"):
        propagate(network, x, shape=(1, 24, 24), closure="gaussian")
    assert propagate(network, x, shape=(1, 24, 24), n_samples=8).closure == "sobol"


# ---------------------------------------------------------------- a user's own


class Sorted(nn.Module):
    def forward(self, x):
        return torch.from_numpy(np.maximum(x.numpy(), x.numpy()[:, ::-1]))


class Bump(nn.Module):
    def forward(self, x):
        return torch.from_numpy(np.exp(-np.square(x.numpy())))


@pytest.fixture
def registry():
    from pesn.networks import program as registry

    before = dict(registry._MAKERS)
    yield propagate.register
    registry._MAKERS.clear()
    registry._MAKERS.update(before)


def test_a_module_of_ones_own_is_registered(registry):
    network = made(lambda: nn.Sequential(nn.Linear(4, 4), Sorted(), nn.Linear(4, 4), Bump(), nn.Linear(4, 2)))
    with pytest.raises(TypeError):
        propagate(network, X4, closure="gaussian")
    registry(Sorted)(lambda module: lambda x: torch.maximum(x, x.flip(1)))
    bump = pesn.activations.custom(lambda z: np.exp(-(z**2)), left=0.0, right=0.0, name="bump")
    registry(Bump)(lambda module: bump)
    y = propagate(network, X4, closure="gaussian")
    np.testing.assert_allclose(y.std, samples(network, X4, None)[1], rtol=0.05)
    assert "forward" not in vars(network[1])
    assert any(
        node.operation.activation is bump for node in as_graph(network, ((4,),)).nodes if hasattr(node.operation, "activation")
    )


def test_a_network_of_ones_own_is_registered(registry):
    class Mine:
        scale = 2.0

    with pytest.raises(TypeError, match="got Mine"):
        propagate(Mine(), X4)
    registry(Mine)(lambda mine: [pesn.Dense(mine.scale * np.eye(4), activation="tanh")])
    assert propagate(Mine(), X4).closure == "gaussian"
    with pytest.raises(TypeError, match="kind must be a type, got"):
        registry(Mine())
    with pytest.raises(TypeError, match="must be a function of such an object, got 3"):
        registry(Mine)(3)
    registry(Sorted)(lambda module: 3)
    with pytest.raises(
        TypeError, match="what is registered for Sorted must give a module, a function of tensors or an Activation"
    ):
        propagate(nn.Sequential(nn.Linear(4, 4), Sorted()).eval(), X4, closure="gaussian")


def test_a_graph_of_one_affine_map_is_never_a_matrix():
    network = made(lambda: nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.AvgPool2d(4), nn.Flatten()))
    x = Gaussian(np.zeros(144), var=np.linspace(0.1, 1.0, 144))
    y = through_graph(as_graph(network, ((1, 12, 12),)), x)
    with torch.no_grad():
        rows = network(torch.eye(144).reshape(144, 1, 12, 12)) - network(torch.zeros(1, 1, 12, 12))
    jacobian = rows.double().numpy().T
    np.testing.assert_allclose(y.cov, jacobian @ x.cov @ jacobian.T, rtol=1e-4, atol=1e-7)
