"""Verdicts on the claims about predictions: of one draw, and over the draws.

>>> grade_updating(frozen=1.0, before=0.9, future=0.2)
Draw(outcome='corrected', value=0.9)
>>> grade_same_weights(1e-9, 0.12).outcome, grade_same_weights(1e-9, 1e-3).outcome, grade_same_weights(0.2, 0.2).outcome
('corrected', 'holds', 'does not hold')
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pesn import Gaussian, ProbabilisticESN
from pesn._support.types import Array
from pesn.paper.claims import Draw, Record, Verdict, grade, median_range, over_draws
from pesn.paper.items import robots
from pesn.paper.items.prediction import FORMS, WIDE, Compared, Study, leaving, steps_until, within

_FEW = 0.2  # of what is wrong: what is so rare is not the rule
MOST = 0.9  # of all cases: what holds in so many is true of them
_LEAVES = 2.0, 8.0  # steps that pass for the paper's "4 to 5": from half as many to a half more than twice as many
_ALIKE = 2.0 / 3.0, 1.5  # deviations that grow alike
_NEEDED = 0.7  # of an error: what lowers it by 30 % is needed


def steps_text(steps: Sequence[int], total: int) -> str:
    """Format the median with its range; what never leaves is "not in 20", and a median of 19.5 is 19.5.

    >>> steps_text([4, 5, 9], 20), steps_text([20, 20], 20), steps_text([19, 20], 20)
    ('after 5 (4–9) steps', 'not in 20 steps', 'after 19.5 (19–>20) steps')
    """
    if min(steps) >= total:
        return f"not in {total} steps"
    low, high = min(steps), max(steps)
    middle = float(np.median(steps))
    among = "" if low == high else f" ({low}–{'>' if high >= total else ''}{high})"
    return f"after {'>' if middle >= total else ''}{middle:g}{among} steps"


# ---------------------------------------------------------------- one draw


def grade_cross_terms(ratio: Array) -> Draw:
    """Grade standard deviations without covariances ÷ those of samples: where they differ by 10 %, how often are they below?"""
    below, above = float(np.mean(ratio < 1.0 - WIDE)), float(np.mean(ratio > 1.0 + WIDE))
    share = below / (below + above) if below + above else 0.0
    return Draw(grade(share >= MOST, share > _FEW), share)


def grade_single_step(one: Compared) -> Draw:
    """Grade single steps: within 0.1 σ and 10 % in nine of ten cases; corrected where that is so of more than half of them."""
    share = within(one)
    return Draw(grade(share >= MOST, share > 0.5), share)


def grade_multi_step(steps: Sequence[int], ratio: Array) -> Draw:
    """Grade two halves: the mean leaves after about 4 to 5 steps; the standard deviations grow alike, within a factor 1.5.

    One of them alone is a correction.
    """
    median = float(np.median(steps))
    leaves, alike = _LEAVES[0] <= median <= _LEAVES[1], _alike(ratio) >= MOST
    return Draw(grade(leaves and alike, leaves or alike), median)


def _alike(ratio: Array) -> float:
    return float(np.mean((ratio >= _ALIKE[0]) & (ratio <= _ALIKE[1])))


def steps_within_band(shares: Sequence[Array] | Array) -> list[int]:
    """Return for each segment (segments, steps, states) the steps for which mean ± 2 σ holds 90 to 99 % of the samples.

    A Gaussian has 95 % there.
    """
    return [steps_until(((one >= 0.90) & (one <= 0.99)).all(axis=1)) for one in shares]


def grade_twenty_steps(diagonal: Array, full: Array) -> Draw:
    """Grade the shares of samples in mean ± 2 σ: within range for all steps by the paper's form, or by the full covariance alone.

    The claim is one of every stretch, the correction one of three in four: the value is the least steps of the paper's form.
    """
    total = diagonal.shape[1]
    kept, ours = float(min(steps_within_band(diagonal))), sorted(steps_within_band(full))[len(full) // 4]
    return Draw(grade(kept >= total, ours >= total), kept)


def grade_updating(frozen: float, before: float, future: float) -> Draw:
    """Grade mean errors with weights never updated, updated before the origin, and updated inside the forecast."""
    ratio = before / frozen
    return Draw(grade(ratio <= _NEEDED, future <= _NEEDED * frozen), ratio)


# ---------------------------------------------------------------- over the draws


def judge(levels: Sequence[Study], changes: Sequence[Study], velocities: Sequence[int]) -> list[Verdict]:
    """Judge the five claims by networks that learn the velocities, as the paper's do; changes are mentioned beside."""
    return [
        _cross_terms(levels),
        _single_step(levels, changes),
        _multi_step(levels),
        _twenty(levels),
        _updating(levels, changes, velocities),
    ]


