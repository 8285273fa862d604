"""Every estimator on every data set: a plan of cells, one record per finished cell."""

from firstsight.benchmarking.comparison import benchmark

__all__ = ["benchmark"]
