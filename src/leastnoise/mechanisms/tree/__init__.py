"""Tree plans: noise in which children sum to their parent and every node has a chosen variance."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.domain.tree import Tree
    from leastnoise.mechanisms.tree.accuracy import Accuracy, AccurateCascade, accurate_cascade
    from leastnoise.mechanisms.tree.best import Certificate, Demand, best_cascade, certificate, least_error, node_rows
    from leastnoise.mechanisms.tree.closed import Law
    from leastnoise.mechanisms.tree.covariance import covariance_cost
    from leastnoise.mechanisms.tree.errors import TreeErrors, largest_range, simulated_worst, tree_errors
    from leastnoise.mechanisms.tree.integer import extra_variance, integer_noise
    from leastnoise.mechanisms.tree.invariants import Invariants
    from leastnoise.mechanisms.tree.plan import TreePlan, tree_plan
    from leastnoise.mechanisms.tree.posteriors import Pooled, Posterior, pool, posterior
    from leastnoise.mechanisms.tree.release import TreeRelease
    from leastnoise.mechanisms.tree.replace import replace_cost
    from leastnoise.mechanisms.tree.run import tree_release
    from leastnoise.mechanisms.tree.sample import gaussian_noise
    from leastnoise.mechanisms.tree.targets import Cascade, Spread, cost

__all__ = [
    "Accuracy",
    "AccurateCascade",
    "Cascade",
    "Certificate",
    "Demand",
    "Invariants",
    "Law",
    "Pooled",
    "Posterior",
    "Spread",
    "Tree",
    "TreeErrors",
    "TreePlan",
    "TreeRelease",
    "accurate_cascade",
    "best_cascade",
    "certificate",
    "cost",
    "covariance_cost",
    "extra_variance",
    "gaussian_noise",
    "integer_noise",
    "largest_range",
    "least_error",
    "node_rows",
    "pool",
    "posterior",
    "replace_cost",
    "simulated_worst",
    "tree_errors",
    "tree_plan",
    "tree_release",
]

export_lazily(__name__)
