package access

import (
	"crypto/tls"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

func basic(user, password string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
}

// hash is the cheapest hash of a password.
func hash(t *testing.T, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

// inFolder writes a web configuration beside a certificate called c.pem and k.pem.
func inFolder(t *testing.T, text string) (path string) {
	t.Helper()
	dir := t.TempDir()
	writePair(t, dir, "web")
	path = filepath.Join(dir, "web.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAWebConfigurationSaysWhoMayRead(t *testing.T) {
	path := inFolder(t, `tls_server_config: {cert_file: c.pem, key_file: k.pem, min_version: TLS13, curve_preferences: [X25519]}
http_server_config: {http2: false, headers: {X-Frame-Options: deny}}
basic_auth_users: {ada: "`+hash(t, "right")+`", bob: "`+hash(t, "other")+`"}
`)
	a, err := New(Options{Address: ":9400", WebConfig: path})
	if err != nil {
		t.Fatal(err)
	}
	if name, err := shown(t, a.TLS, nil); err != nil || !strings.HasPrefix(name, "web") {
		t.Errorf("the certificate is %s, %v", name, err)
	}
	if _, err := shown(t, a.TLS, &tls.Config{MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 is spoken below min_version")
	}
	h := a.Guard(page)
	for _, c := range []struct {
		name   string
		header []string
		want   int
	}{
		{"nobody", nil, 401},
		{"a user", basic("ada", "right"), 200},
		{"a user again", basic("ada", "right"), 200},
		{"a wrong password", basic("ada", "wrong"), 401},
		{"another's password", basic("bob", "right"), 401},
		{"a user that is not there", basic("eve", ""), 401},
		{"a token", []string{"Authorization", "Bearer prometheus"}, 401},
	} {
		if code, text := get(t, h, c.header...); code != c.want || (code == 200) != strings.Contains(text, "secret") {
			t.Errorf("%s: %d %q, want %d", c.name, code, text, c.want)
		}
	}
	if err := os.WriteFile(path, []byte("tls_server_config: {cert_file: c.pem, key_file: k.pem}\nbasic_auth_users: {ada: \""+hash(t, "changed")+"\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _ := get(t, h, basic("ada", "right")...); code != 401 {
		t.Errorf("the password before the change is answered with %d", code)
	}
	if code, _ := get(t, h, basic("ada", "changed")...); code != 200 {
		t.Errorf("the password after the change is answered with %d", code)
	}
	if err := os.WriteFile(path, []byte("basic_auth_users: {ada: plain}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _ := get(t, h, basic("ada", "changed")...); code != 200 {
		t.Errorf("after a change that is wrong the password is answered with %d", code)
	}
	if code, _ := get(t, h); code != 401 {
		t.Errorf("after a change that is wrong nobody is answered with %d", code)
	}
}

func TestClientsMustShowACertificate(t *testing.T) {
	path := inFolder(t, "tls_server_config: {cert_file: c.pem, key_file: k.pem, client_auth_type: RequireAndVerifyClientCert, client_ca_file: c.pem, client_allowed_sans: [web]}\n")
	a, err := New(Options{Address: ":9400", WebConfig: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shown(t, a.TLS, nil); err == nil {
		t.Error("a client without a certificate is let in")
	}
	stranger := t.TempDir()
	certFile, keyFile := writePair(t, stranger, "web")
	other, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shown(t, a.TLS, &tls.Config{Certificates: []tls.Certificate{other}}); err == nil {
		t.Error("a client with a certificate of another authority is let in")
	}
}

func TestAWrongWebConfigurationIsRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a field that is not known", "tls_server_config:\n  cert_fil: c.pem\n", `:2: tls_server_config.cert_fil: unknown field; did you mean "cert_file"?`},
		{"a password in place of a hash", "basic_auth_users:\n  ada: right\n", `:2: basic_auth_users.ada: is not a bcrypt hash; make one with htpasswd -nBC 10 ""`},
		{"a key alone", "tls_server_config: {key_file: k.pem}\n", `:1: tls_server_config: has no certificate; add cert_file and key_file, or remove the section`},
		{"a certificate alone", "tls_server_config: {cert_file: c.pem}\n", `:1: tls_server_config: has a certificate and no key; add key_file`},
		{"a version that is none", "tls_server_config: {cert_file: c.pem, key_file: k.pem,\n  min_version: TLS14}\n", `:2: tls_server_config.min_version: "TLS14" is not a TLS version; known ones are TLS10, TLS11, TLS12, TLS13`},
		{"a cipher that is broken", "tls_server_config: {cert_file: c.pem, key_file: k.pem,\n  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]}\n", `:2: tls_server_config.cipher_suites[0]: "TLS_RSA_WITH_RC4_128_SHA" is not a cipher suite that is secure; use a name of Go's crypto/tls.CipherSuites`},
		{"clients that are verified by nothing", "tls_server_config: {cert_file: c.pem, key_file: k.pem,\n  client_auth_type: RequireAndVerifyClientCert}\n", `:2: tls_server_config.client_auth_type: verifies client certificates without a certificate authority; add client_ca_file`},
		{"an authority that is never asked", "tls_server_config: {cert_file: c.pem, key_file: k.pem,\n  client_ca_file: c.pem}\n", `:2: tls_server_config.client_ca_file: has no effect: clients are not asked for a certificate; add client_auth_type: RequireAndVerifyClientCert`},
		{"names that are never asked", "tls_server_config: {cert_file: c.pem, key_file: k.pem,\n  client_allowed_sans: [x]}\n", `:2: tls_server_config.client_allowed_sans: has no effect: a client certificate is not required; add client_auth_type: RequireAndVerifyClientCert`},
		{"a header that is not to be set", "http_server_config: {headers: {Host: x}}\n", `:1: http_server_config.headers.Host: is not a header that can be set; known ones are Content-Security-Policy, Strict-Transport-Security, X-Content-Type-Options, X-Frame-Options, X-XSS-Protection`},
	} {
		path := inFolder(t, c.text)
		if err := (Options{Address: ":9400", WebConfig: path}).Check(false); err == nil || err.Error() != path+c.want {
			t.Errorf("%s: %v\nwant %s", c.name, err, path+c.want)
		}
	}
}

func TestAWebConfigurationMayLeaveItPlain(t *testing.T) {
	a, err := New(Options{Address: ":9400", WebConfig: inFolder(t, "{}"), Log: slog.New(slog.DiscardHandler)})
	if err != nil || a.TLS != nil {
		t.Fatalf("TLS %v, %v", a, err)
	}
	if code, _ := get(t, a.Guard(page)); code != 200 {
		t.Errorf("everyone is answered with %d", code)
	}
}
