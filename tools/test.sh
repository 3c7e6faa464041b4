#!/bin/sh
# Runs everything that must pass, in parts, and prints how long each part took.
# It stops at the first part that fails, and says at its end what failed.
# usage: tools/test.sh [LDFLAGS]
#   LDFLAGS             for go build; by default those of the Makefile
#   BERTH_SOAK=1        every seed, kill and storm at full length (make soak)
#   BERTH_KEEP_GOING=1  run the other parts after one has failed
set -eu
cd "$(dirname "$0")/.."
export CGO_ENABLED="${CGO_ENABLED:-0}" # as in the Makefile, so that one build cache serves all
export BERTH_LDFLAGS="${1-$(make -s --no-print-directory ldflags)}"
# The packages with tests, in three sorts. Plain are those whose code and tests start
# and share nothing: the race detector would find nothing in them, at ten times the
# time (those that use them run them under it as well). Some others have long tests that
# run without it, and run both ways. What imports k8s.io/kubernetes
# is tested as a whole or through the built program, so that every other test
# compiles in seconds.
built='^berth.dev/berth/(controlplane|scheduler/server|test)($|/)'
shares='"sync|"testing/synctest"|"net/http|errgroup|[.]Go\(|(^|[[:space:]])go (func|[A-Za-z.]+\()'
list=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
whole=$(echo "$list" | grep -E "$built" | grep -vE '/test(/node)?$')
plain='' concurrent='' both=''
for package in $(echo "$list" | grep -vE "$built"); do
	dir=".${package#berth.dev/berth}"
	if cat "$dir"/*.go | grep -qE "$shares"; then
		concurrent="$concurrent $package"
		if grep -q "soak[.]Plainly(" "$dir"/*_test.go; then both="$both $package"; fi
	else
		plain="$plain $package"
	fi
done

# What the parts are, for test/parts: LANE, how nice it is, NAME, COMMAND. Lanes run
# beside each other. A real node and scripts mostly wait, and some judge how long
# something takes, so packages get what these leave of the cores. Three scripts at once fill
# two cores beside packages; more begin while cores idle (test/gate_test.go). go vet is a part, so go test
# runs with -vet=off: otherwise it would vet the packages of Kubernetes again for each kind of build.
part() { printf '%s\t%s\t%s\t%s\n' "$@"; }
parts() {
	part alone 0 "build the programs" 'make -s --no-print-directory build agent'
	part node 0 "build a real node" 'sh tools/node.sh "$BERTH_LDFLAGS"'
	part node 0 "a real node" 'go test -vet=off -count=1 -parallel 2 -timeout 40m -v ./test/node/...'
	part node 0 "chaos with two schedulers" 'go test -vet=off -count=1 -timeout 40m -run "^TestChaos$" ./test'
	part scripts 5 "scripts on the built programs" 'sh tools/jupyter.sh; sh tools/prometheus.sh; go test -vet=off -count=1 -parallel 8 -timeout 75m -skip "^TestChaos$" ./test'
	part packages 15 "formatting and vet" 'sh tools/check.sh'
	if [ "${BERTH_SOAK:-}" = 1 ]; then
		part packages 15 "all packages, without the race detector" "go test -vet=off -count=1 -timeout 60m $plain$concurrent"
		# SQLite is Go that was made from C, and takes 20 times as long under the race detector: the ledger runs its usual lengths there.
		ledger='^berth.dev/berth/(ledger|controller/meter)$'
		part packages 15 "all packages but the ledger, under the race detector" "sh tools/race.sh -vet=off -count=1 -timeout 120m $(echo "$plain$concurrent" | tr ' ' '\n' | grep -vE "$ledger" | tr '\n' ' ')"
		part packages 15 "the ledger, under the race detector" "BERTH_SOAK=usual sh tools/race.sh -vet=off -count=1 -timeout 60m $(echo "$concurrent" | tr ' ' '\n' | grep -E "$ledger" | tr '\n' ' ')"
	else
		part packages 15 "packages that share nothing, long tests" "go test -vet=off -timeout 30m $plain$both"
		part packages 15 "packages with goroutines, under the race detector" "sh tools/race.sh -vet=off -timeout 30m $concurrent"
	fi
	part packages 15 "berth-nvml" 'sh tools/nvmltest.sh'
	part packages 15 "control plane, scheduler process" "go test -vet=off -count=1 -timeout 30m $(echo $whole)"
}
mkdir -p bin
go build -o bin/parts ./test/parts
list=$(parts)
exec bin/parts <<END
$list
END
