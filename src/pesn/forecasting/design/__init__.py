"""The automatic design: reservoir, features and ridges, chosen by closed loops into rows that were held out."""

from __future__ import annotations

from pesn._support.progress import Steps
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.forecasting.dataset import Segment
from pesn.forecasting.design.candidates import Candidate, Design, Problem
from pesn.forecasting.design.search import search
from pesn.reservoir.closed_loop import Dynamics
from pesn.statespace.model import Bounds

__all__ = ["Candidate", "Design", "choose_design", "designed"]


def choose_design(segments: list[Segment], dynamics: Dynamics, bounds: Bounds, steps: Steps) -> Design | None:
    """The design for these rows; None where they are too few to choose by."""
    problem = Problem([s for s in segments if len(s.z) > 1], dynamics, bounds)
    return search(problem, steps) if problem.segments and problem.can_be_chosen_by else None


def designed(design: Design | None, n_inputs: int) -> ProbabilisticESN:
    """The network of a design; without one, a reservoir of 100 units with memory."""
    if design is None:
        return ProbabilisticESN(washout="auto", random_state=0)
    return ProbabilisticESN(**design.candidate.network(n_inputs), washout="auto", process_noise=0.0, random_state=design.seed)
