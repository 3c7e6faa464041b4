package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/internal/visible"
)

// Bounds of what is repeated of a server's answer, in bytes: of what is read, and of what is shown.
const (
	readWords  = 4 << 10
	shownWords = 160
)

// refused is the error of an answer that is none: what the server says, and what to do.
func refused(r *http.Request, a *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(a.Body, readWords)) // what came of it
	text := fmt.Sprintf("GET %s: the server says %s", bare(r.URL.String()), visible.Line(short(a.Status)))
	if words := strings.Join(strings.Fields(string(raw)), " "); words != "" && !strings.HasPrefix(words, "<") {
		text += ": " + visible.Line(short(words))
	}
	switch a.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		text += "; check the credentials, and that they may read this"
	case http.StatusNotFound, http.StatusGone:
		text += "; correct the address"
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(a.Header.Get("Retry-After")) // a date is not waited for
		return &passing{errors.New(text), time.Duration(max(0, min(seconds, 3600))) * time.Second}
	}
	return &refusedError{errors.New(text), a.StatusCode}
}

// refusedError is an answer that is none.
type refusedError struct {
	error
	code int
}

func (r *refusedError) Unwrap() error { return r.error }

// unreachable is the error of a request that got no answer.
func unreachable(r *http.Request, err error) error {
	text := fmt.Sprintf("GET %s: %s", bare(r.URL.String()), reason(err))
	var unknown x509.UnknownAuthorityError
	var verify *tls.CertificateVerificationError
	if errors.As(err, &unknown) || errors.As(err, &verify) {
		return fmt.Errorf("%s; name the server's authority in AWS_CA_BUNDLE", text)
	}
	if errors.Is(err, errDowngrade) {
		return errors.New(text)
	}
	return &passing{error: errors.New(text)}
}

// reason is an error without the address that Go puts before it.
func reason(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return visible.Line(err.Error())
}

// bare is an address without what may be secret in it: a user, and a query, in which signed addresses have their signature.
func bare(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		before, _, _ := strings.Cut(text, "?")
		return visible.Line(short(before))
	}
	u.User, u.RawQuery, u.Fragment, u.ForceQuery = nil, "", "", false
	return visible.Line(short(u.String()))
}

// short cuts a text of others.
func short(text string) string {
	if len(text) <= shownWords {
		return text
	}
	return strings.ToValidUTF8(text[:shownWords], "") + "..."
}

// size writes an amount of bytes for people.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, names := float64(n)/unit, []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i := 0
	for ; value >= unit && i < len(names)-1; i++ {
		value /= unit
	}
	return fmt.Sprintf("%.1f %s", value, names[i])
}

// transport returns what sends requests.
func (o *Options) transport() (http.RoundTripper, error) {
	if o.Transport != nil {
		return o.Transport, nil
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout, t.DisableCompression = stall, true
	name := o.Getenv("AWS_CA_BUNDLE")
	if name == "" {
		return t, nil
	}
	pem, err := os.ReadFile(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, fmt.Errorf("read the authorities of AWS_CA_BUNDLE: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("AWS_CA_BUNDLE: %s has no certificate in PEM", name)
	}
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return t, nil
}

// Sentence says what a download has brought.
func (r *Result) Sentence(dir string) string {
	files := fmt.Sprintf("%d files", len(r.Files))
	if len(r.Files) == 1 {
		files = "1 file"
	}
	text := fmt.Sprintf("%s, %s, in %s", files, size(r.Bytes), dir)
	if r.Kept > 0 {
		text += fmt.Sprintf("; %s of them were there before", size(r.Kept))
	}
	return text
}
