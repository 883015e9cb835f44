"""The house exception."""


class LeastnoiseError(ValueError):
    """A user's mistake, told in one line that names the value and the fix."""
