package term

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"berth.dev/berth/core/gpu"
)

// Exit codes of every command.
const (
	ExitDone        = 0
	exitError       = 1
	ExitUsage       = 2
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

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error {
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

// ErrFound ends a command whose output has said already what it found.
var ErrFound = errors.New("problems were found")

// ExitCode is the exit code of the program for what a command returned.
func ExitCode(err error) int {
	var usage *UsageError
	var unreachable *UnreachableError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &usage):
		return ExitUsage
	case errors.Is(err, ErrFound):
		return exitFinding
	case errors.As(err, &unreachable):
		return exitUnreachable
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return exitTimeout
	}
	return exitError
}

// UnknownCommand refuses arguments of a command that only has commands.
func UnknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := gpu.NearestWord(args[0], names); near != "" {
		return Usagef("unknown command %q for %q; did you mean %q?", args[0], cmd.CommandPath(), near)
	}
	return Usagef("unknown command %q for %q; available: %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
}
