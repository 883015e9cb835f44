"""What is published: tables, answers and their errors, from measurements alone."""

from leastnoise.release.answers import Answer, Joint
from leastnoise.release.linear import Linear
from leastnoise.release.merge import merge
from leastnoise.release.postprocess import Adjusted
from leastnoise.release.release import Release
from leastnoise.release.statistics import Statistic
from leastnoise.release.table_release import TableRelease

__all__ = ["Adjusted", "Answer", "Joint", "Linear", "Release", "Statistic", "TableRelease", "merge"]
