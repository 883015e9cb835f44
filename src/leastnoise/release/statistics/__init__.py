"""Means, quantiles, distribution functions and simultaneous intervals."""
