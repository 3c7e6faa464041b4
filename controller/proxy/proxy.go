// Package proxy reads what pods and Services of a cluster serve, through the API server's proxy: pages, and the metrics of GPUs.
package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Through asks by the API server's proxy, whose URL is root: of Services, and of
// exporters.
func Through(client *http.Client, cfg *rest.Config) (c *http.Client, root string, err error) {
	host, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("address of the API server %q: %w", cfg.Host, err)
	}
	own := *client
	own.CheckRedirect = NoRedirect
	return &own, strings.TrimSuffix(host.String(), "/") + "/api/v1/namespaces/", nil
}

// NoRedirect lets an answer stand that sends to a page for people, such as a login.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Fetch gets a body of at most size bytes, with more headers.
func Fetch(ctx context.Context, client *http.Client, url string, size int64, header http.Header) ([]byte, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Accept", "application/json, text/plain")
	req.Header.Set("User-Agent", "berth")
	resp, err := client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	raw, err := readAll(io.LimitReader(resp.Body, size+1))
	switch {
	case err != nil:
		return nil, resp.StatusCode, err
	case int64(len(raw)) > size:
		return nil, resp.StatusCode, fmt.Errorf("its response is larger than %d bytes", size)
	case resp.StatusCode != http.StatusOK:
		var s metav1.Status
		if json.Unmarshal(raw, &s) == nil && s.Kind == "Status" && s.APIVersion == "v1" {
			return nil, resp.StatusCode, errors.New(s.Message)
		}
	}
	return raw, resp.StatusCode, nil
}

// rooms are what bodies are read into, one after the other, so only their copies are garbage later.
var rooms = sync.Pool{New: func() any { return &bytes.Buffer{} }} //nolint:gochecknoglobals // memory, and no state

// mostKept is the largest room that is kept for the next body.
const mostKept = 1 << 20

// readAll is io.ReadAll without what that leaves behind while it grows.
func readAll(r io.Reader) ([]byte, error) {
	b := rooms.Get().(*bytes.Buffer)
	b.Reset()
	_, err := b.ReadFrom(r)
	raw := bytes.Clone(b.Bytes())
	if b.Cap() <= mostKept {
		rooms.Put(b)
	}
	return raw, err
}

// Short is an error without the URL that net/http puts before it. longest is how
// long an answer was waited for.
func Short(err error, longest time.Duration) string {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no response within " + longest.String()
	}
	text := err.Error()
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "..."
	}
	return text
}
