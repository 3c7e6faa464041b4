#!/bin/sh
# Tests the module of bin/berth-nvml: its calls of NVML, and the program as it
# ships, against a library that stands in for the driver's. Where there is no C
# compiler it only vets what can be built without, and says so.
set -eu
cd "$(dirname "$0")/../cmd/berth-nvml"
if [ "$(go env GOOS)" != linux ] || ! command -v "$(go env CC)" >/dev/null; then
	echo "skipped: tests of berth-nvml with NVML need Linux and a C compiler ($(go env CC))"
	CGO_ENABLED=0 go vet ./...
	exit 0
fi
# As tools/nvml.sh, so that one build serves both.
export CGO_ENABLED=1 CGO_CFLAGS="-g -O2 -Wno-deprecated-declarations" CGO_LDFLAGS="-g -O2 -Wl,-z,lazy"
go vet -tags hardware ./...
go test -count=1 -timeout 20m ./...
