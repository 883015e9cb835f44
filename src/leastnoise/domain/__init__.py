"""Attributes and their values: domains, encodings, hierarchies."""

from leastnoise.domain.attributes import Attribute, Domain, bins, hierarchy, sized

__all__ = ["Attribute", "Domain", "bins", "hierarchy", "sized"]
