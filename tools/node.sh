#!/bin/sh
# Builds what the tests on a real node run, into bin/: Kubernetes' kubelet,
# containerd with its shim and ctr, the program of their containers, and NVIDIA's
# device plugin with a library that stands in for the driver's. By root with
# apt-get it installs runc, too. Where it cannot, it says why and goes on, and
# those tests are left out. BERTH_TEST_NODE=no leaves them out, too. In the same way it
# installs scikit-learn for Debian's Python, for the one test that trains and serves a model.
# usage: tools/node.sh [LDFLAGS]
#   LDFLAGS    for go build; by default those of the Makefile
set -eu
cd "$(dirname "$0")/.."
export CGO_ENABLED="${CGO_ENABLED:-0}" # as in the Makefile, so that one build cache serves all
left() {
	echo "the tests on a real node are left out: $1" >&2
	exit 0
}
[ "${BERTH_TEST_NODE:-}" != no ] || left "BERTH_TEST_NODE=no"
[ "$(uname -s)" = Linux ] || left "they need Linux, and this is $(uname -s)"
[ "$(id -u)" = 0 ] || left "they need root"
if ! command -v runc >/dev/null; then
	command -v apt-get >/dev/null || left "they need runc"
	echo "  installing runc for the tests on a real node" >&2
	sh tools/debian.sh install runc || left "apt-get install runc did not work"
fi
learn() { /usr/bin/python3 -c 'import sklearn' 2>/dev/null; }
if ! learn && command -v apt-get >/dev/null; then
	echo "  installing python3-sklearn for the test of a real model" >&2
	sh tools/debian.sh install python3-sklearn || true
fi
learn || echo "  the test of a real model on a real node is left out: it needs python3-sklearn" >&2
flags=${1-$(make -s ldflags)}
began=$(date +%s)
mkdir -p bin
go build -ldflags "$flags" -o bin/kubelet ./test/node/kubelet
go build -ldflags "-s -w" -o bin/gpuapp ./test/node/gpuapp
# containerd's own build tags, for storage that the tests do not use.
out=$PWD/bin/
(cd tools/containerd && go build -tags 'no_btrfs no_devmapper no_zfs' -ldflags "-s -w" -o "$out" \
	github.com/containerd/containerd/v2/cmd/containerd \
	github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2 \
	github.com/containerd/containerd/v2/cmd/ctr)
# NVIDIA's plugin is cgo, with the flags of tools/nvml.sh. Linkers of today leave
# the functions of a library that is opened later to the loader only if told so.
nvidia() {
	headers=$(cd cmd/berth-nvml && go list -m -f '{{.Dir}}' github.com/NVIDIA/go-nvml) &&
		cc=$(go env CC) && "$cc" -shared -fPIC -O1 -Wl,-Bsymbolic,-soname,libnvidia-ml.so.1 -I "$headers/pkg/nvml" \
		-o bin/libnvidia-ml.so.1 cmd/berth-nvml/fakelib/testdata/*.c &&
		cd tools/nvidia && version=$(go list -m -f '{{.Version}}' github.com/NVIDIA/k8s-device-plugin) &&
		CGO_ENABLED=1 CGO_CFLAGS="-g -O2 -Wno-deprecated-declarations" CGO_LDFLAGS="-g -O2 -Wl,-z,lazy" go build -o "$out" \
			-ldflags "-s -w -extldflags=-Wl,--export-dynamic -X github.com/NVIDIA/k8s-device-plugin/internal/info.version=$version" \
			github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin
}
if ! why=$(nvidia 2>&1); then
	rm -f bin/nvidia-device-plugin
	printf '  built no device plugin of NVIDIA, and the test beside it is left out:\n%s\n' "$why" >&2
fi
took=$(($(date +%s) - began))
if [ "$took" -ge 5 ]; then echo "  built a real node for tests in ${took}s" >&2; fi
