"""SQL over a release: sums of counts with their standard errors, and anything else from the noisy numbers."""
