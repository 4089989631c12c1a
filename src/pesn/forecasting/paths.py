"""The way of a closed loop over the next rows: in closed form while that can be trusted, by members where it cannot.

A closed form is right as long as the loop is nearly linear over the width of the Gaussian. Two things tell that it is not: the
mean has parted from that of the loop without any uncertainty by a share of the deviation; or what the weights leave open, which
is followed to first order, has grown to a share of the deviation of y. From there on members take the place of the moments.
They start with the forecast, from the same Gaussian.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.reservoir.closed_loop import ClosedLoop
from pesn.statespace import Certain, Ensemble, GaussianState, MirroredDraws, Path, concatenate, rollout

__all__ = ["along_the_mean", "path_ahead"]

_APART = 0.2  # deviations between the two means
_WIDE = 0.1  # deviations of y in training
_FEWER, _MORE, _LONG = 8, 2, 100  # times fewer pairs of members of each of a batch; and more over so many steps, else half
_MOST_NUMBERS, _LEAST_PAIRS = 2**18, 32  # of all members of one forecast together, where this leaves enough of them
_CARRIED = 100  # entries beside the units, above which a batch goes by members alone
_CHECKED = 50  # steps after which it is asked
_AT_ONCE = 1000  # steps whose features are held at a time


def path_ahead(
    loop: ClosedLoop, state: GaussianState, inputs: Array, input_var: Array | None = None, *, joint: bool = False
) -> Path:
    """The next rows from a state whose cells have moved.

    Parameters
    ----------
    loop
        Of which ``members_ahead`` says whether members may take over.
    state
        One, or a batch.
    inputs, input_var
        Known inputs (…, T, m) of each step, with variances where they are uncertain.
    joint
        Keep the covariances between all rows.
    """
    if loop.form == "diagonal":
        return rollout(loop.model, state, inputs, input_var, moved=True, joint=joint)
    mean, along = along_the_mean(loop, state, inputs)
    if not loop.members_ahead or loop.form == "ensemble":
        return rollout(loop.ahead, state, inputs, input_var, moved=True, joint=joint, along=along)
    if loop.form == "low-rank" and loop.carried > _CARRIED and state.mean.ndim > 1:
        return _by_members(loop, state, inputs, input_var, joint, along)
    path, beyond = _while_trusted(loop, state, inputs, input_var, joint, mean, along)
    which = np.asarray(beyond.any(axis=-1))
    if not which.any():
        return path
    return _spliced(path, _by_members(loop, state, inputs, input_var, joint, along, which), beyond, which)


def along_the_mean(loop: ClosedLoop, state: GaussianState, inputs: Array) -> tuple[Array, Array | None]:
    """The way of the mean alone (…, T, d), and what the directions of the weights do to each step of it (…, T, r)."""
    certain, weights = loop.certain, "weights" in loop.parts
    model = certain.model
    if weights:
        model = replace(model, fast=None, probe=lambda now: {"features": loop.moves.means(now.mean)})
    start = loop.as_certain(state).mean
    now: GaussianState = Certain(start, state.carried, np.zeros((*start.shape, 0)))
    means, features = [], []
    for first in range(0, inputs.shape[-2], _AT_ONCE):
        path = rollout(model, now, inputs[..., first : first + _AT_ONCE, :], moved=not first)
        now = path.state
        means.append(path.mean)
        if weights:
            features.append(path.probed["features"])
    mean = np.concatenate(means, axis=-2)
    return mean, loop.weight_errors.along(np.concatenate(features, axis=-2)) if weights else None


def _while_trusted(
    loop: ClosedLoop, state: GaussianState, inputs: Array, input_var: Array | None, joint: bool, mean: Array, along: Array | None
) -> tuple[Path, npt.NDArray[np.bool_]]:
    """The closed form, and from which step on (…, T) it is not to be trusted: where that is so of all, it does not go on."""
    steps, batch = inputs.shape[-2], state.mean.shape[:-1]
    size = steps if joint else _CHECKED
    paths, beyond, now = [], np.zeros((*batch, steps), bool), state
    for first in range(0, steps, size):
        rows = slice(first, first + size)
        u, var, part = (None if a is None else a[..., rows, :] for a in (inputs, input_var, along))
        assert u is not None
        path = rollout(loop.ahead, now, u, var, moved=not first, joint=joint, along=part)
        paths.append(path)
        now = path.state
        beyond[..., rows] = _not_trusted(loop, path, mean[..., rows, :]) | beyond[..., max(first - 1, 0), None]
        if beyond[..., rows][..., -1].all() and rows.stop < steps:
            beyond[..., rows.stop :] = True
            paths.append(_blank(path, steps - rows.stop))
            break
    return concatenate(paths), beyond


def _blank(path: Path, steps: int) -> Path:
    """``steps`` rows in the form of a path, to be filled."""
    time = path.mean.ndim - 2

    def blank(a: Any) -> Any:
        return np.zeros((*a.shape[:time], steps, *a.shape[time + 1 :]), a.dtype)

    parts = {name: blank(part) for name, part in path.parts.items()}
    return path._replace(mean=blank(path.mean), cov=blank(path.cov), parts=parts, left=blank(path.left))


def _not_trusted(loop: ClosedLoop, path: Path, mean: Array) -> npt.NDArray[np.bool_]:
    """From which step on (…, T) the closed form is not to be trusted."""
    std = np.sqrt(np.maximum(np.diagonal(path.cov, axis1=-2, axis2=-1), np.finfo(float).tiny))
    apart = (np.abs(path.mean - mean) > _APART * std).any(axis=-1)
    wide = (np.sqrt(path.parts["weights"]) > _WIDE * loop.guard.width).any(axis=-1) if loop.guard is not None else False
    return np.asarray(np.logical_or.accumulate(apart | wide, axis=-1))


def _by_members(
    loop: ClosedLoop, state: GaussianState, inputs: Array, input_var: Array | None,
    joint: bool, along: Array | None, which: Any = ...,
) -> Path:  # fmt: skip
    """The way of members, two by two on opposite sides of the mean, of those ``which`` of a batch are wanted."""
    batch = state.mean.shape[:-1]
    times = 1.0 / _FEWER if batch else _MORE if inputs.shape[-2] <= _LONG else 0.5
    pairs = max(min(int(times * loop.n_members), max(_MOST_NUMBERS // (2 * loop.layout.size), _LEAST_PAIRS)), 1)
    away = state.sample(pairs, np.random.default_rng(0)) - state.mean[..., None, :]
    members = state.mean[..., None, :] + np.concatenate([away, -away], axis=-2)
    given: list[Any] = [inputs, input_var, along]
    if batch:
        members = members[which]
        given = [None if a is None else np.broadcast_to(a, (*batch, *a.shape[-2:]))[which] for a in given]
    start = Ensemble(members, state.carried, MirroredDraws(0, sobol=True))
    return rollout(loop.ahead, start, given[0], given[1], moved=True, joint=joint, along=given[2])


def _spliced(path: Path, other: Path, beyond: npt.NDArray[np.bool_], which: npt.NDArray[np.bool_]) -> Path:
    """``path`` with what members say, ``other``, in the place of its steps ``beyond``, for ``which`` of a batch."""
    batch = which.shape
    here = beyond[which] if batch else beyond

    def spliced(own: Any, theirs: Any) -> Any:
        result, places = own.copy(), here.reshape(*here.shape, *(1,) * (theirs.ndim - here.ndim))
        if batch:
            result[which] = np.where(places, theirs, own[which])
            return result
        return np.where(places, theirs, own)

    cov = spliced(path.cov, other.cov)
    parts = {name: spliced(part, other.parts[name]) for name, part in path.parts.items()}
    found = path._replace(mean=spliced(path.mean, other.mean), cov=cov, parts=parts, left=spliced(path.left, other.left))
    if other.joint is None:
        return found
    assert not batch
    # how rows go together is the members'; deviations are those of each row
    std, theirs = (np.sqrt(np.einsum("kii->ki", one)) for one in (cov, other.cov))
    ratio = np.divide(std, theirs, out=np.zeros_like(std), where=theirs > 0.0)
    between = other.joint * ratio[:, :, None, None] * ratio
    certain = ~np.einsum("kiki->ki", between).astype(bool)  # also by underflow
    between[certain] = 0.0
    between[:, :, certain] = 0.0
    return found._replace(joint=between)
