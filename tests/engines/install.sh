#!/bin/sh
# Installs the engines that tests marked `postgres` and `spark` need. Debian or Ubuntu, as root.
set -eu
command -v java > /dev/null || apt-get install -y --no-install-recommends openjdk-17-jre-headless
ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || apt-get install -y --no-install-recommends postgresql
"${PYTHON:-.venv/bin/python}" -m pip install --quiet 'psycopg[binary]>=3.2' 'pyspark>=4'
