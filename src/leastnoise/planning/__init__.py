"""From a workload and a budget to a certified plan."""
