import copy
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from leastnoise.errors import LeastnoiseError
from leastnoise.noise import BoundRandomSource, SecureRandomSource, SeededRandomSource

SOURCES = [SecureRandomSource(), SeededRandomSource(3)]
FORK = """
import os
from leastnoise.noise import SecureRandomSource
bits = SecureRandomSource()
bits.words(5)
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, bits.words(64).tobytes())
    os._exit(0)
os.wait()
theirs, ours = os.read(read, 512), bits.words(64).tobytes()
assert len(theirs) == len(ours) == 512
words = lambda b: {b[i:i + 8] for i in range(0, len(b), 8)}
assert not words(theirs) & words(ours)
print("apart")
"""


@pytest.mark.parametrize("random_source", SOURCES, ids=["secure", "seeded"])
def test_words_have_the_asked_number_and_type(random_source):
    for count in (0, 1, 7, 65_536, 65_537, 200_000):
        words = random_source.words(count)
        assert words.shape == (count,)
        assert words.dtype == np.uint64


@pytest.mark.parametrize("random_source", SOURCES, ids=["secure", "seeded"])
def test_every_bit_is_fair(random_source):
    # 64 bits at 6 standard deviations: a false alarm once in 10^7 runs.
    words = random_source.words(100_000)
    ones = np.unpackbits(words.view(np.uint8)).reshape(len(words), 64).sum(axis=0, dtype=np.int64)
    assert np.abs(ones - 50_000).max() < 6 * np.sqrt(100_000) / 2


@pytest.mark.parametrize("random_source", SOURCES, ids=["secure", "seeded"])
def test_words_do_not_repeat(random_source):
    words = np.concatenate([random_source.words(1000) for _ in range(50)])
    assert len(np.unique(words)) == len(words)


def test_same_seed_same_words():
    assert (SeededRandomSource(11).words(100) == SeededRandomSource(11).words(100)).all()
    assert (SeededRandomSource(11).words(100) != SeededRandomSource(12).words(100)).all()
    assert (SeededRandomSource(-1).words(100) != SeededRandomSource(1).words(100)).all()


def test_known_words():
    # Studies quote seeds: the stream must not change from version to version.
    assert SeededRandomSource(7).words(2).tolist() == [521571878301859729, 2293479647700504875]


def test_pieces_join_to_one_stream():
    whole, random_source = SeededRandomSource(5).words(140_000), SeededRandomSource(5)
    parts = [random_source.words(n) for n in (0, 1, 2, 3, 65_535, 65_536, 8_923)]
    assert (np.concatenate(parts) == whole[: sum(map(len, parts))]).all()


def test_insecure_sources_say_so():
    assert not SecureRandomSource().insecure
    assert SeededRandomSource(0).insecure


def test_negative_count_is_refused():
    for random_source in SOURCES:
        with pytest.raises(LeastnoiseError, match="cannot draw -1 words"):
            random_source.words(-1)


def test_secure_sources_differ():
    random_source = SecureRandomSource()
    twin = pickle.loads(pickle.dumps(random_source))
    drawn = np.concatenate([random_source.words(100), twin.words(100), SecureRandomSource().words(100)])
    assert len(np.unique(drawn)) == 300


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_bound_bits_cannot_be_copied(duplicate):
    with pytest.raises(LeastnoiseError, match="what draws noise cannot be copied while it runs"):
        duplicate(BoundRandomSource(SecureRandomSource()))


def test_threads_do_not_share_a_stream():
    random_source, results = SecureRandomSource(), []
    threads = [threading.Thread(target=lambda: results.append(random_source.words(10_000))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(np.unique(np.concatenate(results))) == 80_000


@pytest.mark.long
def test_child_process_does_not_repeat_the_parent():
    # In a process of its own: forking a test runner that has threads is unsafe.
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "apart\n"


def test_recycled_process_number_draws_a_new_key(monkeypatch):
    random_source = SecureRandomSource()
    random_source.words(1)
    before = random_source._local.stream
    random_source.words(1)
    assert random_source._local.stream is before
    monkeypatch.setattr("leastnoise.storage.forks._generation", 1)
    random_source.words(1)
    assert random_source._local.stream is not before
    monkeypatch.undo()
    monkeypatch.setattr("os.getpid", lambda: -1)
    between = random_source._local.stream
    random_source.words(1)
    assert random_source._local.stream is not between
