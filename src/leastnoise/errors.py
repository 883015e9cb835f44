"""The exceptions of leastnoise."""

LONGEST = 600  # characters of a message: values from outside may have any length


class LeastnoiseError(ValueError):
    """A user's mistake, reported in one line that names the value and the fix.

    >>> str(LeastnoiseError("no attribute " + 999 * "x" + "; did you mean 'age'?"))[-40:]
    "xxxxxxxxxxxxxxxxxxx; did you mean 'age'?"
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(shortened(printable(str(message))))


class DataError(LeastnoiseError):
    """The call is right, but the data or the engine that holds it is not."""


class StoppedError(LeastnoiseError):
    """Ctrl-C came when privacy was already spent."""


def shortened(text: str, most: int = LONGEST) -> str:
    """A text without its middle where it is too long: the start names the value, the end the fix.

    >>> shortened("abcdefghij", 9)
    'abc...hij'
    """
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def printable(text: str) -> str:
    """A text in which whatever is no letter to print, such as the end of a line, stands as Python writes it.

    >>> printable("two\\nlines"), printable("café")
    ('two\\\\nlines', 'café')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
