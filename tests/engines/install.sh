#!/bin/sh
# Installs the Debian packages that tests marked `postgres`, `spark`, `browser` and `r` need, as root. Whatever cannot be
# installed is left out, and the test run says so at its end.
set -u
export DEBIAN_FRONTEND=noninteractive

debian() {  # debian PACKAGE...: installed where that is possible
    test "$(id -u)" = 0 && command -v apt-get > /dev/null || { echo "cannot install $1: not root on Debian" >&2; return; }
    test -n "${updated:-}" || { apt-get update -qq > /dev/null; updated=yes; }
    apt-get install -y -qq --no-install-recommends "$@" > /dev/null || echo "cannot install $1" >&2
}

command -v java > /dev/null || debian openjdk-17-jre-headless
ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || command -v initdb > /dev/null || debian postgresql
command -v chromium > /dev/null || debian chromium chromium-sandbox fonts-liberation
command -v Rscript > /dev/null || debian r-base-core
exit 0
