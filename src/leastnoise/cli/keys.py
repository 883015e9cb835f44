"""Specs with unknown keys: the keys that were found for them, from the folders of their releases."""

from collections.abc import Sequence
from pathlib import Path

from leastnoise.domain.attributes import Scalar
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.discover.release import KeysRelease
from leastnoise.workload.spec import FoundKeys, Spec


def keys_in(folders: Sequence[Path] | None) -> FoundKeys:
    """Keys by their attributes."""
    found: dict[str, Sequence[Scalar]] = {}
    for folder in folders or ():
        release = KeysRelease.load(folder)
        if release.plan.attribute in found:
            raise LeastnoiseError(f"two folders have keys of {release.plan.attribute!r}; give one of them to --keys")
        found |= release.values
    return found


def check_known(spec: Spec, path: Path) -> None:
    """Refuse a spec whose keys are still to be found."""
    if spec.unknown:
        raise LeastnoiseError(
            f"the values of {spec.unknown[0]!r} are not known yet; find them first with leastnoise discover {path} "
            "--data DATA --out FOLDER, then add --keys FOLDER"
        )
