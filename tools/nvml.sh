#!/bin/sh
# Builds bin/berth-nvml, the child process of the node agent that owns NVML.
# With a C compiler it speaks to NVIDIA's driver; without one it serves fake
# GPUs only, and this script says so.
# usage: tools/nvml.sh [LDFLAGS [OUTPUT]]
set -eu
cd "$(dirname "$0")/.."
out=${2:-$PWD/bin/berth-nvml}
mkdir -p "$(dirname "$out")"
# The header of NVML calls some of its functions deprecated: a page of warnings.
export CGO_CFLAGS="${CGO_CFLAGS:--g -O2 -Wno-deprecated-declarations}"
# The program names functions that no driver has all of. They have to be looked
# up when they are called: "-z now" would end it at the start.
case ${CGO_LDFLAGS:=-g -O2} in
*-z,lazy*) ;;
*) CGO_LDFLAGS="$CGO_LDFLAGS -Wl,-z,lazy" ;;
esac
export CGO_LDFLAGS
cgo=1
if [ "$(go env GOOS)" != linux ]; then
	cgo=0 why="this is not Linux"
elif ! command -v "$(go env CC)" >/dev/null; then
	cgo=0 why="there is no C compiler ($(go env CC))"
fi
began=$(date +%s)
cd cmd/berth-nvml
CGO_ENABLED=$cgo go build -ldflags "${1:--s -w}" -o "$out" .
took=$(($(date +%s) - began))
if [ "$cgo" = 0 ]; then
	echo "  built ${out##*/} without NVML, for fake GPUs only: $why" >&2
elif [ "$took" -ge 5 ]; then
	echo "  built ${out##*/} in ${took}s" >&2
fi
