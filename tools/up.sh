#!/bin/sh
# Builds bin/berth and starts it; builds bin/kubectl and bin/jq beside it, with what
# CPU bin/berth leaves, so the first start does not wait for them.
# usage: tools/up.sh [LDFLAGS]
set -eu
cd "$(dirname "$0")/.."
flags=${1-$(make -s --no-print-directory ldflags)}
sh tools/build.sh "$flags" berth
if [ ! -e bin/kubectl ] || [ ! -e bin/jq ]; then
	echo "  building bin/kubectl and bin/jq in the background; bin/clients.log shows the progress" >&2
fi
nice -n 19 sh tools/build.sh "$flags" clients >bin/clients.log 2>&1 &
# It runs in the process of this script, and says how long it took from here on.
BERTH_UP_BEGAN=$(date +%s%N)
export BERTH_UP_BEGAN
exec bin/berth up