def grade_dimensions(single: float, multi: float, full: float) -> Draw:
    """Grade the shares of single-step outputs and of multi-step standard deviations that agree with the samples.

    One of them is half of the claim; where only the full covariance's deviations agree, it takes the covariances: corrected.
    """
    kept = [share >= MOST for share in (single, multi, full)]
    return Draw(grade(all(kept[:2]), any(kept)), multi)


def judge_dimensions(studies: Sequence[Study]) -> Verdict:
    """Judge whether variances alone suffice for a system of more states; the full covariance beside."""
    single = [within(found.single) for found in studies]
    multi = {form: [_alike(_ratios(found, form)) for found in studies] for form in FORMS}

    def percent(some: Sequence[float]) -> str:
        return f"{100 * np.median(some):.0f} % ({100 * min(some):.0f} to {100 * max(some):.0f} %)"

    d, m = (studies[0].multi["before"][0].mean.shape[1], studies[0].single.mean.shape[1])
    draws = [grade_dimensions(*shares) for shares in zip(single, multi["diagonal"], multi["full"], strict=True)]
    values = {"d": d, "m": m, "single": percent(single), **{form: percent(some) for form, some in multi.items()}}
    return over_draws("higher-dimensions", draws, values, limits=[MOST])


def _ratios(found: Study, form: str) -> Array:
    """Return standard deviations ÷ the samples', (segments, steps, states), weights updated before each segment."""
    return np.array([one.ratio(form) for one in found.multi["before"]])


def _cross_terms(studies: Sequence[Study]) -> Verdict:
    ratios = []
    for found in studies:
        every = [found.single, *(one for some in found.multi.values() for one in some)]
        ratios.append(np.concatenate([one.ratio("diagonal").ravel() for one in every]))
    ratio = np.concatenate(ratios)
    below, above = 100 * np.mean(ratio < 1.0 - WIDE), 100 * np.mean(ratio > 1.0 + WIDE)
    values = {"least": ratio.min(), "most": ratio.max(), "below": below, "above": above}
    return over_draws("cross-terms-underestimate", map(grade_cross_terms, ratios), values, limits=[_FEW, MOST])


def _single_step(levels: Sequence[Study], changes: Sequence[Study]) -> Verdict:
    draws = [grade_single_step(found.single) for found in levels]
    off, ratio = (
        np.concatenate([getattr(found.single, what)("diagonal") for found in levels]) for what in ("mean_error", "ratio")
    )
    shares, beside = ([100 * within(found.single) for found in studies] for studies in (levels, changes))
    values = {"off": off.max(), "least": ratio.min(), "most": ratio.max()}
    values |= {"low": min(shares), "high": max(shares), "low_beside": min(beside), "high_beside": max(beside)}
    return over_draws("single-step", draws, values, limits=[0.5, MOST])


def _multi_step(studies: Sequence[Study]) -> Verdict:
    steps = {form: [leaving(found.multi["before"], form)[0] for found in studies] for form in FORMS}
    ratios = [_ratios(found, "diagonal") for found in studies]
    ratio = np.concatenate(ratios)
    total = ratio.shape[1]
    leave = {form: steps_text([step for draw in some for step in draw], total) for form, some in steps.items()}
    values = {**leave, "least": ratio.min(), "most": ratio.max(), "alike": 100 * _alike(ratio), "pass": _LEAVES}
    draws = [grade_multi_step(left, wide) for left, wide in zip(steps["diagonal"], ratios, strict=True)]
    return over_draws("multi-step-mean", draws, values, limits=_LEAVES)


