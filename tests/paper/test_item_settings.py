"""Claim: every setting of every item is documented, checked and in its place; what differs from the default is known."""

import keyword
import math

import pytest

from pesn import paper
from pesn.paper import item_settings as settings
from pesn.paper.item_settings import choose, format_value, parse_value


@pytest.mark.parametrize("name", paper.ITEMS)
def test_every_parameter_is_a_setting_with_a_meaning(name):
    item = paper.get(name)
    for quick in (True, False):
        parameters = item.parameters(quick)
        assert set(parameters) == set(item.settings)
        # The defaults are values that a reader could give, also in the words of a command line.
        assert choose(name, item.settings, parameters, parameters) == parameters
        assert choose(name, item.settings, {}, {k: parse_value(format_value(v)) for k, v in parameters.items()}) == parameters
    for key, setting in item.settings.items():
        assert key.isidentifier()
        assert not keyword.iskeyword(key)
        assert setting.meaning[0].isupper() or setting.meaning.startswith("M_e")
        assert setting.meaning.endswith(".")


@pytest.mark.parametrize(("kind", "good", "bad"), [
    (settings.whole(1), [(3, 3)], [0, 2.0, True, "3", None]), (settings.whole(1, 8), [(8, 8)], [9]),
    (settings.number(0.0, 1.0), [(0, 0.0), (1, 1.0)], [-0.1, 1.1, math.nan, math.inf, "x", True]),
    (settings.POSITIVE, [(1e-9, 1e-9)], [0.0, -1.0]), (settings.flag(), [(True, True)], [1, "yes"]),
    (settings.choice("tanh", "swish"), [("swish", "swish")], ["relu", 1]),
    (settings.or_word(settings.number(0.0), "auto"), [("auto", "auto"), (1, 1.0)], ["automatic", -1]),
    (settings.several(settings.whole(1)), [([1, 2], [1, 2]), ((3,), [3]), (4, [4])], [[], [0], "12", [1.5], {"a": 1}]),
    (settings.several(settings.whole(1), 2), [([1, 2], [1, 2])], [[1], [3, 3]]),
    (settings.ENDS, [([-1, 1], [-1.0, 1.0])], [[1, -1], [1, 1], [1], [1, 2, 3], 1, "12"]),
    (settings.MESH, [([-1, 1, 11], [-1.0, 1.0, 11])], [[-1, 1, 11.5], [-1, 1, 2]]),
])  # fmt: skip
def test_kinds_accept_the_values_they_describe(kind, good, bad):
    for value, used in good:
        assert kind.accept(value) == used
        assert type(kind.accept(value)) is type(used)
    for value in bad:
        with pytest.raises(ValueError, match=r"must be a|must be one|must be true"):
            choose("x", {"s": settings.Setting("S.", kind)}, {"s": 0}, {"s": value})


def test_errors_name_similar_settings_and_expected_values():
    washout = paper.get("washout")
    given = washout.name, washout.settings, washout.parameters(True)
    with pytest.raises(ValueError, match=r"leak_rate must be a number, above 0, 1 or less, got 1\.5"):
        choose(*given, {"leak_rate": 1.5})
    with pytest.raises(ValueError, match=r"zzz is no setting of washout\. `pesn list washout`"):
        choose(*given, {"zzz": 1})


def test_run_accepts_custom_settings():
    frame = paper.run("error-bound", quick=True, points=[11, 21], means=5, variances=0.5).frame
    assert (sorted(set(frame["points"])), len(frame), set(frame["variance"])) == ([11, 21], 2 * 5, {0.5})


@pytest.mark.parametrize(("given", "error", "message"), [
    ({"quick": "yes"}, TypeError, "quick must be True or False"), ({"seed": -1}, ValueError, "seed must be 0 or more"),
    ({"jobs": 0}, ValueError, "jobs must be 1 or more"),
    ({"point": 3}, ValueError, "point is no setting of error-bound; did you mean points"),
])  # fmt: skip
def test_run_rejects_wrong_arguments(given, error, message):
    with pytest.raises(error, match=message):
        paper.run("error-bound", **given)
    with pytest.raises(ValueError, match="did you mean 'error-bound'"):
        paper.run("bound")
