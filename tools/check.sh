#!/bin/sh
# Formatting and vet.
set -eu
cd "$(dirname "$0")/.."
bad=$(gofmt -l $(git ls-files '*.go'))
if [ -n "$bad" ]; then
	echo "not formatted (run gofmt -w):" >&2
	echo "$bad" >&2
	exit 1
fi
go vet ./...