def _twenty(studies: Sequence[Study]) -> Verdict:
    shares = {form: [np.array([one.shares[form] for one in found.multi["before"]]) for found in studies] for form in FORMS}
    total, values = shares["full"][0].shape[1], dict[str, object]()
    for form, some in shares.items():
        kept, inside = [step for draw in some for step in steps_within_band(draw)], 100 * np.concatenate(some)
        values[form] = [np.median(kept), min(kept), max(kept), inside.min(), inside.max()]
    draws = [grade_twenty_steps(diagonal, full) for diagonal, full in zip(shares["diagonal"], shares["full"], strict=True)]
    return over_draws("twenty-steps", draws, {**values, "total": total}, limits=[float(total)])


def _updating(levels: Sequence[Study], changes: Sequence[Study], velocities: Sequence[int]) -> Verdict:
    # the velocities, each in its own deviation: positions hardly err in so short a time and would only thin the mean
    def wrong(found: Study) -> tuple[float, float, float]:
        never, before, future = (
            found.errors[way][..., list(velocities)].mean(axis=(1, 2)) for way in ("never", "before", "future")
        )
        known = ~np.isnan(future)
        return float(never.mean()), float(before.mean() / never.mean()), float(future[known].mean() / never[known].mean())

    frozen, before, future = (list(part) for part in zip(*map(wrong, levels), strict=True))
    beside = [ratio for _, ratio, _ in map(wrong, changes)]
    times = {"before": _times(before), "future": _times(future), "beside": _times(beside)}
    draws = [grade_updating(1.0, *ratios) for ratios in zip(before, future, strict=True)]
    return over_draws("needs-updating", draws, {"least": min(frozen), "most": max(frozen), **times}, limits=[_NEEDED])


def _times(values: Sequence[float]) -> str:
    return f"{median_range(values, '.2f')} times"


# ---------------------------------------------------------------- the weights of Monte Carlo


_START = 0.5  # deviation of the random starts
_UPDATED = 300  # rows over which the weights are updated
_SAME = 0.01  # of the outputs' deviation: nearer than that, predictions are called the same


def learn_weights(p: Record, seed: int) -> tuple[float, float]:
    """Measure how far predictions are apart with weights that were trained, and then updated, by either network.

    The PESN is trained as Algorithm 2 has it, from a Gaussian start on the means of its units; a deterministic network from a
    random start. Then the PESN's weights are updated by the rows as they are, a deterministic network's by rows with errors, as
    a sample has them.
    """
    forecaster, runs = robots.learn(robots.CART_POLE, p, seed)
    velocities, rng = list(robots.CART_POLE.velocities), np.random.default_rng([seed, 2])
    scaled = [forecaster.standardize(runs[k].states, runs[k].inputs) for k in range(len(runs))]
    inputs, targets = [np.hstack(pair)[:-1] for pair in scaled], [y[1:, velocities] for y, _ in scaled]
    n, lengths = p["n_units"], [len(z) for z in inputs[:-1]]

    def train(mean: Array, var: float) -> ProbabilisticESN:
        start = Gaussian(mean, var=np.full(n, var))
        esn = robots.network(p, inputs[0].shape[1], seed, initial_state=start)
        return esn.fit(np.vstack(inputs[:-1]), np.vstack(targets[:-1]), lengths=lengths).set_params(initial_state="zero")

    both = train(np.zeros(n), _START**2), train(_START * rng.standard_normal((n,)), 0.0)
    rows, after = inputs[-1], min(_UPDATED, len(inputs[-1]) // 2)

    def apart() -> float:
        one, two = (np.asarray(esn.predict(rows))[after:] for esn in both)
        return float(np.sqrt(np.mean(np.square(one - two)) / np.mean(np.square(targets[-1]))))

    before = apart()
    for esn, error in zip(both, (0.0, p["input_std"]), strict=True):
        esn.partial_fit(rows[:after] + error * rng.standard_normal((after, rows.shape[1])), targets[-1][:after])
    return before, apart()


def grade_same_weights(trained: float, updated: float) -> Draw:
    """Grade one draw: holds where both ways give the same weights, corrected where only training does."""
    return Draw(grade(max(trained, updated) <= _SAME, trained <= _SAME), updated)


def judge_same_weights(draws: Sequence[tuple[float, float]], p: Record) -> Verdict:
    """Judge what each draw's networks learned."""
    trained, updated = ([np.median(some), some.min(), some.max()] for some in np.transpose(draws))
    values = {**p, "trained": trained, "updated": updated, "rows": _UPDATED}
    return over_draws("same-weights", [grade_same_weights(*draw) for draw in draws], values, limits=(_SAME,))
