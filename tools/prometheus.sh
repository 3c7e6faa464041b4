#!/bin/sh
# Brings Debian's Prometheus and promtool into bin/, for the tests that ask Berth as they do, where they can be brought without asking: with
# apt-get. They are unpacked and not installed, so no service starts. Without them those tests are left out.
# BERTH_TEST_PROMETHEUS=no leaves them out, too.
set -eu
cd "$(dirname "$0")/.."
if { command -v prometheus && command -v promtool; } >/dev/null || [ -x bin/promtool ] || [ "${BERTH_TEST_PROMETHEUS:-}" = no ]; then exit 0; fi
why="the tests with a real Prometheus are left out:"
if ! { command -v apt-get && command -v dpkg-deb; } >/dev/null; then
	echo "$why they need prometheus and promtool (Debian: apt-get install prometheus)" >&2
	exit 0
fi
echo "  unpacking Debian's prometheus for the tests with a real Prometheus" >&2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tools=$PWD/tools
bring() {
	cd "$folder"
	apt-get download -q prometheus || sh "$tools/debian.sh" download prometheus
	dpkg-deb -x prometheus_*.deb .
	usr/bin/promtool --version
}
if (bring) >/dev/null 2>&1; then
	mkdir -p bin
	cp "$folder/usr/bin/prometheus" "$folder/usr/bin/promtool" bin/
else
	echo "$why apt-get download prometheus did not work" >&2
fi
