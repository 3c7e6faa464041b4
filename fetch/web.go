package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

// web is a file at an address.
type web struct {
	client *http.Client
	url    *url.URL
	header http.Header // of each request
}

// webSource reads http://HOST/FILE. The variable HOST-headers has headers as a JSON object, as with KServe.
func webSource(src string, o *Options) (source, error) {
	u, err := url.Parse(src)
	if err != nil {
		return nil, fmt.Errorf("the address %s is not one: %s", bare(src), reason(err))
	}
	if name := path.Base(u.Path); name == "." || name == "/" || strings.HasSuffix(u.Path, "/") {
		return nil, fmt.Errorf("%s names no file; write https://HOST/PATH/FILE, where FILE may be an archive (.tar, .tar.gz, .tgz, .zip)", bare(src))
	}
	w := &web{url: u, header: http.Header{}}
	if w.client, err = client(o); err != nil {
		return nil, err
	}
	if text := o.Getenv(u.Hostname() + "-headers"); text != "" {
		var list map[string]string
		if json.Unmarshal([]byte(text), &list) != nil {
			return nil, fmt.Errorf("the variable %s-headers is not a JSON object of strings", u.Hostname())
		}
		for name, value := range list {
			w.header.Set(name, value)
		}
	}
	return w, nil
}

func (w *web) list(context.Context) ([]file, error) {
	return []file{{path: path.Base(w.url.Path), size: -1, open: w.open}}, nil
}

func (w *web) open(ctx context.Context, from int64, have string) (*content, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("download %s: %s", bare(w.url.String()), reason(err))
	}
	maps.Copy(r.Header, w.header)
	return get(w.client, r, from, have)
}

// get sends a request for a file, from a byte on, or only if its version is not have.
func get(client *http.Client, r *http.Request, from int64, have string) (*content, error) {
	r.Header.Set("Accept-Encoding", "identity") // else a range is one of other bytes
	dated := strings.HasSuffix(have, " GMT")
	switch {
	case from > 0 && have != "":
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		r.Header.Set("If-Range", have)
	case from < 0 && dated:
		r.Header.Set("If-Modified-Since", have)
	case from < 0 && have != "":
		r.Header.Set("If-None-Match", have)
	}
	a, err := client.Do(r)
	if err != nil {
		return nil, unreachable(r, err)
	}
	c := &content{body: a.Body, size: a.ContentLength, tag: tagOf(a.Header)}
	switch a.StatusCode {
	case http.StatusOK:
		if kind := a.Header.Get("Content-Type"); strings.HasPrefix(kind, "text/html") && !strings.Contains(path.Ext(r.URL.Path), "htm") {
			err = fmt.Errorf("GET %s: the server sends a web page, and not the file; use the address of the file itself", bare(r.URL.String()))
		} else if a.ContentLength < 0 && a.ProtoMajor < 2 && len(a.TransferEncoding) == 0 {
			err = fmt.Errorf("GET %s: the server does not say how long the file is, and a connection that breaks would look like its end; use a server that sends Content-Length", bare(r.URL.String()))
		}
		c.sum = sumOf(a.Header, true)
	case http.StatusPartialContent:
		if c.from, c.size, err = rangeOf(a.Header.Get("Content-Range")); err == nil && c.from != from {
			err = fmt.Errorf("it begins at %d, and not at %d", c.from, from)
		}
		if err != nil {
			err = fmt.Errorf("GET %s: the server sends a part that was not asked for: %w", bare(r.URL.String()), err)
		}
		c.tag, c.sum = have, sumOf(a.Header, false)
	case http.StatusNotModified:
		err = errSame
	case http.StatusRequestedRangeNotSatisfiable:
		err = errRange
	default:
		err = refused(r, a)
	}
	if err != nil {
		_ = a.Body.Close()
		return nil, err
	}
	return c, nil
}

// tagOf is what names the version of a file: its ETag, or else when it was changed. A weak ETag names no bytes.
func tagOf(h http.Header) string {
	if tag := h.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	at := h.Get("Last-Modified")
	changed, err := http.ParseTime(at)
	sent, bad := http.ParseTime(h.Get("Date"))
	if err != nil || bad != nil || sent.Sub(changed) < 2*time.Second || !strings.HasSuffix(at, " GMT") { // it may change again within the second
		return ""
	}
	return at
}

// sumOf is the checksum that headers give of the whole file; whole is that the body is that.
func sumOf(h http.Header, whole bool) *sum {
	for item := range strings.SplitSeq(h.Get("Repr-Digest"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		if text := fromBase64(strings.Trim(value, ":"), 32); name == "sha-256" && text != "" {
			return sha256Of(text)
		}
	}
	for _, name := range []string{"X-Checksum-Sha256", "X-Linked-Etag"} {
		if text := strings.Trim(h.Get(name), `"`); isHex(text, 32) {
			return sha256Of(text)
		}
	}
	for _, line := range h.Values("X-Goog-Hash") {
		for item := range strings.SplitSeq(line, ",") {
			if value, ok := strings.CutPrefix(strings.TrimSpace(item), "md5="); ok && fromBase64(value, 16) != "" {
				return md5Of(fromBase64(value, 16))
			}
		}
	}
	if text := fromBase64(h.Get("Content-MD5"), 16); whole && text != "" {
		return md5Of(text)
	}
	return nil
}

// rangeOf reads "bytes 5-9/10".
func rangeOf(text string) (from, size int64, err error) {
	rest, ok := strings.CutPrefix(text, "bytes ")
	span, all, both := strings.Cut(rest, "/")
	first, _, dash := strings.Cut(span, "-")
	from, err = strconv.ParseInt(first, 10, 64)
	if !ok || !both || !dash || err != nil || from < 0 {
		return 0, 0, fmt.Errorf("Content-Range %q", short(text))
	}
	if all == "*" {
		return from, -1, nil
	}
	if size, err = strconv.ParseInt(all, 10, 64); err != nil || size < from {
		return 0, 0, fmt.Errorf("Content-Range %q", short(text))
	}
	return from, size, nil
}

// errDowngrade is a redirect from https to http.
var errDowngrade = errors.New("the server redirects from https to http, where any machine on the way could change the file; use the address that it redirects to, if you trust it")

// client makes a client that verifies TLS with the system's authorities and those of AWS_CA_BUNDLE.
func client(o *Options) (*http.Client, error) {
	transport, err := o.transport()
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		switch {
		case len(via) >= 10:
			return errors.New("the server redirects more than ten times")
		case via[len(via)-1].URL.Scheme == "https" && r.URL.Scheme != "https":
			return errDowngrade
		}
		return nil
	}}, nil
}
