"""Which process this is: what one process opened or began, its forks must not go on with."""

import os

_generation = 0  # forks between the first process and this one


def _forked() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_forked)


def process() -> tuple[int, int]:
    """Which process this is. The number catches forks that Python does not see, the generation a number used again."""
    return os.getpid(), _generation
