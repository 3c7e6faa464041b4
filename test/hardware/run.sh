#!/bin/sh
# Checks on a machine with an NVIDIA GPU what all other tests take for granted:
# identity, readings, GPM's numbers and units, MIG tables, NVLink, Xid events,
# memory limits, CDI, and what the owner of NVML costs. It takes two or three
# minutes, and at most nine.
#
# usage: test/hardware/run.sh [--build]
#   --build    only build, here, what the checks need into bin/: then the folder
#              can be taken to a machine that has a GPU and no Go
# environment:
#   BERTH_LOAD=0   put no load on the first GPU and cause no Xid 31 there
#   BERTH_MIG=1    cut the first GPU by MIG and put it back; it has to be idle
#   BERTH_OUT=FILE where the output is kept; by default docs/hardware/, named
#                  after the day and the GPU
#
# It ends with 0 when every check passed or was skipped with a reason, 1 when
# one failed, 2 when it could not build, 3 where there is no GPU.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
checks=$root/bin/berth-hardware.test

build() {
	if ! command -v go >/dev/null || ! command -v "$(go env CC)" >/dev/null; then
		[ -x "$checks" ] && [ -x bin/berth-nvml ] && return 0
		echo "hardware: bin/berth-nvml and $checks are not there, and Go or a C compiler to build them is missing; run $0 --build elsewhere and bring bin/" >&2
		exit 2
	fi
	sh tools/nvml.sh && (
		cd cmd/berth-nvml
		CGO_ENABLED=1 CGO_CFLAGS="-g -O2 -Wno-deprecated-declarations" CGO_LDFLAGS="-g -O2 -Wl,-z,lazy" \
			go test -c -tags hardware -o "$checks" ./hardware
	) || exit 2
}

if [ "${1:-}" = --build ]; then
	build
	echo "hardware: built bin/berth-nvml and bin/berth-hardware.test"
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
BERTH_NVML=$root/bin/berth-nvml timeout 540 "$checks" -test.v -test.count 1 -test.timeout 9m >>"$out" 2>&1 || code=$?
grep -v '^=== ' "$out" >"$out.next" && mv "$out.next" "$out"
cat "$out"
echo "hardware: $(grep -c '^--- PASS' "$out" || true) passed, $(grep -c '^--- FAIL' "$out" || true) failed, $(grep -c '^--- SKIP' "$out" || true) skipped; kept in $out"
[ "$code" = 0 ] || exit 1
