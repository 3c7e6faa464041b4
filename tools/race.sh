#!/bin/sh
# Runs tests under the race detector, which needs a C compiler on Linux.
# usage: tools/race.sh PACKAGE...
set -eu
[ $# -gt 0 ] || { echo "usage: tools/race.sh PACKAGE..." >&2; exit 2; }
cd "$(dirname "$0")/.."
cc=$(go env CC)
if ! command -v "${cc%% *}" >/dev/null; then
	echo "race detector left out: it needs a C compiler, and $cc is not here" >&2
	exit 0
fi
# Ten minutes, Go's own limit, is too short for the longest on a slow machine.
CGO_ENABLED=1 go test -race -timeout 30m "$@"
