"""Small workloads as matrices, and what floors of local mechanisms are made of: their weights and witnesses."""

import numpy as np

from leastnoise.theory.ladder import Ladder, weighted
from leastnoise.theory.tails import Error

PARITIES = np.array([[(-1.0) ** bin(s & x).count("1") for x in range(8)] for s in range(1, 8)])
WORKLOADS = {
    "one query": np.array([[1.0, 0.0]]),
    "histogram": np.eye(5),
    "cdf": np.tri(9),
    "parities": PARITIES,
    "unlike ranges": np.array([[1.0, 5.0, 2.0], [0.1, 0.0, 0.2]]),
    "random": np.random.default_rng(3).random((6, 5)),
}


def best(W, kind="worst"):
    return weighted(W, np.ones(len(W)), np.ones(W.shape[1]), kind)


def witness(W, height):
    ladder = Ladder(best(W), Error("max"))
    rung = int(np.floor(np.log(height) / np.log(1.25)))
    return ladder.witness(rung)
