"""Tables without negative counts, in whole numbers, with known totals."""
