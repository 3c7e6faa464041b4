#!/bin/sh
# Runs tests under the race detector, which needs a C compiler on Linux. Without one
# it runs them plainly, and says so.
# usage: tools/race.sh ARGUMENT... (those of go test)
set -eu
[ $# -gt 0 ] || { echo "usage: tools/race.sh ARGUMENT..." >&2; exit 2; }
cd "$(dirname "$0")/.."
cc=$(go env CC)
if ! command -v "${cc%% *}" >/dev/null; then
	echo "without the race detector: it needs a C compiler, and $cc is not here" >&2
	exec go test "$@"
fi
CGO_ENABLED=1 exec go test -race "$@"
