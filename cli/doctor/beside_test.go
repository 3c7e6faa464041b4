package doctor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"berth.dev/berth/cli/client"
)

// TestServerSaysItsVersionTimeAndCertificate: one answer shows all three.
func TestServerSaysItsVersionTimeAndCertificate(t *testing.T) {
	at := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			t.Errorf("the doctor asks for %s", r.URL)
		}
		w.Header().Set("Date", at.Format(http.TimeFormat))
		fmt.Fprint(w, `{"gitVersion":"v1.36.3"}`)
	}))
	defer s.Close()
	c := &client.Cluster{Config: &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}}
	got := server(t.Context(), c, func() time.Time { return at.Add(25*time.Second + 500*time.Millisecond) })
	if got.Version != "v1.36.3" || got.Ahead != 25*time.Second {
		t.Errorf("the server is %+v", got)
	}
	if len(got.Certificates) != 1 || !got.Certificates[0].Ends.Equal(s.Certificate().NotAfter) {
		t.Errorf("the certificates are %+v, want the one that ends at %v", got.Certificates, s.Certificate().NotAfter)
	}
	s.Close()
	if got := server(t.Context(), c, time.Now); got.Version != "" || got.Ahead != 0 || len(got.Certificates) != 0 {
		t.Errorf("of a server that is gone something is known: %+v", got)
	}
}
