"""The rows of any matrix over one attribute."""
