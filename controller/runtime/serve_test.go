package runtime

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"berth.dev/berth/internal/listen"
)

// get asks for a URL, whoever signed its certificate.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestServeWithoutTLS(t *testing.T) {
	l, plain, err := listen.On("http://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan bool)
	ctx, cancel := context.WithCancel(t.Context())
	stop, err := serve(ctx, l, plain, Options{}, &rest.Config{}, func(context.Context) bool { return <-seen })
	if err != nil {
		t.Fatal(err)
	}
	at := "http://" + l.Addr().String()
	for path, want := range map[string]int{"/healthz": 200, "/livez": 200, "/readyz": 503, "/metrics": 200, "/debug/pprof/heap": 200, "/api": 404} {
		if code, body := get(t, at+path); code != want {
			t.Errorf("%s: %d, want %d:\n%s", path, code, want, body)
		}
	}
	seen <- true
	for code := 0; code != 200; { // the flag follows the channel
		code, _ = get(t, at+"/readyz")
	}
	if _, body := get(t, at+"/metrics"); strings.Count(body, "\ngo_goroutines ") != 1 {
		t.Errorf("/metrics lacks the process's own, or has them twice:\n%.500s", body)
	}
	cancel()
	if code, _ := get(t, at+"/readyz"); code != 503 {
		t.Errorf("/readyz: %d when it is stopping, want 503", code)
	}
	stop()
	if err := l.Close(); !errors.Is(err, net.ErrClosed) { // to dial would find whoever has the port by now
		t.Errorf("it still listens after it was stopped: closing it gives %v", err)
	}
}

// TestServeWithTLS asks without an identity: health is for everybody, and metrics
// are not. Nobody answers at the API server, so nobody is known.
func TestServeWithTLS(t *testing.T) {
	dir := t.TempDir()
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("controllers.example", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(dir, "c"), filepath.Join(dir, "k")
	for name, text := range map[string][]byte{certFile: certPEM, keyFile: keyPEM} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []Options{{}, {CertFile: certFile, KeyFile: keyFile}} {
		l, plain, err := listen.On("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		stop, err := serve(t.Context(), l, plain, o, &rest.Config{Host: "http://127.0.0.1:1"}, func(context.Context) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		at := "https://" + l.Addr().String()
		for path, want := range map[string]int{"/livez": 200, "/metrics": 401, "/debug/pprof/heap": 401, "/readyz/x": 401} {
			if code, body := get(t, at+path); code != want {
				t.Errorf("%s: %d, want %d:\n%s", path, code, want, body)
			}
		}
		stop()
	}
	l, _, err := listen.On("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := serve(t.Context(), l, false, Options{CertFile: "none", KeyFile: "none"}, &rest.Config{}, nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a certificate that is not there gives %v", err)
	}
}

func TestInTurn(t *testing.T) {
	first, second := prometheus.NewRegistry(), prometheus.NewRegistry()
	for i, r := range []*prometheus.Registry{first, second} {
		both := prometheus.NewGauge(prometheus.GaugeOpts{Name: "both", Help: "In both."})
		both.Set(float64(i + 1))
		r.MustRegister(both, prometheus.NewGauge(prometheus.GaugeOpts{Name: []string{"one", "two"}[i], Help: "In one."}))
	}
	got, err := inTurn{first, second}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range got {
		names = append(names, f.GetName())
		if f.GetName() == "both" && f.Metric[0].Gauge.GetValue() != 1 {
			t.Errorf("both is %v, want that of the first", f.Metric[0])
		}
	}
	if strings.Join(names, " ") != "both one two" {
		t.Errorf("families %v, want both one two", names)
	}
}
