"""Best estimates: a distribution fitted to a release, at no privacy cost."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.estimate.closest import Closest
    from leastnoise.estimate.estimate import Estimate, Guess
    from leastnoise.estimate.evaluation import Evaluation, evaluate
    from leastnoise.estimate.run import fit
    from leastnoise.estimate.truth import TruthEvaluation

__all__ = ["Closest", "Estimate", "Evaluation", "Guess", "TruthEvaluation", "evaluate", "fit"]

export_lazily(__name__)
