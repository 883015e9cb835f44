"""The house exception."""


class LeastnoiseError(ValueError):
    """A user's mistake, told in one line that names the value and the fix."""


class DataError(LeastnoiseError):
    """The call is right, but the data or the engine that holds it is not."""
