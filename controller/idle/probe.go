package idle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"berth.dev/berth/controller/proxy"
	rules "berth.dev/berth/core/idle"
)

const (
	patience   = 5 * time.Second // for one look at a server
	answerSize = 1 << 20         // bytes of one answer of a server
)

// httpProber asks servers by Jupyter's REST API, and exporters as in gpus.go. The
// REST API is that of jupyter_server and of the older notebook package: GET
// /api/kernels, /api/terminals and /api/status.
type httpProber struct {
	client  *http.Client
	address func(namespace, name string) string // URL of a notebook's server, without its prefix
	proxied bool                                // by the API server, which keeps the header Authorization to itself
	metrics *http.Client                        // asks the metrics API
	root    string                              // URL of the API server's namespaces
	gauges  *proxy.Gauges
	now     func() time.Time
	longest time.Duration // for one look at a server
}

// directly asks notebooks by their Service's name, without a proxy.
func directly(domain string) (*http.Client, func(namespace, name string) string) {
	transport := &http.Transport{
		DialContext:     (&net.Dialer{Timeout: patience}).DialContext,
		IdleConnTimeout: patience, MaxIdleConnsPerHost: 1, ResponseHeaderTimeout: patience,
	}
	return &http.Client{Transport: transport, CheckRedirect: proxy.NoRedirect}, func(namespace, name string) string {
		return "http://" + name + "." + namespace + ".svc." + domain
	}
}

// services is where the proxy at root has a notebook's Service.
func services(root string) func(namespace, name string) string {
	return func(namespace, name string) string { return root + namespace + "/services/http:" + name + ":80/proxy" }
}

// noServer says what an answer means of a server that is there, but does not tell;
// "" is that it means something else.
func noServer(status int) string {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return "its server requires a token or a password"
	case status == http.StatusNotFound:
		return "its server has no kernels API"
	case status >= 300 && status < 400:
		return "its server redirects to another page, such as a login"
	}
	return ""
}

// kernelAnswer and the others are what is read of Jupyter's answers.
type kernelAnswer struct {
	State    string    `json:"execution_state"` //nolint:tagliatelle // Jupyter's
	Activity time.Time `json:"last_activity"`   //nolint:tagliatelle // Jupyter's
}

type terminalAnswer struct {
	Activity time.Time `json:"last_activity"` //nolint:tagliatelle // Jupyter's; not given by old servers
}

type statusAnswer struct {
	Activity    time.Time `json:"last_activity"` //nolint:tagliatelle // Jupyter's
	Connections int       `json:"connections"`
}

// Server implements Prober.
func (p *httpProber) Server(ctx context.Context, t Target) rules.Server {
	ctx, cancel := context.WithTimeout(ctx, p.longest)
	defer cancel()
	base := p.address(t.Namespace, t.Name)
	own := base + "/notebook/" + url.PathEscape(t.Namespace) + "/" + url.PathEscape(t.Name)
	served := own
	if t.Rewrite != "" {
		served = base + strings.TrimSuffix(t.Rewrite, "/")
	}
	switch t.Type {
	case "", "jupyter":
		return p.jupyter(ctx, own, t.Token)
	case "group-one":
		return p.codeServer(ctx, served)
	case "group-two":
		return p.rstudio(ctx, served)
	}
	return rules.Server{At: p.now(), Result: rules.Absent, Said: "a server of type " + t.Type + " does not report its use"}
}

// jupyter asks a Jupyter server. It asks for kernels, and unless one of them is busy
// also for terminals and for the time of the last call, all of it so that the
// server does not take these calls for activity.
func (p *httpProber) jupyter(ctx context.Context, base, token string) rules.Server {
	out := rules.Server{At: p.now(), Result: rules.OK}
	var kernels []kernelAnswer
	status, err := p.ask(ctx, base+"/api/kernels", token, &kernels)
	if why := noServer(status); why != "" && err == nil {
		out.Result, out.Said = rules.Absent, why
		return out
	}
	if errors.Is(err, errNotJSON) {
		out.Result, out.Said = rules.Absent, "what it serves has no kernels API"
		return out
	}
	busy := false
	for _, k := range kernels {
		out.Kernels = append(out.Kernels, rules.Kernel{State: k.State, Activity: k.Activity})
		busy = busy || k.State == "busy"
	}
	var terminals []terminalAnswer
	var served statusAnswer
	if err == nil && status == http.StatusOK && !busy {
		if status, err = p.askIfThere(ctx, base+"/api/terminals", token, &terminals); err == nil && status == http.StatusOK {
			status, err = p.askIfThere(ctx, base+"/api/status", token, &served)
		}
	}
	if err != nil || status != http.StatusOK {
		if err == nil {
			err = fmt.Errorf("its server responds with status %d", status)
		}
		out.Result, out.Said = rules.Failed, "its server does not respond: "+proxy.Short(err, p.longest)
		return out
	}
	for _, t := range terminals {
		if t.Activity.After(out.Terminals) {
			out.Terminals = t.Activity
		}
	}
	out.API, out.Connections, out.Programs = served.Activity, served.Connections, len(terminals) > 0
	return out
}

// errNotJSON is an answer that is no JSON, as of a page for people.
var errNotJSON = errors.New("not JSON")

// askIfThere is ask, where 404 is an empty answer: not every server has terminals.
func (p *httpProber) askIfThere(ctx context.Context, url, token string, into any) (int, error) {
	status, err := p.ask(ctx, url, token, into)
	if err == nil && status == http.StatusNotFound {
		status = http.StatusOK
	}
	return status, err
}

// ask gets JSON. The status is that of the notebook's server; what the API
// server answers in its place is an error. The token goes in the header, and in the
// address where the header does not reach the server.
func (p *httpProber) ask(ctx context.Context, address, token string, into any) (int, error) {
	address += "?no_track_activity=1"
	if token != "" && p.proxied {
		address, token = address+"&token="+url.QueryEscape(token), ""
	}
	header := http.Header{}
	if token != "" { // one of Jupyter's
		header.Set("Authorization", "token "+token)
	}
	raw, status, err := proxy.Fetch(ctx, p.client, address, answerSize, header)
	if err != nil || status != http.StatusOK {
		return status, err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return status, errNotJSON
	}
	return status, nil
}
