// Package outbound gives requests that leave the cluster the tokens, passwords, and certificates that a file has for their URLs.
package outbound

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"k8s.io/client-go/transport"

	"berth.dev/berth/internal/input"
)

// Credentials is an http.RoundTripper that adds to each request what its file has for the longest URL that the request's begins with. So
// a redirect to another host gets none. Tokens, passwords, and certificates in files of their own are read again when they change. nil has
// none. It is safe for concurrent use.
type Credentials struct{ entries []*entry }

// entry is the credentials for URLs with the same beginning.
type entry struct {
	scheme, host, path string
	header             func() (string, error) // of Authorization; nil is none
	via                http.RoundTripper
}

// Read reads a file of credentials. It is YAML: under urls a list, each with a url and any of authorization, basic_auth, and tls_config, whose
// fields are those of Prometheus' http_config. Names of files are relative to the folder of the file. All files are read once, so one that
// cannot be read is an error. The error names the file, and the line and field where there is one.
func Read(path string) (*Credentials, error) {
	data, err := input.ReadFile(path, mostBytes)
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	written, err := parse(path, data)
	if err != nil {
		return nil, err
	}
	c := &Credentials{}
	for i := range written {
		e, err := written[i].entry(filepath.Dir(path))
		if err != nil {
			return nil, fmt.Errorf("%s: urls[%d]: %w", path, i, err)
		}
		c.entries = append(c.entries, e)
	}
	return c, nil
}

// RoundTrip implements http.RoundTripper. An Authorization that the request has already, as by a password in its URL, stays.
func (c *Credentials) RoundTrip(req *http.Request) (*http.Response, error) {
	e := c.of(req.URL)
	if e == nil {
		return http.DefaultTransport.RoundTrip(req)
	}
	if e.header != nil && req.Header.Get("Authorization") == "" {
		value, err := e.header()
		if err != nil {
			if req.Body != nil {
				_ = req.Body.Close()
			}
			return nil, fmt.Errorf("authorize the request to %s: %w", req.URL.Host, err)
		}
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", value)
	}
	return e.via.RoundTrip(req)
}

// of returns the entry for a URL, or nil.
func (c *Credentials) of(u *url.URL) (best *entry) {
	if c == nil {
		return nil
	}
	for _, e := range c.entries {
		if e.scheme == u.Scheme && e.host == host(u) && begins(u.Path, e.path) && (best == nil || len(e.path) > len(best.path)) {
			best = e
		}
	}
	return best
}

// begins reports whether a path is another one, or below it.
func begins(path, with string) bool {
	rest, ok := strings.CutPrefix(path, with)
	return ok && (rest == "" || rest[0] == '/')
}

// host is the host of a URL with its port.
func host(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

// entry makes the credentials of an item of the file in a folder.
func (w *written) entry(dir string) (*entry, error) {
	u, err := url.Parse(w.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("invalid url %q: must be like https://prometheus.example.org/path, without a user or a query", w.URL)
	}
	e := &entry{scheme: u.Scheme, host: host(u), path: strings.TrimSuffix(u.Path, "/")}
	in := func(name string) string {
		if name == "" || filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(dir, name)
	}
	switch a, b := w.Authorization, w.Basic; {
	case a != nil && b != nil:
		return nil, fmt.Errorf("authorization and basic_auth are both set; remove one")
	case a != nil:
		e.header = func() (string, error) {
			token, err := a.secret(in)
			return cmp.Or(a.Type, "Bearer") + " " + token, err
		}
	case b != nil:
		e.header = func() (string, error) {
			password, err := b.secret(in)
			return "Basic " + base64.StdEncoding.EncodeToString([]byte(b.Username+":"+password)), err
		}
	}
	if e.header != nil {
		if _, err := e.header(); err != nil {
			return nil, err
		}
	}
	t := w.TLS
	e.via, err = transport.New(&transport.Config{TLS: transport.TLSConfig{
		CAFile: in(t.CA), CertFile: in(t.Cert), KeyFile: in(t.Key), ServerName: t.ServerName, Insecure: t.Insecure, ReloadTLSFiles: true,
	}})
	if err != nil {
		return nil, fmt.Errorf("tls_config: %w", err)
	}
	return e, nil
}
