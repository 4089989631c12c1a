"""Diagnostics of reservoirs: memory and processing capacity, echo state index, Lyapunov exponents, effective rank.

>>> import pesn
>>> esn = pesn.EchoStateNetwork(50, random_state=0)
>>> pesn.diagnostics.echo_state_index(esn, rng=0).index        # 1: the initial state is forgotten
1
"""

from pesn.diagnostics.driven import (
    EchoStateIndex,
    EffectiveRank,
    MemoryCapacity,
    ProcessingCapacity,
    echo_state_index,
    effective_rank,
    information_processing_capacity,
    memory_capacity,
)
from pesn.diagnostics.lyapunov import LyapunovExponents, lyapunov_exponents

__all__ = [
    "EchoStateIndex",
    "EffectiveRank",
    "LyapunovExponents",
    "MemoryCapacity",
    "ProcessingCapacity",
    "echo_state_index",
    "effective_rank",
    "information_processing_capacity",
    "lyapunov_exponents",
    "memory_capacity",
]
