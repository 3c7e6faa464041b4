package rules

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	mostUnsent = 1000             // alerts that wait to be sent: then the oldest go
	sendTime   = 10 * time.Second // for one request
)

// message is what a receiver of Alertmanager's webhooks is sent, version 4.
type message struct {
	Version     string            `json:"version"`
	GroupKey    string            `json:"groupKey"`
	Status      string            `json:"status"` // firing if any of the alerts is
	Receiver    string            `json:"receiver"`
	GroupLabels map[string]string `json:"groupLabels"`
	Common      map[string]string `json:"commonLabels"`
	Annotations map[string]string `json:"commonAnnotations"`
	ExternalURL string            `json:"externalURL"`
	Truncated   int               `json:"truncatedAlerts"` // that were never sent
	Alerts      []sent            `json:"alerts"`
}

type sent struct {
	Status       string            `json:"status"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"` // zero is that it goes on
	GeneratorURL string            `json:"generatorURL"`
	Fingerprint  string            `json:"fingerprint"`
}

// Sender sends alerts to a receiver of webhooks. A receiver that does not answer is asked again, and nothing waits for it.
type Sender struct {
	url    string
	client *http.Client
	again  time.Duration

	mu     sync.Mutex
	unsent []sent
	lost   int
	wake   chan struct{}
}

// NewSender sends to a URL by a transport, where nil is http.DefaultTransport. A receiver that did not take alerts is asked again after a while.
func NewSender(url string, by http.RoundTripper, again time.Duration) *Sender {
	return &Sender{url: url, client: &http.Client{Transport: by, Timeout: sendTime}, again: again, wake: make(chan struct{}, 1)}
}

// Send has sent what has begun to fire, and what has ended at a moment. It does not wait.
func (s *Sender) Send(at time.Time, fires, ended []Alert) {
	if len(fires)+len(ended) == 0 {
		return
	}
	s.mu.Lock()
	for i := range fires {
		s.unsent = append(s.unsent, sentOf(&fires[i], "firing", time.Time{}))
	}
	for i := range ended {
		s.unsent = append(s.unsent, sentOf(&ended[i], "resolved", at))
	}
	if over := len(s.unsent) - mostUnsent; over > 0 {
		s.unsent, s.lost = s.unsent[over:], s.lost+over
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func sentOf(a *Alert, status string, ends time.Time) sent {
	return sent{status, a.Labels.Map(), a.Annotations, a.Since.UTC(), ends.UTC(), "", fmt.Sprintf("%016x", a.Labels.Hash())}
}

// Run sends until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for !s.flush(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(s.again):
			}
		}
	}
}

// flush sends what there is, and reports whether it was taken.
func (s *Sender) flush(ctx context.Context) bool {
	s.mu.Lock()
	list, lost := s.unsent, s.lost
	s.mu.Unlock()
	if len(list) == 0 {
		return true
	}
	m := message{
		Version: "4", GroupKey: "berth", Status: "resolved", Receiver: "berth", GroupLabels: map[string]string{}, Common: map[string]string{}, Annotations: map[string]string{},
		Truncated: lost, Alerts: list,
	}
	for i := range list {
		if list[i].Status == "firing" {
			m.Status = "firing"
		}
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return true // then it can never be sent
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(raw))
	if err != nil {
		return true
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "berth")
	resp, err := s.client.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)) // so that the connection can be used again
	_ = resp.Body.Close()
	if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Newer alerts stay, also if the oldest had to go.
	gone := min(len(list)-(s.lost-lost), len(s.unsent))
	s.unsent, s.lost = s.unsent[max(0, gone):], s.lost-lost
	return len(s.unsent) == 0
}
