package outbound_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth.dev/berth/internal/outbound"
)

// inFolder writes files into a folder, and returns the path of one of credentials.
func inFolder(t *testing.T, files map[string]string) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, filepath.Join(dir, "credentials.yaml")
}

// said is a server that answers with the Authorization of each request.
func said(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, r.Header.Get("Authorization"))
}

// get returns the body of an answer.
func get(t *testing.T, by http.RoundTripper, url string) (string, error) {
	t.Helper()
	answer, err := (&http.Client{Transport: by}).Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	return string(raw), err
}

func TestCredentialsGoToTheirURLs(t *testing.T) {
	here, other := httptest.NewServer(http.HandlerFunc(said)), httptest.NewServer(http.HandlerFunc(said))
	defer here.Close()
	defer other.Close()
	dir, path := inFolder(t, map[string]string{"token": "first\n", "credentials.yaml": `
urls:
- url: ` + here.URL + `
  authorization: {credentials_file: token}
- url: ` + here.URL + `/team/
  basic_auth: {username: berth, password: "a b"}
- url: ` + here.URL + `/plain
- url: ` + here.URL + `/key
  authorization: {type: Key, credentials: k}
`})
	c, err := outbound.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, url, want string }{
		{"a URL below the one of the file", here.URL + "/api/v1/query?query=up", "Bearer first"},
		{"the longest that fits", here.URL + "/team/api", "Basic YmVydGg6YSBi"},
		{"the URL itself", here.URL + "/team", "Basic YmVydGg6YSBi"},
		{"a path that only begins with the same letters", here.URL + "/teams", "Bearer first"},
		{"a URL without any", here.URL + "/plain/x", ""},
		{"another kind of authorization", here.URL + "/key", "Key k"},
		{"another host", other.URL + "/team", ""},
		{"a password in the URL stays", strings.Replace(here.URL, "//", "//u:p@", 1), "Basic dTpw"},
	} {
		if got, err := get(t, c, tt.url); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := get(t, c, here.URL); err != nil || got != "Bearer second" {
		t.Errorf("after the token has changed: %q, %v", got, err)
	}
	if err := os.Remove(filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, c, here.URL); err == nil || !strings.Contains(err.Error(), "authorize the request to "+strings.TrimPrefix(here.URL, "http://")+": credentials_file: open ") {
		t.Errorf("without the token: %v", err)
	}
	if got, err := get(t, (*outbound.Credentials)(nil), here.URL); err != nil || got != "" {
		t.Errorf("without credentials: %q, %v", got, err)
	}
}

func TestARedirectToAnotherHostGetsNoCredentials(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(said))
	defer other.Close()
	here := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer here.Close()
	_, path := inFolder(t, map[string]string{"credentials.yaml": "urls: [{url: " + here.URL + ", authorization: {credentials: secret}}]"})
	c, err := outbound.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := get(t, c, here.URL); err != nil || got != "" {
		t.Errorf("the other host gets %q, %v", got, err)
	}
}

func TestAServerWithItsOwnCertificateIsTrustedByName(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(said))
	defer s.Close()
	s.Config.ErrorLog = nil
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	_, path := inFolder(t, map[string]string{"ca.crt": ca, "credentials.yaml": "urls: [{url: " + s.URL + ", tls_config: {ca_file: ca.crt}, authorization: {credentials: a}}]"})
	c, err := outbound.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := get(t, c, s.URL); err != nil || got != "Bearer a" {
		t.Errorf("with its certificate: %q, %v", got, err)
	}
	if _, err := get(t, (*outbound.Credentials)(nil), s.URL); err == nil {
		t.Error("without its certificate it is trusted")
	}
}

func TestCredentialsThatCannotBeMeantAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a file without any", "urls: []", "credentials.yaml has no credentials; list them under urls, each with a url"},
		{"a field that is not known", "urls:\n- url: http://a\n  bearer_token: x", "credentials.yaml:3"},
		{"no URL", "urls: [{authorization: {credentials: a}}]", `urls[0]: invalid url ""`},
		{"a URL of another scheme", "urls: [{url: ftp://a}]", `urls[0]: invalid url "ftp://a"`},
		{"a URL with a password", "urls: [{url: 'http://u:p@a'}]", "without a user or a query"},
		{"two ways at once", "urls: [{url: http://a, authorization: {credentials: a}, basic_auth: {username: b, password: c}}]", "authorization and basic_auth are both set; remove one"},
		{"a token twice", "urls: [{url: http://a, authorization: {credentials: a, credentials_file: b}}]", "credentials and credentials_file are both set; remove one"},
		{"no token", "urls: [{url: http://a, authorization: {type: Bearer}}]", "set credentials or credentials_file"},
		{"a file that is not there", "urls: [{url: http://a, authorization: {credentials_file: none}}]", "credentials_file: open "},
		{"a file of two lines", "urls: [{url: http://a, basic_auth: {username: u, password_file: two}}]", "two must have one line of text"},
		{"a token without an end", "urls: [{url: http://a, authorization: {credentials_file: /dev/zero}}]", "credentials_file: "},
		{"a certificate that is not there", "urls: [{url: https://a, tls_config: {ca_file: none}}]", "tls_config: "},
	} {
		_, path := inFolder(t, map[string]string{"two": "a\nb\n", "credentials.yaml": tt.text})
		if _, err := outbound.Read(path); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: the error is %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := outbound.Read("nowhere.yaml"); err == nil || !strings.Contains(err.Error(), "read credentials: open nowhere.yaml") {
		t.Errorf("of a file that is not there: %v", err)
	}
}
