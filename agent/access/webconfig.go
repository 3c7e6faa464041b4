package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"berth.dev/berth/internal/strictyaml"
)

// webConfig is the web configuration file of Prometheus' exporters.
//
// Source: github.com/prometheus/exporter-toolkit, docs/web-configuration.md.
type webConfig struct {
	TLS struct {
		Cert         string   `json:"cert"`
		Key          string   `json:"key"`
		CertFile     string   `json:"cert_file"`
		KeyFile      string   `json:"key_file"`
		ClientCA     string   `json:"client_ca"`
		ClientCAFile string   `json:"client_ca_file"`
		ClientAuth   string   `json:"client_auth_type"`
		ClientSANs   []string `json:"client_allowed_sans"`
		MinVersion   string   `json:"min_version"`
		MaxVersion   string   `json:"max_version"`
		CipherSuites []string `json:"cipher_suites"`
		Curves       []string `json:"curve_preferences"`
		PreferServer *bool    `json:"prefer_server_cipher_suites"` // Go decides by itself
	} `json:"tls_server_config"`
	HTTP struct {
		HTTP2   *bool             `json:"http2"` // not served: a scraper has no use for it
		Headers map[string]string `json:"headers"`
	} `json:"http_server_config"`
	Users map[string]string `json:"basic_auth_users"` // bcrypt hashes
	Rate  *struct {
		Interval string `json:"interval"`
		Burst    int    `json:"burst"`
	} `json:"rate_limit"`
}

// web is a webConfig that has been checked.
type web struct {
	file  webConfig
	tls   *tls.Config // nil is HTTP
	reads []string    // files that it was made of
}

var (
	clientAuths = map[string]tls.ClientAuthType{
		"": tls.NoClientCert, "NoClientCert": tls.NoClientCert, "RequestClientCert": tls.RequestClientCert, "RequireAnyClientCert": tls.RequireAnyClientCert,
		"RequireClientCert": tls.RequireAnyClientCert, "VerifyClientCertIfGiven": tls.VerifyClientCertIfGiven, "RequireAndVerifyClientCert": tls.RequireAndVerifyClientCert,
	}
	versions = map[string]uint16{"TLS10": tls.VersionTLS10, "TLS11": tls.VersionTLS11, "TLS12": tls.VersionTLS12, "TLS13": tls.VersionTLS13}
	curves   = map[string]tls.CurveID{"CurveP256": tls.CurveP256, "CurveP384": tls.CurveP384, "CurveP521": tls.CurveP521, "X25519": tls.X25519, "X25519MLKEM768": tls.X25519MLKEM768}
	headers  = []string{"Content-Security-Policy", "Strict-Transport-Security", "X-Content-Type-Options", "X-Frame-Options", "X-XSS-Protection"}
)

// readWebConfig reads the file and checks all of it. Paths in it are relative to it.
func readWebConfig(name string) (*web, error) {
	data, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		return nil, fmt.Errorf("--web-config-file: %w", err)
	}
	w := &web{reads: []string{name}}
	if err := strictyaml.Decode(name, data, &w.file); err != nil {
		return nil, err
	}
	err = w.check(filepath.Dir(name))
	if e, ok := errors.AsType[*strictyaml.Error](err); ok {
		e.File, e.Line = name, strictyaml.Locate(data, e.Field)
	}
	return w, err
}

func bad(field, message, fix string) error {
	return &strictyaml.Error{Field: field, Message: message, Fix: fix}
}

// check makes the TLS configuration, and says what is wrong with the file.
func (w *web) check(dir string) error {
	for user, hash := range w.file.Users {
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return bad("basic_auth_users."+user, "is not a bcrypt hash", `make one with htpasswd -nBC 10 ""`)
		}
	}
	for name := range w.file.HTTP.Headers {
		if !slices.Contains(headers, name) {
			return bad("http_server_config.headers."+name, "is not a header that can be set", "known ones are "+strings.Join(headers, ", "))
		}
	}
	t := &w.file.TLS
	certificate, err := w.content("tls_server_config.cert", t.Cert, t.CertFile, dir)
	if err != nil {
		return err
	}
	key, err := w.content("tls_server_config.key", t.Key, t.KeyFile, dir)
	if err != nil {
		return err
	}
	switch {
	case certificate == nil && key == nil && t.ClientCA+t.ClientCAFile+t.ClientAuth == "" && len(t.ClientSANs) == 0:
		return nil // HTTP
	case certificate == nil:
		return bad("tls_server_config", "has no certificate", "add cert_file and key_file, or remove the section")
	case key == nil:
		return bad("tls_server_config", "has a certificate and no key", "add key_file")
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return bad("tls_server_config.cert_file", err.Error(), "")
	}
	w.tls = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	if err := w.protocol(); err != nil {
		return err
	}
	return w.clients(dir)
}

