//go:build tools

// Package tools pins the programs that `make test` and `make lint` run.
package tools

import (
	_ "github.com/itchyny/gojq/cmd/gojq"
)
