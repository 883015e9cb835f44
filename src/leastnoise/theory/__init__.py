"""What researchers ask: how hard queries are (norms), how many people they take (bounds), learning from devices."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.planning.fourier import TableWeight, fourier_factorization, fourier_weights
    from leastnoise.strategies.bounds import eta, zeta
    from leastnoise.strategies.norms import (
        ApproximateNorm,
        Certified,
        Norm,
        gamma_2,
        gamma_2_approximate,
        gamma_F,
        gamma_r,
    )
    from leastnoise.theory.bounds import sample_complexity, sample_complexity_curves, sample_complexity_curves_of
    from leastnoise.theory.complexity import ANY, EXACT, GAUSSIAN, SEPARATE, UNBIASED, SampleComplexity
    from leastnoise.theory.dual_norm import DualNorm, gamma_2_dual
    from leastnoise.theory.expected import expected_largest_people
    from leastnoise.theory.inclusion import Conjunctions, conjunction_queries
    from leastnoise.theory.learning import (
        Learned,
        conjunctions,
        examples_needed,
        learn,
        learning_plan,
        parities,
        stumps,
        thresholds,
    )
    from leastnoise.theory.learning_floors import examples_at_least
    from leastnoise.theory.margin import margin_complexity
    from leastnoise.theory.norm_curve import gamma_2_curve
    from leastnoise.theory.question import Question
    from leastnoise.theory.symmetric import SymmetricQueries, marginal_queries, parity_queries

__all__ = [
    "ANY",
    "EXACT",
    "GAUSSIAN",
    "SEPARATE",
    "UNBIASED",
    "ApproximateNorm",
    "Certified",
    "Conjunctions",
    "DualNorm",
    "Learned",
    "Norm",
    "Question",
    "SampleComplexity",
    "SymmetricQueries",
    "TableWeight",
    "conjunction_queries",
    "conjunctions",
    "eta",
    "examples_at_least",
    "examples_needed",
    "expected_largest_people",
    "fourier_factorization",
    "fourier_weights",
    "gamma_2",
    "gamma_2_approximate",
    "gamma_2_curve",
    "gamma_2_dual",
    "gamma_F",
    "gamma_r",
    "learn",
    "learning_plan",
    "margin_complexity",
    "marginal_queries",
    "parities",
    "parity_queries",
    "sample_complexity",
    "sample_complexity_curves",
    "sample_complexity_curves_of",
    "stumps",
    "thresholds",
    "zeta",
]  # fmt: skip

export_lazily(__name__)
