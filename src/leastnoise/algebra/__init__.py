"""Residual spaces, Gram matrices and exact sums: mathematics without privacy."""
