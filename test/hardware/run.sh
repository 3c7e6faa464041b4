#!/bin/sh
# Checks on a machine with an NVIDIA GPU what all other tests take for granted:
# identity, readings, GPM's numbers and units, MIG tables, NVLink, Xid events,
# memory limits, CDI with its hooks and a container, what the owner of NVML costs,
# our exporter beside dcgm-exporter where that is there, and the agent with a kubelet
# and containerd. It takes two or three minutes, and at most twelve: after nine the
# checks are told to end, and put MIG back; the node has two minutes more.
#
# usage: test/hardware/run.sh [--build]
#   --build    only build, here, what the checks need into bin/: then the folder
#              can be taken to a machine that has a GPU and no Go
# environment:
#   BERTH_LOAD=0   put no load on the first GPU and cause no Xid 31 there
#   BERTH_MIG=1    cut the first GPU by MIG and put it back; it has to be idle
#   BERTH_OUT=FILE where the output is kept; by default docs/hardware/, named
#                  after the day and the GPU. Beside it is FILE.json, for programs
#   BERTH_DCGM=URL metrics of a dcgm-exporter that runs, such as http://127.0.0.1:9400/metrics;
#                  by default the dcgm-exporter on the PATH is started, if there is one
#   BERTH_DRIVER_ROOT=FOLDER  where the driver's files are for the container; by default /
#   BERTH_LIMIT=N  seconds after which the checks are told to end; by default 540
#
# It ends with 0 when every check passed or was skipped with a reason, 1 when
# one failed, 2 when it could not build, 3 where there is no GPU, 4 when the time
# was up.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
checks=$root/bin/berth-hardware.test
node=$root/bin/berth-node.test

build() {
	if ! command -v go >/dev/null || ! command -v "$(go env CC)" >/dev/null; then
		[ -x "$checks" ] && [ -x bin/berth-nvml ] && [ -x bin/berth-agent ] && return 0
		echo "hardware: bin/berth-nvml, bin/berth-agent and $checks are not all there, and Go or a C compiler to build them is missing; run $0 --build elsewhere and bring bin/" >&2
		exit 2
	fi
	sh tools/nvml.sh && CGO_ENABLED=0 go build -ldflags "$(make -s ldflags)" -o bin/berth-agent ./cmd/berth-agent && (
		cd cmd/berth-nvml
		CGO_ENABLED=1 CGO_CFLAGS="-g -O2 -Wno-deprecated-declarations" CGO_LDFLAGS="-g -O2 -Wl,-z,lazy" \
			go test -c -tags hardware -o "$checks" ./hardware
	) || exit 2
	# Nothing is installed here: a real node is left out where runc is missing.
	rm -f "$node"
	if command -v runc >/dev/null; then sh tools/node.sh; fi
	[ ! -x bin/kubelet ] || [ ! -x bin/gpuapp ] || CGO_ENABLED=0 go test -c -o "$node" ./test/node || exit 2
}

if [ "${1:-}" = --build ]; then
	build
	echo "hardware: built bin/berth-nvml, bin/berth-agent and bin/berth-hardware.test"
	exit 0
fi
if ! command -v nvidia-smi >/dev/null; then
	echo "hardware: there is no nvidia-smi on the PATH, so no NVIDIA driver: these checks need a machine with a GPU" >&2
	exit 3
fi
if ! gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>&1) || [ -z "$gpus" ] || [ "$gpus" = "No devices were found" ]; then
	echo "hardware: nvidia-smi shows no GPU: ${gpus:-nothing}" >&2
	exit 3
