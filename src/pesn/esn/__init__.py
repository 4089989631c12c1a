"""Echo state networks as scikit-learn estimators: the deterministic one, the probabilistic one, and the classifier."""

from pesn.esn.classifier import ReservoirClassifier
from pesn.esn.network import EchoStateNetwork
from pesn.esn.probabilistic import ProbabilisticESN

__all__ = ["EchoStateNetwork", "ProbabilisticESN", "ReservoirClassifier"]
