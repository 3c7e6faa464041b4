package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
)

// judge is an API server that knows tokens by their text, "NAME" or "NAME for AUDIENCE",
// and lets those get /metrics who are called prometheus.
type judge struct {
	mu      sync.Mutex
	asked   int
	away    bool
	revoked bool
}

func (j *judge) client() *fake.Clientset {
	c := fake.NewClientset()
	c.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.asked++
		if j.away {
			return true, nil, errors.New("connection refused")
		}
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		name, audience, _ := strings.Cut(review.Spec.Token, " for ")
		wants := strings.Join(review.Spec.Audiences, ",")
		review.Status.Authenticated = !j.revoked && audience == wants && name != "forged"
		review.Status.User.Username, review.Status.Audiences = name, review.Spec.Audiences
		return true, review, nil
	})
	c.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		n := review.Spec.NonResourceAttributes
		review.Status.Allowed = n != nil && n.Verb == "get" && (review.Spec.User == "prometheus" && n.Path == "/metrics" || review.Spec.User == "meter" && n.Path == "/record")
		return true, review, nil
	})
	return c
}

func (j *judge) questions() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.asked
}

var page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "pod=\"secret\"") })

// get asks a handler with headers, as name and value.
func get(t testing.TB, h http.Handler, header ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestTheRecordNeedsAnotherRight has one who may read the metrics and one who may read the record ask for both, twice.
func TestTheRecordNeedsAnotherRight(t *testing.T) {
	a, err := New(Options{Address: ":9400", API: (&judge{}).client()})
	if err != nil {
		t.Fatal(err)
	}
	h := a.Guard(page)
	for range 2 {
		for _, c := range []struct {
			user, path, says string
			want             int
		}{
			{"prometheus", "/metrics", "secret", http.StatusOK},
			{"prometheus", "/record", "prometheus may not get the nonResourceURL /record; the ClusterRole berth-record-reader allows it", http.StatusForbidden},
			{"meter", "/record", "secret", http.StatusOK},
			{"meter", "/metrics", "the ClusterRole berth-metrics-reader allows it", http.StatusForbidden},
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, nil)
			r.Header.Set("Authorization", "Bearer "+c.user)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.want || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%s gets %s: status %d, %s", c.user, c.path, w.Code, w.Body)
			}
		}
	}
}

func TestOnlyWhomTheAPIServerLetsMayRead(t *testing.T) {
	j := &judge{}
	a, err := New(Options{Address: ":9400", API: j.client()})
	if err != nil {
		t.Fatal(err)
	}
	h := a.Guard(page)
	for _, c := range []struct {
		name   string
		header []string
		want   int
	}{
		{"nobody", nil, 401},
		{"a password", []string{"Authorization", "Basic cHJvbWV0aGV1czo="}, 401},
		{"a token of nobody", []string{"Authorization", "Bearer forged"}, 401},
		{"somebody without the right", []string{"Authorization", "Bearer tenant"}, 403},
		{"somebody with it", []string{"Authorization", "Bearer prometheus"}, 200},
		{"a token for the metrics, through the API server", []string{api.MetricsTokenHeader, "prometheus for berth-metrics"}, 200},
		{"a token for the metrics, where one for the API server is wanted", []string{"Authorization", "Bearer prometheus for berth-metrics"}, 401},
		{"a token for the API server, through it", []string{api.MetricsTokenHeader, "prometheus"}, 401},
		{"a token for the metrics of somebody without the right", []string{api.MetricsTokenHeader, "tenant for berth-metrics"}, 403},
		{"a token that is a book", []string{"Authorization", "Bearer " + strings.Repeat("x", 1<<20)}, 401},
	} {
		code, text := get(t, h, c.header...)
		if code != c.want || (code == 200) != strings.Contains(text, "secret") {
			t.Errorf("%s: %d %q, want %d", c.name, code, text, c.want)
		}
	}
}

func TestTheAPIServerIsAskedSeldom(t *testing.T) {
	now := time.Unix(1e9, 0)
	j := &judge{}
	var log strings.Builder
	o := Options{Address: "https://127.0.0.1:0", API: j.client(), Log: slog.New(slog.NewTextHandler(&log, nil)), now: func() time.Time { return now }}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := a.Guard(page)
	scrape := func(want, questions int, what string) {
		t.Helper()
		before := j.questions()
		if code, _ := get(t, h, "Authorization", "Bearer prometheus"); code != want || j.questions()-before != questions {
			t.Errorf("%s: %d after %d questions, want %d after %d", what, code, j.questions()-before, want, questions)
		}
	}
	scrape(200, 1, "the first scrape")
	now = now.Add(15 * time.Second)
	scrape(200, 0, "the next one")
	now = now.Add(5 * time.Minute)
	scrape(200, 1, "one after five minutes")
	j.away = true
	now = now.Add(50 * time.Minute)
	scrape(200, 1, "one while the API server is away")
	now = now.Add(11 * time.Minute)
	scrape(503, 1, "one when it has been away for an hour")
	if !strings.Contains(log.String(), "connection refused") {
		t.Errorf("the log says %q", log.String())
	}
	j.away, j.revoked = false, true
	scrape(401, 1, "one whose token was revoked")
	scrape(401, 0, "the next one of those")
	j.revoked = false
	now = now.Add(31 * time.Second)
	scrape(200, 1, "one whose token is good again")
}

