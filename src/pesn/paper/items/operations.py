"""Operation counts of the paper's two methods, run on numbers that record each operation.

>>> recount()["spline, as written"]["4"]["*/÷"]          # 4 (N − 1) D: N points make N − 1 intervals
{'ND': 4, 'N': 0, 'D': -4, '1': 0}
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

KINDS = ("*/÷", "+/−", "exp", "sqrt")
Terms = dict[str, int]  # "ND", "N", "D", "1" -> how many


class Counted:
    """A number that adds to ``tally`` what is done to it; a sign is free.

    >>> tally = Counter()
    >>> x = Counted(2.0, tally)
    >>> (x * x + 1.0).value, dict(tally)
    (5.0, {'*/÷': 1, '+/−': 1})
    """

    __slots__ = ("tally", "value")

    def __init__(self, value: float, tally: Counter[str]) -> None:
        self.value, self.tally = value, tally

    def _make(self, kind: str, value: float) -> Counted:
        self.tally[kind] += 1
        return Counted(value, self.tally)

    def __add__(self, other: Counted | float) -> Counted:
        return self._make("+/−", self.value + _plain(other))

    def __sub__(self, other: Counted | float) -> Counted:
        return self._make("+/−", self.value - _plain(other))

    def __rsub__(self, other: float) -> Counted:
        return self._make("+/−", other - self.value)

    def __mul__(self, other: Counted | float) -> Counted:
        return self._make("*/÷", self.value * _plain(other))

    def __truediv__(self, other: Counted | float) -> Counted:
        return self._make("*/÷", self.value / _plain(other))

    def __rtruediv__(self, other: float) -> Counted:
        return self._make("*/÷", other / self.value)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Counted:
        return Counted(-self.value, self.tally)

    def exp(self) -> Counted:
        """Return e to this power."""
        return self._make("exp", math.exp(self.value))

    def sqrt(self) -> Counted:
        """Return the square root of this."""
        return self._make("sqrt", math.sqrt(self.value))


def _plain(x: Counted | float) -> float:
    return float(x.value) if isinstance(x, Counted) else float(x)


def _erf(x: Counted) -> Counted:
    """Approximate erf by Abramowitz and Stegun 7.1.26, |error| ≤ 1.5e-7, as in the paper."""
    positive = x if x.value >= 0.0 else -x
    t = 1.0 / (1.0 + 0.3275911 * positive)
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    value = 1.0 - series * (-(x * x)).exp()
    return value if x.value >= 0.0 else -value


def _cubics(z: list[Counted], y: list[float], slopes: tuple[float, float]) -> list[list[Counted]]:
    """Return coefficients of (z − z_j)^k by the tridiagonal solver of Numerical Recipes (``spline``), complete ends."""
    n, tally = len(z), z[0].tally
    f = [Counted(value, tally) for value in y]
    bend, u = [Counted(-0.5, tally)], [3.0 / (z[1] - z[0]) * ((f[1] - f[0]) / (z[1] - z[0]) - slopes[0])]
    for i in range(1, n - 1):
        sig = (z[i] - z[i - 1]) / (z[i + 1] - z[i - 1])
        p = sig * bend[-1] + 2.0
        bend.append((sig - 1.0) / p)
        jump = (f[i + 1] - f[i]) / (z[i + 1] - z[i]) - (f[i] - f[i - 1]) / (z[i] - z[i - 1])
        u.append((6.0 * jump / (z[i + 1] - z[i - 1]) - sig * u[-1]) / p)
    last = 3.0 / (z[-1] - z[-2]) * (slopes[1] - (f[-1] - f[-2]) / (z[-1] - z[-2]))
    second = [(last - 0.5 * u[-1]) / (0.5 * bend[-1] + 1.0)]
    for b, v in zip(reversed(bend), reversed(u), strict=True):
        second.insert(0, b * second[0] + v)
    cubics = []
    for j in range(n - 1):
        h = z[j + 1] - z[j]
        slope = (f[j + 1] - f[j]) / h - h * (2.0 * second[j] + second[j + 1]) / 6.0
        cubics.append([f[j], slope, second[j] / 2.0, (second[j + 1] - second[j]) / (6.0 * h)])
    return cubics


def _integral(c: list[Counted], m: Counted, v: Counted, al: Counted, be: Counted) -> Counted:
    """Return Σ c_k I_k with the supplement's four integrals, every erf, exp and root computed wherever it is printed.

    Corrected: the μ that the second lacks, the factor ½ that the third lacks. ``m`` is relative to z_j.
    """
    pi = Counted(math.pi, m.tally)

    def g(x: Counted) -> Counted:
        return (-(x * x)).exp()

    i0 = 0.5 * (_erf(be) - _erf(al))
    i1 = (v / (2.0 * pi)).sqrt() * (g(al) - g(be)) + m / 2.0 * (_erf(be) - _erf(al))
    i2 = (
        v / 2.0 * (_erf(be) - _erf(al) + 2.0 / pi.sqrt() * (al * g(al) - be * g(be)))
        + m * (2.0 * v / pi).sqrt() * (g(al) - g(be))
        + m * m / 2.0 * (_erf(be) - _erf(al))
    )
    i3 = (
        (2.0 * v * v * v / pi).sqrt() * ((1.0 + al * al) * g(al) - (1.0 + be * be) * g(be))
        + 3.0 * v * m / (2.0 * pi.sqrt()) * (pi.sqrt() * (_erf(be) - _erf(al)) + 2.0 * al * g(al) - 2.0 * be * g(be))
        + 3.0 * m * m * (v / (2.0 * pi)).sqrt() * (g(al) - g(be))
        + m * m * m / 2.0 * (_erf(be) - _erf(al))
    )
    return c[0] * i0 + c[1] * i1 + c[2] * i2 + c[3] * i3


def _mesh(n: int, low: float, high: float, tally: Counter[str]) -> list[Counted]:
    a, b, last = (Counted(value, tally) for value in (low, high, n))
    return [a + j * (b - a) / (last - 1.0) for j in range(n)]


def _splines(z: list[Counted]) -> list[list[list[Counted]]]:
    f = [math.tanh(point.value) for point in z]
    ends = [1.0 - f[e] ** 2 for e in (0, -1)]
    return [
        _cubics(z, [value**k for value in f], (k * f[0] ** (k - 1) * ends[0], k * f[-1] ** (k - 1) * ends[1])) for k in (1, 2)
    ]


Lines = dict[str, Counter[str]]


def count_spline(n: int, mean: Sequence[float], var: Sequence[float]) -> tuple[list[tuple[float, float]], Lines]:
    """Count Algorithm 1 on n points of [−10, 10]: (mean, variance) of each unit, and operations by line. No tails, as printed."""
    lines: Lines = {name: Counter() for name in ("1", "2", "4", "5", "6")}
    z = _mesh(n, -10.0, 10.0, lines["1"])
    first, second = _splines(_wrap(lines["2"], *z))
    moments = []
    for m, v in zip(mean, var, strict=True):
        sums = [Counted(0.0, lines["5"]), Counted(0.0, lines["6"])]
        for j in range(n - 1):
            mu, sigma = _wrap(lines["4"], m, v)
            al, be = ((point - mu) / (2.0 * sigma).sqrt() for point in _wrap(lines["4"], z[j], z[j + 1]))
            for k, (name, c) in enumerate((("5", first[j]), ("6", second[j]))):
                shift, s2, a, b = _wrap(lines[name], m - z[j].value, v, al, be)
                sums[k] = sums[k] + _integral(_wrap(lines[name], *c), shift, s2, a, b)
        (a1,) = _wrap(lines["6"], sums[0])
        moments.append((a1.value, (sums[1] - a1 * a1).value))
    return moments, lines


def _wrap(tally: Counter[str], *numbers: Counted | float) -> list[Counted]:
    return [Counted(_plain(x), tally) for x in numbers]


def count_analytic(mean: Sequence[float], var: Sequence[float]) -> tuple[list[tuple[float, float]], Lines]:
    """Count the two one-line formulas, the mean computed again inside the variance, as printed."""
    lines: Lines = {"mean": Counter(), "variance": Counter()}

    def center(m: Counted, v: Counted) -> Counted:
        pi, four = _wrap(m.tally, math.pi, 4.0)
        return 2.0 / (1.0 + (-(m / (3.0 / (pi * pi) * v + 1.0 / four).sqrt())).exp()) - 1.0

    moments = []
    for m, v in zip(mean, var, strict=True):
        value = center(*_wrap(lines["mean"], m, v))
        mu, sigma, pi = _wrap(lines["variance"], m, v, math.pi)
        height = 2.0 / (2.0 * pi * (2.0 / pi + sigma)).sqrt()
        again = center(mu, sigma)
        spread = 1.0 - height * (-(mu * mu / (2.0 * (2.0 / pi + sigma)))).exp() - again * again
        moments.append((value.value, spread.value))
    return moments, lines


def recount() -> dict[str, dict[str, dict[str, Terms]]]:
    """Return the terms by method, line and operation: exact, as every count is p·ND + q·N + r·D + s, fixed by four sizes."""
    mean, var = [0.5, -1.0], [0.2, 0.3]
    methods: dict[str, Callable[[int, int], Lines]] = {
        "spline, as written": lambda n, d: count_spline(n, mean[:d], var[:d])[1],
        "analytic": lambda n, d: count_analytic(mean[:d], var[:d])[1],
    }
    result: dict[str, dict[str, dict[str, Terms]]] = {}
    for method, count in methods.items():
        at = {(n, d): count(n, d) for n in (8, 9) for d in (1, 2)}
        for tallies in at.values():
            tallies["all"] = sum(tallies.values(), Counter())
        result[method] = {}
        for line in at[8, 1]:
            result[method][line] = {}
            for kind in KINDS:
                low, high, low2, high2 = (at[size][line][kind] for size in ((8, 1), (9, 1), (8, 2), (9, 2)))
                nd = high2 - low2 - high + low
                n, d = high - low - nd, low2 - low - 8 * nd
                result[method][line][kind] = {"ND": nd, "N": n, "D": d, "1": low - 8 * nd - 8 * n - d}
    return result


def words(terms: Terms) -> str:
    """Format terms as one writes them.

    >>> words({"ND": 4, "N": 0, "D": -4, "1": 2}), words({"ND": 0, "N": 0, "D": -1, "1": 0}), words({"ND": 0})
    ('4ND − 4D + 2', '−D', '0')
    """
    parts = [
        (k, f"{'' if abs(k) == 1 and name != '1' else abs(k)}{'' if name == '1' else name}") for name, k in terms.items() if k
    ]
    text = "".join(f" {'−' if k < 0 else '+'} {part}" for k, part in parts)
    return text.removeprefix(" + ").replace(" − ", "−", 1) if text.startswith(" −") else text.removeprefix(" + ") or "0"
