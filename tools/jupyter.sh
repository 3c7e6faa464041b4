#!/bin/sh
# Brings Debian's Jupyter for the test of a real notebook server, where it can be
# brought without asking: by root, with apt-get. Without it that test is left out.
# BERTH_TEST_JUPYTER=no leaves it out, too.
set -eu
want="jupyter-notebook python3-ipykernel"
if command -v jupyter-notebook >/dev/null || [ "${BERTH_TEST_JUPYTER:-}" = no ]; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "the test of a real Jupyter server is left out: it needs $want (apt-get install $want)" >&2
	exit 0
fi
echo "  installing $want for the test of a real Jupyter server" >&2
sh "$(dirname "$0")/debian.sh" install $want ||
	echo "the test of a real Jupyter server is left out: apt-get install $want did not work" >&2
