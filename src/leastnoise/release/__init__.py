"""What is published: tables, answers and their errors, from measurements alone."""

from leastnoise.release.answers import Answer, Joint
from leastnoise.release.linear import Linear
from leastnoise.release.merge import merge
from leastnoise.release.release import Release
from leastnoise.release.run import run

__all__ = ["Answer", "Joint", "Linear", "Release", "merge", "run"]
