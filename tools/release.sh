#!/bin/sh
# Builds what people are given, in bin/release/OS-ARCH, with the checksums of all of it
# in bin/release/SHA256SUMS: the same programs as `make build` and `make agent`, without
# the paths of the machine that built them. The build cache of everyday builds is of no
# use to it: each platform compiles Kubernetes anew. berth-nvml speaks to a C library
# and is built for this machine's own platform alone.
# usage: tools/release.sh [LDFLAGS [OS/ARCH...]]
set -eu
cd "$(dirname "$0")/.."
ldflags=${1:-$(make -s --no-print-directory ldflags)}
[ $# = 0 ] || shift
root=$PWD
goroot=$(go env GOROOT)
modules=$(go env GOMODCACHE)
own=$(go env GOOS)/$(go env GOARCH)
[ $# != 0 ] || set -- "$own"
rm -rf bin/release
for platform in "$@"; do
	GOOS=${platform%/*} GOARCH=${platform#*/}
	export GOOS GOARCH
	out=bin/release/$GOOS-$GOARCH
	mkdir -p "$out"
	programs=berth
	if [ "$GOOS" = linux ]; then programs="berth berth-agent"; fi
	for program in $programs; do
		echo "  building $out/$program" >&2
		go build -trimpath -ldflags "$ldflags" -o "$out/$program" "./cmd/$program"
	done
	if [ "$GOOS" = linux ] && [ "$platform" = "$own" ]; then
		GOFLAGS=-trimpath sh tools/nvml.sh "$ldflags" "$root/$out/berth-nvml"
	elif [ "$GOOS" = linux ]; then
		echo "  $out has no berth-nvml: build it on $platform" >&2
	fi
	for path in "$root" "$goroot" "$modules"; do
		if grep -lF "$path/" "$out"/*; then
			echo "names a folder of this machine: $path" >&2
			exit 1
		fi
	done
done
cd bin/release
sha256sum */* >SHA256SUMS
