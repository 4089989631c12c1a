"""The examples run, write figures, and reach their goals."""

import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def beside_each_other(monkeypatch):
    """Make the modules of the examples importable, as when a script runs."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield
    for name in ("swing_up", "figure_eight", "drawing"):
        sys.modules.pop(name, None)


def test_a_pole_is_swung_up_and_held_after_twelve_seconds(tmp_path, capsys):
    import swing_up

    assert swing_up.main(["--seed", "0", "--no-animation", "--out", str(tmp_path)])
    said = capsys.readouterr().out
    spent = float(said.partition("test after ")[2].partition(" s")[0])
    assert spent <= 12.0
    assert "held for the last 2 s: True" in said
    assert {path.name for path in tmp_path.iterdir()} == {"swing-up.png", "swing-up-plan.png"}


def test_a_pole_that_falls_or_a_cart_that_leaves_the_rail_is_not_held():
    import swing_up

    states = np.zeros((round(swing_up.TEST / swing_up.DT) + 1, 4))
    assert swing_up.held(states)
    assert not swing_up.held(states[:-1])  # stopped at the end of the rail
    assert swing_up.held(states + np.array([0.0, 4 * np.pi, 0.0, 0.0]))
    states[-3, 1] = 0.4
    assert not swing_up.held(states)
    move = np.array([0.5, 0.0, 0.0, 0.0])
    beyond, forces = swing_up.run(lambda state, force: state + move, np.zeros(4), 3.0, lambda state: 99.0)
    assert len(beyond) == len(forces) == 6  # 2.5 m is beyond the rail
    assert forces.max() == swing_up.FORCE


def test_both_engines_are_the_same_cart_pole():
    pytest.importorskip("mujoco")
    import swing_up

    ours, theirs = swing_up.pesn_engine(), swing_up.mujoco_engine()
    state = np.array([0.1, 3.0, -0.5, 2.0])
    for force in (3.0, -10.0, 7.5):
        np.testing.assert_allclose(ours(state, force), theirs(state, force), atol=1e-6)
        state = ours(state, force)


def test_an_animation_has_a_picture_a_row(tmp_path):
    from PIL import Image

    from drawing import animation

    path = animation(np.linspace([0.0, 3.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], 5), 0.05, 2.4, tmp_path / "run.gif")
    with Image.open(path) as picture:
        assert picture.n_frames == 5


def test_a_drone_keeps_to_its_path(tmp_path):
    import figure_eight

    away = figure_eight.main(["--learn", "30", "--fly", "4", "--out", str(tmp_path)])
    assert away < 0.3
    assert {path.name for path in tmp_path.iterdir()} == {"figure-eight.png", "figure-eight-plan.png"}
