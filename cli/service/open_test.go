package service

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestRequestsGoThroughTheAPIServer(t *testing.T) {
	var asked string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Authorization") + " " + string(body)
		_, _ = w.Write([]byte("answer"))
	}))
	defer api.Close()
	for _, base := range []string{"", "/base"} {
		requestsThrough(t, &rest.Config{Host: api.URL + base, BearerToken: "mine"}, base, &asked)
	}
}

// requestsThrough sends requests to a service of an API server at base, which notes what it is asked.
func requestsThrough(t *testing.T, config *rest.Config, base string, asked *string) {
	t.Helper()
	handler, err := forwarder(config, []string{"namespaces", "team", "services", "mnist:80", "proxy"}, "mnist", 8080)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, host, origin, site string
		status                   int
	}{
		{"a program", "127.0.0.1:8080", "", "", 200},
		{"a page from here", "localhost:8080", "http://localhost:8080", "same-origin", 200},
		{"a page of another origin", "127.0.0.1:8080", "https://evil.example", "cross-site", 403},
		{"a page of another port of this machine", "127.0.0.1:8080", "http://127.0.0.1:8888", "same-site", 403},
		{"an image on a page of another origin, which sends no Origin", "127.0.0.1:8080", "", "cross-site", 403},
		{"a name that resolves to this machine", "evil.example:8080", "", "", 403},
		{"another port of this machine", "127.0.0.1:8081", "", "", 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			*asked = ""
			r := httptest.NewRequest(http.MethodPost, "/v1/models/mnist:predict?a=b", strings.NewReader("{}"))
			r.Host = tt.host
			r.Header.Set("Authorization", "Bearer other")
			if tt.site != "" {
				r.Header.Set("Sec-Fetch-Site", tt.site)
			}
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != tt.status {
				t.Errorf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			want := "POST " + base + "/api/v1/namespaces/team/services/mnist:80/proxy/v1/models/mnist:predict?a=b Bearer mine {}"
			if tt.status == http.StatusOK && *asked != want || tt.status != http.StatusOK && *asked != "" {
				t.Errorf("the API server is asked %q, want %q", *asked, want)
			}
		})
	}
}
