"""The settings that all items with a reservoir share: the paper prints none of their values."""

from __future__ import annotations

from pesn.paper.settings import Setting, number, whole

__all__ = ["RESERVOIR"]

RESERVOIR = {
    "n_units": Setting("Units of the reservoir, N_h.", whole(2)),
    "spectral_radius": Setting("Spectral radius r of W.", number(0.0)),
    "leak_rate": Setting("Leak rate L.", number(0.0, 1.0, above=True)),
    "density": Setting("Sparsity fraction s: the share of W that is not zero.", number(0.0, 1.0, above=True)),
    "input_scaling": Setting("Scale of W_in.", number(0.0)),
    "feedback_scaling": Setting("Scale of W_fb.", number(0.0)),
    "bias_scaling": Setting("Scale of the bias, which the paper has none of: 0 leaves it out.", number(0.0)),
    "ridge": Setting("Ridge of the readout's least squares; the paper prints none.", number(0.0)),
    "washout": Setting("Rows at the start of a training run that the readout does not learn from.", whole(0)),
}
