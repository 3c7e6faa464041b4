// Package client is how the commands reach a cluster: which one, as whom, what is listed and
// watched of it. It also has what every command gets from the program.
package client

import (
	"io"
	"os"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"berth.dev/berth/internal/input"
)

// Options is what every command gets from the outside.
type Options struct {
	In       io.Reader
	Out, Err io.Writer
	// Connect makes the client for a cluster; nil is kubernetes.NewForConfig.
	Connect func(*rest.Config) (kubernetes.Interface, error)
	// Dynamic makes the client for kinds without a type of client-go's; nil is
	// dynamic.NewForConfig.
	Dynamic func(*rest.Config) (dynamic.Interface, error)
	// Now tells the time that ages are shown against; nil is time.Now.
	Now func() time.Time
	// BusyPatience is how long all exporters of a cluster together may take to say how
	// busy its GPUs are; 0 is two seconds.
	BusyPatience time.Duration
	// Exec becomes another program; nil is syscall.Exec.
	Exec ExecFunc
	// Name is how the user calls the program; "" is "berth".
	Name string
}

// Time tells the time.
func (o Options) Time() time.Time {
	if o.Now == nil {
		return time.Now()
	}
	return o.Now()
}

// mostInput is the most bytes of a file that is read whole: a million pods of a trace.
const mostInput = 64 << 20

// ReadFile opens a file and reads it, up to mostInput; "-" is standard input.
func ReadFile[T any](o Options, path string, read func(string, io.Reader) (T, error)) (T, error) {
	if path == "-" {
		return read("stdin", input.Bounded("stdin", o.In, mostInput))
	}
	f, err := os.Open(path)
	if err != nil {
		var none T
		return none, err
	}
	defer f.Close()
	return read(path, input.Bounded(path, f, mostInput))
}

// ExecFunc becomes another program, and returns only if it could not.
type ExecFunc func(path string, args, env []string) error
