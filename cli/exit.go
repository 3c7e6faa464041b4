package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Exit codes of every command.
const (
	exitDone        = 0
	exitError       = 1
	exitUsage       = 2
	exitFinding     = 3
	exitUnreachable = 4
	exitTimeout     = 5
)

// UsageError is a command line that cannot be understood. Nothing was done.
type UsageError struct{ Err error }

// Error is the message alone.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

func usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// UnreachableError says that a cluster did not take the call.
type UnreachableError struct {
	Cluster string // where it was looked for, such as "https://10.0.0.1:6443 ($KUBECONFIG)"
	Err     error
	Next    string // what to do
}

// Error names the cluster, the cause and the next step.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("cannot reach %s: %v; %s", e.Cluster, e.Err, e.Next)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// errFound ends a command whose output has said already what it found.
var errFound = errors.New("problems were found")

// ExitCode is the exit code of the program for what a command returned.
func ExitCode(err error) int {
	var usage *UsageError
	var unreachable *UnreachableError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errFound):
		return exitFinding
	case errors.As(err, &unreachable):
		return exitUnreachable
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return exitTimeout
	}
	return exitError
}
