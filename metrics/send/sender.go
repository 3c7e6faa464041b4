package send

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"berth.dev/berth/internal/buildinfo"
	"berth.dev/berth/internal/pause"
	"berth.dev/berth/metrics/store"
)

// The bounds of what is sent.
const (
	mostUnsent = 200_000          // samples that wait: beyond it the oldest go
	perRequest = 2000             // samples
	patience   = 10 * time.Second // for one request
	firstWait  = time.Second      // before a request that failed is sent again; it doubles
	longest    = time.Minute      // of these waits
	mostAsked  = 10 * time.Minute // that a receiver may ask to wait for, by Retry-After
	mostAnswer = 64 << 10         // bytes of an answer that are read
	sayEvery   = 5 * time.Minute  // what is dropped is logged at most so often
)

// protocol is how samples are written, and what answers mean.
type protocol interface {
	headers() map[string]string
	encode(points []point) ([]byte, error)
	again(status int) bool                     // whether a request with this answer is sent again
	refused(body []byte) (n int64, why string) // samples that were not taken, by an answer that all is well
}

// Log says what people should know: err is nil if it is good news.
type Log func(text string, err error, pairs ...any)

// Sender sends samples to one receiver. Safe for concurrent use.
type Sender struct {
	protocol
	url, to string
	queue   *queue
	client  *http.Client
	first   time.Duration
	log     Log

	sent, full, refusals atomic.Int64
	failing              bool      // only Run has it, and what follows
	said                 time.Time // when drops were last logged
	told                 int64     // drops that were logged
}

// RemoteWrite sends to a receiver of Prometheus' remote write, by a transport, where nil is http.DefaultTransport.
func RemoteWrite(to *url.URL, by http.RoundTripper, log Log) *Sender {
	return newSender(remoteWrite{}, to, by, log)
}

// OTLP does the same for a receiver of OTLP over HTTP. A URL without a path is that of a collector, whose path is /v1/metrics. counter reports whether
// a metric is a counter.
func OTLP(to *url.URL, by http.RoundTripper, counter func(name string) bool, log Log) *Sender {
	if strings.Trim(to.Path, "/") == "" {
		to = to.JoinPath("/v1/metrics")
	}
	return newSender(otlp{counter}, to, by, log)
}

func newSender(p protocol, to *url.URL, by http.RoundTripper, log Log) *Sender {
	shown := url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path} // no password, and no query, which may have a token
	return &Sender{
		protocol: p, url: to.String(), to: shown.String(), queue: newQueue(mostUnsent), first: firstWait, log: log,
		client: &http.Client{Transport: by, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// Put has samples sent. It does not wait, and keeps samples.
func (s *Sender) Put(at time.Time, samples []store.Sample) {
	if n := s.queue.put(batch{at, samples}); n > 0 {
		s.full.Add(int64(n))
	}
}

// Run sends until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	for {
		points := s.queue.take(ctx, perRequest)
		if points == nil {
			return
		}
		s.deliver(ctx, points)
	}
}

// deliver sends points until they are taken or refused, or ctx ends.
func (s *Sender) deliver(ctx context.Context, points []point) {
	body, err := s.encode(points)
	if err != nil {
		s.drop(int64(len(points)), fmt.Errorf("write them for %s: %w", s.to, err))
		return
	}
	for wait := s.first; ; wait = min(2*wait, longest) {
		got := s.post(ctx, body)
		if got.err == nil {
			s.taken(int64(len(points)), &got)
			return
		}
		if !got.again {
			s.drop(int64(len(points)), got.err)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if !s.failing {
			s.failing = true
			s.log("Readings are not taken; they are kept, within bounds, and sent again", got.err, "receiver", s.to)
		}
		s.sayDrops(nil)
		if !pause.For(ctx, max(wait, min(got.after, mostAsked))) {
			return
		}
	}
}

// taken counts what a receiver has.
func (s *Sender) taken(n int64, got *result) {
	if s.failing {
		s.failing = false
		s.log("Readings are taken again", nil, "receiver", s.to)
	}
	refused := min(n, max(0, got.refused))
	s.sent.Add(n - refused)
	if refused > 0 {
		s.drop(refused, fmt.Errorf("%s has not taken all: %s", s.to, got.why))
		return
	}
	s.sayDrops(nil)
}

func (s *Sender) drop(n int64, why error) {
	s.refusals.Add(n)
	s.sayDrops(why)
}

// sayDrops logs how many samples were dropped since it last did.
func (s *Sender) sayDrops(why error) {
	dropped := s.full.Load() + s.refusals.Load()
	if now := time.Now(); dropped > s.told && now.Sub(s.said) >= sayEvery {
		if why == nil {
			why = fmt.Errorf("%d samples wait for %s, and there is room for no more", s.queue.len(), s.to)
		}
		s.log("Samples were dropped", why, "receiver", s.to, "samples", dropped-s.told)
		s.said, s.told = now, dropped
	}
}

// result is the answer to a request.
type result struct {
	err     error
	again   bool          // it may be taken later
	after   time.Duration // that the receiver asks to wait
	refused int64         // samples
	why     string
}

func (s *Sender) post(ctx context.Context, body []byte) result {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return result{err: err}
	}
	for name, v := range s.headers() {
		req.Header.Set(name, v)
	}
	req.Header.Set("User-Agent", "berth/"+buildinfo.Version)
	resp, err := s.client.Do(req)
	if err != nil {
		return result{err: fmt.Errorf("send readings to %s: %w", s.to, short(err)), again: true}
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, mostAnswer)) // for what it says; the status is the answer
	if resp.StatusCode/100 == 2 {
		n, why := s.refused(raw)
		return result{refused: n, why: why}
	}
	return result{
		err:   fmt.Errorf("send readings to %s: it responds with status %s: %s", s.to, resp.Status, firstLine(raw)),
		again: s.again(resp.StatusCode), after: retryAfter(resp.Header.Get("Retry-After"), time.Now()),
	}
}

// retryAfter reads the header: seconds, or a date. 0 is none.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(max(0, min(seconds, 86400))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
