"""Networks that are no chain of layers, as people write them: for tests and for benchmarks/graphs.py."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional


class Residual(nn.Module):
    """tanh blocks beside a stream of numbers."""

    def __init__(self, d: int = 20, width: int = 64, blocks: int = 4) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(d, width), nn.Linear(width, 3)
        self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(blocks)])

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.enter(x))
        for block in self.blocks:
            h = h + torch.tanh(block(h))
        return self.leave(h)


class Convolutional(nn.Module):
    """Convolutions, a residual sum, a batch's running statistics, transposed convolution, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second, self.up = nn.Conv2d(4, 4, 3, padding=1), nn.ConvTranspose2d(4, 2, 2, stride=2)
        self.pool, self.leave = nn.AvgPool2d(2), nn.Linear(72, 3)
        self.norm.register_buffer("running_mean", torch.randn(4))
        self.norm.register_buffer("running_var", 0.5 + 1.5 * torch.rand(4))

    def forward(self, x: Tensor) -> Tensor:
        h = functional.relu(self.norm(self.first(x)))
        h = h + functional.relu(self.second(h))
        return self.leave(self.pool(self.up(h)).flatten(1))


class DenseLike(nn.Module):
    """Every layer sees all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.leave = nn.Linear(20, 32), nn.Linear(52, 32), nn.Linear(84, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.cat([x, functional.gelu(self.a(x))], dim=1)
        return self.leave(torch.cat([h, functional.gelu(self.b(h))], dim=1))


class Elman(nn.Module):
    """A recurrent network, its loop written out."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.again, self.leave = nn.Linear(4, 32), nn.Linear(32, 32), nn.Linear(32, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.enter(x[:, 0]))
        for t in range(1, x.shape[1]):
            h = torch.tanh(self.enter(x[:, t]) + self.again(h))
        return self.leave(h)


class Last(nn.Module):
    """A recurrent layer and a readout of its last step."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer, self.leave = layer, nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(self.layer(x)[0][:, -1])


class Gated(nn.Module):
    """Products of two layers, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.leave = nn.Linear(20, 48), nn.Linear(20, 48), nn.Linear(48, 32), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(functional.glu(self.c(functional.silu(self.a(x)) * self.b(x))))


class Normalised(nn.Module):
    """A residual block behind a normalisation."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.enter, self.norm, self.inner, self.leave = nn.Linear(20, 64), norm, nn.Linear(64, 64), nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.enter(x)
        return self.leave(h + functional.gelu(self.inner(self.norm(h))))


class Attention(nn.Module):
    """Self-attention of two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.leave = nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(self.inner(x, x, x, need_weights=False)[0].mean(1))


class Pooled(nn.Module):
    """The largest of windows that reach beyond the image."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.leave = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(100, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(functional.max_pool2d(torch.tanh(self.inner(x)), 2, padding=1).flatten(1))


# name: how it is made, the shape of one input, and how near to samples its deviations are to be at an input deviation of 0.2
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], float]] = {
    "residual": (Residual, (20,), 0.01),
    "convolutional": (Convolutional, (1, 6, 6), 0.01),
    "dense-like": (DenseLike, (20,), 0.01),
    "elman": (Elman, (10, 4), 0.01),
    "rnn": (lambda: Last(nn.RNN(4, 24, 2, batch_first=True), 24), (8, 4), 0.01),
    "gru": (lambda: Last(nn.GRU(4, 24, batch_first=True), 24), (8, 4), 0.01),
    "lstm": (lambda: Last(nn.LSTM(4, 16, batch_first=True, bidirectional=True), 32), (6, 4), 0.01),
    "gated": (Gated, (20,), 0.01),
    "layer-norm": (lambda: Normalised(nn.LayerNorm(64)), (20,), 0.01),
    "rms-norm": (lambda: Normalised(nn.RMSNorm(64)), (20,), 0.01),
    "group-norm": (lambda: Normalised(nn.GroupNorm(4, 64)), (20,), 0.02),
    "instance-norm": (
        lambda: Normalised(nn.Sequential(nn.Unflatten(1, (2, 32)), nn.InstanceNorm1d(2), nn.Flatten())),
        (20,),
        0.02,
    ),
    "softmax": (lambda: nn.Sequential(Residual(), nn.Softmax(dim=-1)), (20,), 0.01),
    "attention": (Attention, (5, 16), 0.01),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 2, 24, batch_first=True), (4, 16), 0.02),
    "max-pool": (Pooled, (1, 8, 8), 0.03),
}
