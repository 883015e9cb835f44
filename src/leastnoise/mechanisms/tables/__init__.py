"""Plans: every table of a workload measured once, in residual spaces."""