// content is what a field has, or the file that the other one names; nil is none.
func (w *web) content(field, text, file, dir string) ([]byte, error) {
	switch {
	case text != "" && file != "":
		return nil, bad(field+"_file", "is set twice, as text and as file", "keep one of them")
	case file == "":
		if text == "" {
			return nil, nil
		}
		return []byte(text), nil
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	w.reads = append(w.reads, file)
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, bad(field+"_file", err.Error(), "")
	}
	return data, nil
}

// protocol sets versions, cipher suites and curves.
func (w *web) protocol() error {
	t := &w.file.TLS
	for _, v := range []struct {
		field, name string
		to          *uint16
	}{{"min_version", t.MinVersion, &w.tls.MinVersion}, {"max_version", t.MaxVersion, &w.tls.MaxVersion}} {
		if v.name == "" {
			continue
		}
		id, ok := versions[v.name]
		if !ok {
			return bad("tls_server_config."+v.field, fmt.Sprintf("%q is not a TLS version", v.name), "known ones are TLS10, TLS11, TLS12, TLS13")
		}
		*v.to = id
	}
	for i, name := range t.CipherSuites {
		at := slices.IndexFunc(tls.CipherSuites(), func(c *tls.CipherSuite) bool { return c.Name == name })
		if at < 0 {
			return bad(fmt.Sprintf("tls_server_config.cipher_suites[%d]", i), fmt.Sprintf("%q is not a cipher suite that is secure", name), "use a name of Go's crypto/tls.CipherSuites")
		}
		w.tls.CipherSuites = append(w.tls.CipherSuites, tls.CipherSuites()[at].ID)
	}
	for i, name := range t.Curves {
		id, ok := curves[name]
		if !ok {
			return bad(fmt.Sprintf("tls_server_config.curve_preferences[%d]", i), fmt.Sprintf("%q is not a curve", name),
				"known ones are "+strings.Join(slices.Sorted(maps.Keys(curves)), ", "))
		}
		w.tls.CurvePreferences = append(w.tls.CurvePreferences, id)
	}
	return nil
}

// clients sets what is asked of clients' certificates.
func (w *web) clients(dir string) error {
	t := &w.file.TLS
	kind, ok := clientAuths[t.ClientAuth]
	if !ok {
		return bad("tls_server_config.client_auth_type", fmt.Sprintf("%q is not known", t.ClientAuth), "write RequireAndVerifyClientCert, or leave it out")
	}
	w.tls.ClientAuth = kind
	ca, err := w.content("tls_server_config.client_ca", t.ClientCA, t.ClientCAFile, dir)
	switch {
	case err != nil:
		return err
	case ca == nil && (kind == tls.RequireAndVerifyClientCert || kind == tls.VerifyClientCertIfGiven):
		return bad("tls_server_config.client_auth_type", "verifies client certificates without a certificate authority", "add client_ca_file")
	case ca != nil && kind == tls.NoClientCert:
		return bad("tls_server_config.client_ca_file", "has no effect: clients are not asked for a certificate", "add client_auth_type: RequireAndVerifyClientCert")
	case ca != nil:
		w.tls.ClientCAs = x509.NewCertPool()
		if !w.tls.ClientCAs.AppendCertsFromPEM(ca) {
			return bad("tls_server_config.client_ca_file", "has no certificate", "")
		}
	}
	if len(t.ClientSANs) == 0 {
		return nil
	}
	if kind != tls.RequireAnyClientCert && kind != tls.RequireAndVerifyClientCert {
		return bad("tls_server_config.client_allowed_sans", "has no effect: a client certificate is not required", "add client_auth_type: RequireAndVerifyClientCert")
	}
	w.tls.VerifyConnection = func(s tls.ConnectionState) error { // also of sessions that are resumed
		if len(s.PeerCertificates) == 0 || !slices.ContainsFunc(names(s.PeerCertificates[0]), func(n string) bool { return slices.Contains(t.ClientSANs, n) }) {
			return errors.New("the client's certificate has none of the names of client_allowed_sans")
		}
		return nil
	}
	return nil
}

// names are a certificate's subject alternative names.
func names(c *x509.Certificate) []string {
	out := append(slices.Clone(c.DNSNames), c.EmailAddresses...)
	for _, ip := range c.IPAddresses {
		out = append(out, ip.String())
	}
	for _, u := range c.URIs {
		out = append(out, u.String())
	}
	return out
}
