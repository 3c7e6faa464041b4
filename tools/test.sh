#!/bin/sh
# Runs everything that must pass, part by part, and prints how long each part took.
# It stops at the first part that fails.
# usage: tools/test.sh [LDFLAGS]
#   LDFLAGS       for go build; by default those of the Makefile
#   BERTH_SOAK=1  every seed, kill and storm at full length (make soak)
set -eu
cd "$(dirname "$0")/.."
export CGO_ENABLED="${CGO_ENABLED:-0}" # as in the Makefile, so that one build cache serves all
flags=${1-$(make -s --no-print-directory ldflags)}
table=$(mktemp)
began=$(date +%s)
load=$(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null || echo unknown)
summary() {
	code=$?
	trap - EXIT
	[ "$code" = 0 ] || printf '%8s  %s\n' failed "$name" >>"$table"
	printf '\n%8s  %s\n' seconds part
	cat "$table"
	printf '%8d  %s\n' $(($(date +%s) - began)) "all, on $(getconf _NPROCESSORS_ONLN) cores; load average at the start: $load"
	rm -f "$table"
	exit "$code"
}
trap summary EXIT
trap 'exit 130' INT TERM
name=preparation

# part NAME COMMAND...
part() {
	name=$1
	shift
	echo "== $name"
	from=$(date +%s)
	"$@"
	printf '%8d  %s\n' $(($(date +%s) - from)) "$name" >>"$table"
}

build() {
	make -s --no-print-directory build agent
	sh tools/jupyter.sh
	sh tools/node.sh "$flags"
}

# The packages with tests, in three sorts. Plain are those whose code and tests start
# and share nothing: the race detector would find nothing in them, at ten times the
# time (those that use them run them under it as well). What imports k8s.io/kubernetes
# is tested as a whole or through the built program, so that every other test
# compiles in seconds.
built='^berth.dev/berth/(controlplane|scheduler/server|test)($|/)'
shares='"sync|"testing/synctest"|"net/http|errgroup|[.]Go\(|(^|[[:space:]])go (func|[A-Za-z.]+\()'
list=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
whole=$(echo "$list" | grep -E "$built" | grep -vE '/test(/node)?$')
plain='' concurrent=''
for package in $(echo "$list" | grep -vE "$built"); do
	if cat ".${package#berth.dev/berth}"/*.go | grep -qE "$shares"; then
		concurrent="$concurrent $package"
	else
		plain="$plain $package"
	fi
done

part "build the programs" build
part "formatting and vet" sh tools/check.sh
# shellcheck disable=SC2086 # one argument a package
if [ "${BERTH_SOAK:-}" = 1 ]; then
	part "all packages, without the race detector" go test -count=1 -timeout 60m $plain $concurrent
	part "all packages, under the race detector" sh tools/race.sh -count=1 -timeout 120m $plain $concurrent
else
	part "packages that share nothing" go test -timeout 30m $plain
	part "packages with goroutines, under the race detector" sh tools/race.sh -timeout 30m $concurrent
fi
part "berth-nvml" sh tools/nvmltest.sh
# shellcheck disable=SC2086
part "control plane, scheduler process" go test -count=1 -timeout 30m $whole
# Alone, since scripts wait for what compiling slows down; four at once, since mostly they wait.
part "scripts on the built programs" go test -count=1 -parallel 4 -timeout 50m ./test
part "a real node" go test -count=1 -timeout 40m -v ./test/node/...
