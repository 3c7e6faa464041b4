package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook/gate"
	"berth.dev/berth/cli/term"
	objects "berth.dev/berth/kube/serving"
)

// headTime is how long the head of a request may take.
const headTime = 10 * time.Second

// open is `berth service open`.
type open struct {
	command
	port int
}

func newOpen(o client.Options) *cobra.Command {
	p := &open{command: command{options: o}}
	cmd := &cobra.Command{
		Use:   "open NAME",
		Short: "Forward a local port to a model service, and print a curl that works",
		Long: "Open a port on this machine's loopback address for a service, and print its address and a command that asks it.\n" +
			"Requests go through the API server to the service, whichever replicas it has. All users of this machine reach the\n" +
			"port; pages of other origins and other host names get 403. It runs until Ctrl-C.",
		Example:           "  berth service open mnist\n  berth service open mnist --port 8080",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return p.run(ctx, args[0])
		},
	}
	p.addFlags(cmd)
	cmd.Flags().IntVar(&p.port, "port", 0, "local port (default: a free one)")
	return cmd
}

func (p *open) run(ctx context.Context, name string) error {
	if p.port < 0 || p.port > 65535 {
		return term.Usagef("invalid --port %d: must be between 1 and 65535", p.port)
	}
	s, err := p.connect()
	if err != nil {
		return err
	}
	o, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	if o.written.Service.Stopped {
		return fmt.Errorf("%s is stopped; `%s service start %s` starts it", o.at(), s.options.Name, name)
	}
	way, err := s.way(ctx, name)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)))
	if err != nil {
		return term.Usagef("--port %d: %v; omit --port to use a free one", p.port, err)
	}
	defer l.Close()
	handler, err := forwarder(s.Config, way, name, l.Addr().(*net.TCPAddr).Port)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", s.Name, err)
	}
	address := "http://" + l.Addr().String()
	term.PrintLine(s.options.Out, address)
	term.Printf(s.options.Err, "%s; Ctrl-C ends it. Ask it with `curl -H 'Content-Type: application/json' -d @FILE %s%s`\n", o.at(), address, objects.PredictPath(o.written, nil))
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headTime}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", address, err)
	}
	return nil
}

// forwarder sends requests to a service by a way through the API server, those that may come to a port of this machine: see gate.Foreign.
func forwarder(config *rest.Config, way []string, name string, port int) (http.Handler, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	server.Path = "/" + strings.TrimPrefix(server.Path, "/") // JoinPath leaves a path without its first slash as it is
	to := server.JoinPath(append([]string{"api", "v1"}, way...)...)
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.Header.Del("Authorization") // that of the API server is added, and a client's own would take its place
		r.SetURL(to)
	}, FlushInterval: -1}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := gate.Foreign(r, port, "service", "berth service open "+name); why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}), nil
}
