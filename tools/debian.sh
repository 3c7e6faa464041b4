#!/bin/sh
# Installs packages of Debian for tests, by root with apt-get, or downloads them into the working folder. Two
# parts of `make test` may do so at once, and the machine may, too: another apt-get is waited for, for ten minutes at most.
# usage: tools/debian.sh install|download PACKAGE...
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
what=$1
shift
[ "$what" != install ] || set -- -y --no-install-recommends "$@"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
tries=120
while ! { apt-get update -q && apt-get "$what" -q "$@"; } >"$log" 2>&1; do
	tries=$((tries - 1))
	if [ "$tries" = 0 ] || ! grep -qE 'Could not get lock|Unable to (lock|acquire)' "$log" || grep -qE 'Permission denied|are you root' "$log"; then
		tail -n 3 "$log" >&2
		exit 1
	fi
	sleep 5
done
