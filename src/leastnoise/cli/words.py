"""What messages advise, in the words of the shell: the same refusal serves Python, where options are arguments."""

import re

_OPTIONS = "memory|delta|epsilon|rho|mu|table|rows|seed|runs|confidence|alpha|steps"  # arguments that commands have
_PEOPLE = "rows_per_person|one_per|min_separation|neighbours|size"
_SPEC = f"{_PEOPLE}|outside|missing|baseline|solver|objective|method|select|bias|weight|gap"
_PHRASES = {
    "save one with release.save(path)": "make one with leastnoise release",
    "add to it with Stream.load(path), or close it": "add to it with leastnoise stream, or close it",
    "open one with Stream(plan, folder=path)": "open one with leastnoise release and 'method: stream'",
    "make a release of them with close()": "make a release of them with leastnoise stream --close",
    "give Budget(epsilon=1, delta=1e-9)": "add 'privacy: {epsilon: 1, delta: 1e-9}' to the spec",
    "for example workload.marginals(ways=2)": "for example 'queries: marginal'",
    "for example workload.marginals(ways=1)": "for example 'queries: marginal'",
    "for example .marginals(ways=2)": "for example 'queries: marginal'",
    "write one with estimate.save(path)": "make one in Python",
    "use counts() and std_errors()": "rename it in the spec",
    "use counts()": "rename it in the spec",
    "; use share()": "; ask for shares",
    "; use quantile() or share()": "; ask for a median, or for shares",
    "name it, as in sums('income', by='sex')": "name it, as in 'of: income'",
    "name it, as in moments('income', by='sex')": "name it, as in 'of: income'",
    "leave it out and use finish(base=1)": "use leastnoise adjust --base 1",
    "ask() has means": "leastnoise ask has means",
    "use ask() for those of interest, or answer(workload) with fewer": "use leastnoise ask for those of interest",
    "choose some with tables=[...]": "choose some with --table",
    "keys_delta ": "--keys-delta ",
    "declare it with hierarchy(...)": "declare it with 'hierarchy:'",
    "or bins(...)": "or bins",
    "suppress_below is": "--suppress-below is",
    "suppress_cv is": "--suppress-cv is",
    "base is": "--base is",
    "simultaneous=True": "--simultaneous",
    "overwrite=True": "--overwrite",
}


def in_shell_words(text: str) -> str:
    """Advice for Python as options of the shell, or as lines of a spec.

    >>> in_shell_words("replace it with overwrite=True")
    'replace it with --overwrite'
    >>> in_shell_words("write for example memory='4GB'; plan with size='private'")
    'write for example --memory 4GB; plan with size: private'

    Guarantees: the_shell_is_not_told_python.
    """
    text = re.sub(r" \(in Python: [^)]*\)", "", text)
    for python, shell in _PHRASES.items():
        text = text.replace(python, shell)
    for names, form in ((_OPTIONS, r"--\1 \3"), (_SPEC, r"\1: \3")):
        text = re.sub(rf"(?<![?&\w-])({names})=(['\"]?)([\w.+-]+)\2", form, text)
    return text