// TestStrangersAreBounded sends many tokens: the API server is asked no faster, the
// memory does not grow, and who was let in stays so.
func TestStrangersAreBounded(t *testing.T) {
	j := &judge{}
	r := newReviewer(j.client(), slog.New(slog.DiscardHandler), time.Now)
	h := r.guard(page)
	if code, _ := get(t, h, "Authorization", "Bearer prometheus"); code != 200 {
		t.Fatal(code)
	}
	for i := range 500 {
		get(t, h, "Authorization", "Bearer forged"+strconv.Itoa(i))
	}
	if n := j.questions(); n > 100 {
		t.Errorf("the API server was asked %d times", n)
	}
	r.limit = nobodysLimit{}
	for i := range 2 * mostKnown {
		get(t, h, "Authorization", "Bearer x"+strconv.Itoa(i))
	}
	if len(r.known) > mostKnown {
		t.Errorf("%d answers are remembered", len(r.known))
	}
	j.mu.Lock()
	j.away = true
	j.mu.Unlock()
	if code, _ := get(t, h, "Authorization", "Bearer prometheus"); code != 200 {
		t.Errorf("who was let in is answered with %d", code)
	}
}

// nobodysLimit lets everything through.
type nobodysLimit struct{}

func (nobodysLimit) TryAccept() bool            { return true }
func (nobodysLimit) Accept()                    {}
func (nobodysLimit) Stop()                      {}
func (nobodysLimit) QPS() float32               { return 0 }
func (nobodysLimit) Wait(context.Context) error { return nil }

func TestPlainOnlyWhereItIsChosen(t *testing.T) {
	for _, c := range []struct {
		name, address string
		api           bool
		plain         bool
		err           string
	}{
		{name: "any address", address: ":9400", api: true},
		{name: "an address of the node", address: "10.0.0.1:9400", api: true},
		{name: "plain for everyone", address: "http://:9400", api: true, plain: true},
		{name: "plain for everyone without an API server", address: "http://0.0.0.0:9400", plain: true},
		{name: "a loopback address", address: "127.0.0.1:9400", api: true, plain: true},
		{name: "localhost", address: "localhost:9400", plain: true},
		{name: "a loopback address that is to be secured", address: "https://127.0.0.1:9400", api: true},
		{name: "nobody to ask", address: ":9400", err: "--listen :9400: without an API server, the agent cannot check who may read the metrics: set --web-config-file, or --listen http://:9400 to serve everyone"},
		{name: "no address", address: "9400", api: true, err: `--listen "9400": address 9400: missing port in address; write host:port, such as :9400`},
	} {
		o := Options{Address: c.address}
		if c.api {
			o.API = (&judge{}).client()
		}
		a, err := New(o)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: %v, want %s", c.name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if (a.TLS == nil) != c.plain || strings.Contains(a.Address, "/") {
			t.Errorf("%s: TLS %v, at %s; want plain %v", c.name, a.TLS != nil, a.Address, c.plain)
		}
		h := a.Guard
		if h == nil {
			h = func(next http.Handler) http.Handler { return next }
		}
		own, rebound := 401, 401
		if c.plain {
			own, rebound = 200, 200
			if local(a.Address) {
				rebound = 403
			}
		}
		for host, want := range map[string]int{"127.0.0.1:9400": own, "page.example:9400": rebound} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
			r.Host = host
			w := httptest.NewRecorder()
			h(page).ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s: a request for %s is answered with %d, want %d", c.name, host, w.Code, want)
			}
		}
	}
	if _, err := New(Options{Address: ":0", API: (&judge{}).client(), CertFile: "c"}); err == nil || !strings.Contains(err.Error(), "must be set together") {
		t.Errorf("a certificate without a key: %v", err)
	}
}

// writePair writes a certificate for name, and gives its files.
func writePair(t *testing.T, dir, name string) (certFile, keyFile string) {
	t.Helper()
	pair, err := selfSigned(name)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	certFile, keyFile = filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	for path, data := range map[string][]byte{certFile: certPEM, keyFile: keyPEM} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// shown is the name of the certificate that a server shows.
func shown(t *testing.T, c *tls.Config, client *tls.Config) (string, error) {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		s := tls.Server(far, c)
		_ = s.Handshake()
		_, _ = s.Write([]byte("x"))
		_ = s.Close()
	}()
	if client == nil {
		client = &tls.Config{}
	}
	client.InsecureSkipVerify = true
	conn := tls.Client(near, client)
	if err := conn.HandshakeContext(t.Context()); err != nil {
		return "", err
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil { // TLS 1.3 refuses a client's certificate late
		return "", err
	}
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func TestACertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := writePair(t, dir, "first")
	a, err := New(Options{Address: ":0", API: (&judge{}).client(), CertFile: certFile, KeyFile: keyFile})
	if err != nil {
		t.Fatal(err)
	}
	if name, err := shown(t, a.TLS, nil); err != nil || !strings.HasPrefix(name, "first") {
		t.Errorf("the certificate is %s, %v", name, err)
	}
	writePair(t, dir, "the-second")
	if name, err := shown(t, a.TLS, nil); err != nil || !strings.HasPrefix(name, "the-second") {
		t.Errorf("after a change the certificate is %s, %v", name, err)
	}
	if err := os.WriteFile(certFile, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if name, err := shown(t, a.TLS, nil); err != nil || !strings.HasPrefix(name, "the-second") {
		t.Errorf("after a change that is wrong the certificate is %s, %v", name, err)
	}
}

// BenchmarkGuard is what it costs a scrape that its caller is known.
func BenchmarkGuard(b *testing.B) {
	h := newReviewer((&judge{}).client(), slog.New(slog.DiscardHandler), time.Now).guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", nil)
	r.Header.Set("Authorization", "Bearer prometheus")
	w := httptest.NewRecorder()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
	if w.Code != http.StatusOK {
		b.Fatal(w.Code)
	}
}
