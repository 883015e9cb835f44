"""One step of a stream has one noisy answer, in all processes together.

Whoever sees n answers with independent noise for one step can average it: n times the mu^2 that was paid.
"""

import os
import warnings

import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError

CHILDREN = 5
REFUSED = "refused: "


@pytest.fixture(params=["without a folder", "with a folder"])
def stream(request, tmp_path):
    plan = ln.matrix_plan(ln.running_totals(4), ln.Budget(mu=1))
    with ln.mechanisms.Stream(plan, folder=tmp_path / "stream" if request.param == "with a folder" else None) as result:
        result.add(3)
        yield result


def answers_of_children(stream, children=CHILDREN):
    """What each of some forked processes tells about the next step."""
    return [in_a_fork(lambda: repr(stream.add(5).value)) for _ in range(children)]


def in_a_fork(work):
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of Python warn of forks where there are threads
        child = os.fork()
    if not child:
        try:
            message = work()
        except LeastnoiseError as error:
            message = f"{REFUSED}{error}"
        except BaseException as error:
            message = f"crashed: {type(error).__name__}"
        os.write(writing, message.encode())
        os._exit(0)  # nothing of the parent is run to its end twice
    os.close(writing)
    with os.fdopen(reading) as pipe:
        message = pipe.read()
    os.waitpid(child, 0)
    return message


def test_forked_streams_do_not_answer(stream):
    message = answers_of_children(stream)
    message.append(repr(stream.add(5).value))  # the process that began it goes on
    assert all(answer.startswith(REFUSED) and "\n" not in answer for answer in message[:-1]), message
    assert len({answer for answer in message if not answer.startswith(REFUSED)}) == 1


def test_answers_that_were_told_can_be_read_in_a_fork(stream):
    """They are published already."""
    assert in_a_fork(lambda: repr(stream.answer(0).value)) == repr(stream.answer(0).value)
