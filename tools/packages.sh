#!/bin/sh
# Build a wheel and an sdist, install each into a fresh environment and run the demo there, outside the checkout.
# usage: tools/packages.sh [PYTHON [FOLDER]]; the packages are left in FOLDER, by default dist/
set -eu
python=${1:-python3}
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "${2:-$root/dist}"
out=$(cd "${2:-$root/dist}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH  # or the checkout would be imported

mkdir "$work/source" "$work/built"
cp -R "$root/src" "$root/pyproject.toml" "$root/README.md" "$root/LICENSE" "$work/source"
rm -rf "$work"/source/src/*.egg-info
"$python" -m venv "$work/fresh"
"$work/fresh/bin/python" -m pip install --quiet 'setuptools>=77'
cd "$work/source"
"$work/fresh/bin/python" -c "
from setuptools import build_meta
build_meta.build_sdist('../built')
build_meta.build_wheel('../built')" > /dev/null
"$work/fresh/bin/python" -m pip uninstall --quiet --yes setuptools
cd "$work"

echo "the wheel, with all that it needs"
"$work/fresh/bin/python" -m pip install --quiet "$work"/built/*.whl
"$work/fresh/bin/leastnoise" demo "$work/from-wheel"
du -sm "$work/fresh" | awk '{print "environment: " $1 " MB"}'

echo "the sdist, in place of it"
"$work/fresh/bin/python" -m pip uninstall --quiet --yes leastnoise
"$work/fresh/bin/python" -m pip install --quiet --no-deps "$work"/built/*.tar.gz
"$work/fresh/bin/leastnoise" demo "$work/from-sdist"

cp "$work"/built/* "$out"
ls "$out"
