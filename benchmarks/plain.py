"""The paper's spline as one would write it, for the races in this folder."""

from pesn.paper.items.error_time import plain_spline

__all__ = ["plain_spline"]
