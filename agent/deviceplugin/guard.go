package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errUnanswered is why a call's context ends when the node had its time.
var errUnanswered = errors.New("the node did not answer in time")

// guard runs one call of the node and makes an error of whatever goes wrong in
// it: a panic, or no answer in the time allowed. The call goes on by itself
// when no caller waits for it.
func (p *plugin) guard(ctx context.Context, what string, call func(context.Context) error) error {
	limit := p.opts.times.allow
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errUnanswered)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		defer func() {
			if r := recover(); r != nil {
				p.opts.Counters.Panics.Add(1)
				p.opts.Log.Error("handler panicked", "resource", p.resource, "call", what, "panic", r, "stack", string(debug.Stack()))
				done <- fmt.Errorf("the node agent has a bug: %s of %s stopped at %q; see its log", what, p.resource, fmt.Sprint(r))
			}
		}()
		done <- call(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select { // both may have happened
	case err := <-done:
		return err
	default:
	}
	if cause := context.Cause(ctx); !errors.Is(cause, errUnanswered) {
		return cause // the kubelet gave up first
	}
	return fmt.Errorf("%s of %s was not answered within %s: see whether the driver answers (berth doctor node) and the node agent's log",
		what, p.resource, limit)
}

// refusal puts an error into the form in which users read it: the kubelet
// copies the text of the status into the pod's status and events.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.FailedPrecondition
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	text := err.Error()
	if !strings.HasPrefix(text, "berth: ") {
		text = "berth: " + text
	}
	return status.Error(code, text)
}
