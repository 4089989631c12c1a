"""Echo state networks as scikit-learn estimators: the deterministic and the probabilistic one."""

from pesn.esn.network import EchoStateNetwork
from pesn.esn.probabilistic import ProbabilisticESN

__all__ = ["EchoStateNetwork", "ProbabilisticESN"]