fi
gpu=$(echo "$gpus" | head -n 1)
build
name=$(echo "$gpu" | tr -cs 'A-Za-z0-9\n' '-' | tr 'A-Z' 'a-z')
out=${BERTH_OUT:-docs/hardware/$(date +%Y-%m-%d)-$name.txt}
mkdir -p "$(dirname "$out")"
{
	echo "# test/hardware/run.sh, $(date -u +%Y-%m-%dT%H:%MZ), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
	echo "# $(uname -srm); cgroup $([ -e /sys/fs/cgroup/cgroup.controllers ] && echo v2 || echo v1); $(id -un); load ${BERTH_LOAD:-1}, MIG ${BERTH_MIG:-0}"
	nvidia-smi -L | sed 's/^/# /'
	grep -h "^NVRM version" /proc/driver/nvidia/version 2>/dev/null | sed 's/^/# /' || true
} >"$out"
code=0
limit=${BERTH_LIMIT:-540}
# TERM first, on which the checks put MIG back, and KILL a minute and a half later. Go's own
# limit, which ends a test without its defers, is beyond both.
BERTH_NVML=$root/bin/berth-nvml BERTH_AGENT=$root/bin/berth-agent timeout -k 90 "$limit" "$checks" -test.v -test.count 1 -test.timeout "$((limit + 600))s" >>"$out" 2>&1 || code=$?
if [ $code -ne 124 ] && [ $code -ne 137 ]; then
	echo "=== RUN   TestRealGPU" >>"$out"
	if [ -x "$node" ]; then
		(cd test/node && BERTH_TEST_BIN=$root/bin BERTH_NODE_REAL=1 timeout -k 10 120 "$node" -test.v -test.count 1 -test.run '^TestRealGPU$') >>"$out" 2>&1 || {
			[ $? -ne 124 ] || echo "--- FAIL: TestRealGPU: its two minutes were up" >>"$out"
			code=1
		}
	else
		printf '    run.sh:0: not run: bin/berth-node.test is not built: it needs root, runc and what tools/node.sh builds\n--- SKIP: TestRealGPU (0.00s)\n' >>"$out"
	fi
fi
last=$(sed -n 's/^=== RUN *//p' "$out" | tail -n 1)
grep -v '^=== ' "$out" >"$out.next" && mv "$out.next" "$out"
case $code in
124 | 137) echo "--- FAIL: ${last:-the checks}: the time limit of ${limit}s (BERTH_LIMIT) was up in ${last:-it}; later checks have not run" >>"$out" ;;
esac
cat "$out"
# result WORD writes the names of the checks with that result as a JSON list.
result() {
	sed -n "s/^--- $1: Test\\([A-Za-z0-9_]*\\).*/\"\\1\"/p" "$out" | paste -s -d , -
}
# reasons writes why checks have not run, as members of a JSON object; a reason is the last
# line that a check has logged.
reasons() {
	tr '\t\r' '  ' <"$out" | awk '
		/^ +[A-Za-z0-9_]+\.(go|sh):[0-9]+: / { said = $0; sub(/^ +[^ ]+ (skipped: |not run: |left out: )?/, "", said) }
		/^--- SKIP: Test/ { name = substr($3, 5); gsub(/[\\"]/, "\\\\&", said); printf "%s\"%s\": \"%s\"", comma, name, said; comma = ", " }
		/^--- / { said = "" }'
}
passed=$(grep -c '^--- PASS' "$out" || true) failed=$(grep -c '^--- FAIL' "$out" || true) skipped=$(grep -c '^--- SKIP' "$out" || true)
printf '{"gpu": "%s", "time": "%s", "commit": "%s", "load": %s, "mig": %s, "exit": %s, "limitSeconds": %s, "passed": [%s], "failed": [%s], "skipped": [%s], "notRun": {%s}}\n' \
	"$(echo "$gpu" | tr -d '\\"')" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" \
	"$([ "${BERTH_LOAD:-1}" = 0 ] && echo false || echo true)" "$([ "${BERTH_MIG:-0}" = 1 ] && echo true || echo false)" "$code" "$limit" \
	"$(result PASS)" "$(result FAIL)" "$(result SKIP)" "$(reasons)" >"$out.json"
echo "hardware: $passed passed, $failed failed, $skipped skipped; kept in $out and $out.json"
case $code in
0) ;;
124 | 137) exit 4 ;;
*) exit 1 ;;
esac
