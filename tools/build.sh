#!/bin/sh
# Builds bin/berth, bin/kubectl-berth and bin/kubectl, and shows how far it is:
# the first build compiles Kubernetes and takes some minutes.
# usage: tools/build.sh [LDFLAGS [all|berth|clients]]
#   LDFLAGS    for go build; by default those of the Makefile
#   berth      only bin/berth; clients: only the others
set -eu
cd "$(dirname "$0")/.."
export CGO_ENABLED="${CGO_ENABLED:-0}" # as in the Makefile, so that one build cache serves all
command -v go >/dev/null || { echo "make build needs Go 1.26 or newer: https://go.dev/dl" >&2; exit 1; }
mkdir -p bin
# build OUTPUT PACKAGE: go build -v names each package as it is compiled.
build() {
	log=$(mktemp)
	total=$(go list -deps "$2" | wc -l)
	began=$(date +%s)
	if [ -t 2 ]; then
		show='{ n++; printf "\r  building %s: %d packages compiled, at most %d to go ", out, n, total - n > "/dev/stderr" } END { if (n) printf "\r\033[K" > "/dev/stderr" }'
	else
		show='NR % 500 == 0 { printf "  building %s: %d packages compiled, at most %d to go\n", out, NR, total - NR > "/dev/stderr" }'
	fi
	{ go build -v -ldflags "$ldflags" -o "$1" "$2" 2>&1 && echo ok >"$log.ok"; } | tee "$log" | awk -v out="$1" -v total="$total" "$show"
	if [ ! -e "$log.ok" ]; then
		cat "$log" >&2
		rm -f "$log"
		exit 1
	fi
	rm -f "$log" "$log.ok"
	took=$(($(date +%s) - began))
	if [ "$took" -ge 5 ]; then echo "  built $1 in ${took}s" >&2; fi
}
ldflags=${1-$(make -s ldflags)}
what=${2:-all}
if [ "$what" != clients ]; then
	build bin/berth ./cmd/berth
	ln -sf berth bin/kubectl-berth
	ln -sf berth bin/kubectl_complete-berth
fi
[ "$what" != berth ] || exit 0
build bin/kubectl k8s.io/kubernetes/cmd/kubectl
# jq, for the commands that documents show; pinned in tools/go.mod.
out=$PWD/bin/jq
(cd tools && go build -o "$out" github.com/itchyny/gojq/cmd/gojq)
