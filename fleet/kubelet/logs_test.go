package kubelet_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/fleet/kubelet"
)

// lines returns one line for each text, one second apart, the first at start.
func lines(start time.Time, texts ...string) []kubelet.Line {
	var out []kubelet.Line
	for i, text := range texts {
		out = append(out, kubelet.Line{At: start.Add(time.Duration(i) * time.Second), Text: text})
	}
	return out
}

// get asks the kubelet of a node.
func get(ctx context.Context, s *kubelet.Server, host, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func TestLogs(t *testing.T) {
	started := func(c kubelet.Container) kubelet.Container {
		// At 09:59:58, :59, 10:00:00 and, not yet printed, :01.
		c.Lines = lines(epoch.Add(-2*time.Second), "a", "b", "c", "later")
		return c
	}
	waiting := func(reason string) kubelet.Container {
		c := pod("p")
		c.State, c.Reason = kubelet.StateWaiting, reason
		return c
	}
	crashed := waiting("CrashLoopBackOff")
	crashed.RestartCount, crashed.Previous = 2, lines(epoch.Add(-time.Minute), "boom")
	restarted := started(pod("p"))
	restarted.RestartCount, restarted.Previous = 1, lines(epoch.Add(-time.Minute), "boom")
	tests := []struct {
		name   string
		c      kubelet.Container
		query  string
		status int
		want   string
	}{
		{"what has been printed is shown", started(pod("p")), "", 200, "a\nb\nc\n"},
		{"the last lines", started(pod("p")), "?tailLines=1", 200, "c\n"},
		{"no lines at all", started(pod("p")), "?tailLines=0", 200, ""},
		{"the last second", started(pod("p")), "?sinceSeconds=1", 200, "b\nc\n"},
		{"since a time", started(pod("p")), "?sinceTime=2026-11-20T10:00:00Z", 200, "c\n"},
		{"with times", started(pod("p")), "?timestamps=true&tailLines=1", 200, "2026-11-20T10:00:00.000000000Z c\n"},
		{"cut to a number of bytes", started(pod("p")), "?limitBytes=3", 200, "a\nb"},
		{"the instance before", restarted, "?previous=true", 200, "boom\n"},
		{"no instance before", started(pod("p")), "?previous=true", 400, `previous terminated container "main" in pod "p" not found`},
		{"a container that crashed shows its last instance", crashed, "", 200, "boom\n"},
		{"a container that is being made", waiting(""), "", 400, `container "main" in pod "p" is waiting to start: ContainerCreating`},
		{"a pod that is being initialized", waiting("PodInitializing"), "", 400, `container "main" in pod "p" is waiting to start: PodInitializing`},
		{"an image that is not there", waiting("ErrImagePull"), "", 400, `container "main" in pod "p" is waiting to start: image can't be pulled`},
		{"an image that is tried again", waiting("ImagePullBackOff"), "", 400, `container "main" in pod "p" is waiting to start: trying and failing to pull image`},
		{"a count that is none", pod("p"), "?tailLines=x", 400, `parameter tailLines: "x" is not a whole number`},
		{"a count below 0", pod("p"), "?tailLines=-1", 422, `parameter tailLines: -1 is less than 0`},
		{"two ways to say since", pod("p"), "?sinceSeconds=1&sinceTime=2026-11-20T10:00:00Z", 422, "parameters sinceTime and sinceSeconds: at most one may be given"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rt := &fakeRuntime{cs: []kubelet.Container{tt.c}}
			w := get(t.Context(), kubelet.New(rt, fixed), node+".sim.internal:10250", "/containerLogs/default/p/main"+tt.query)
			if w.Code != tt.status || w.Body.String() != tt.want {
				t.Errorf("logs%s = %d %q, want %d %q", tt.query, w.Code, w.Body.String(), tt.status, tt.want)
			}
		})
	}
}

func TestWhoAnswers(t *testing.T) {
	s := kubelet.New(&fakeRuntime{cs: []kubelet.Container{pod("p")}}, fixed)
	tests := []struct {
		name, host, path string
		status           int
		want             string
	}{
		{"the node is the first label of the host", node + ".sim.internal:10250", "/containerLogs/default/p/main", 200, ""},
		{"a port is not needed", node, "/containerLogs/default/p/main", 200, ""},
		{"a pod of another node", "gpu-node-2.sim.internal:10250", "/containerLogs/default/p/main", 404, `pod "p" does not exist`},
		{"a container that the pod lacks", node, "/containerLogs/default/p/other", 404, `container "other" not found in pod "p"`},
		{"a node that is not simulated", "real-1.sim.internal:10250", "/pods", 404, "no simulated node answers at \"real-1.sim.internal:10250\"; its address is NODE.sim.internal\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := get(t.Context(), s, tt.host, tt.path)
			if w.Code != tt.status || w.Body.String() != tt.want {
				t.Errorf("GET %s%s = %d %q, want %d %q", tt.host, tt.path, w.Code, w.Body.String(), tt.status, tt.want)
			}
		})
	}
}

func TestFollowedLogs(t *testing.T) {
	same := func(c kubelet.Container) kubelet.Container { return c }
	tests := []struct {
		name  string
		query string
		// after 2.4 s the container becomes this
		change func(c kubelet.Container) kubelet.Container
		want   string
		took   time.Duration
	}{
		{
			// a at 0, b at 1, c at 2, d at 3 s; it ends at 2.4 s and that is
			// seen half a second after c.
			name: "lines come in their time, until the container ends",
			change: func(c kubelet.Container) kubelet.Container {
				c.State, c.Lines = kubelet.StateTerminated, c.Lines[:3]
				return c
			},
			want: "a\nb\nc\n", took: 2500 * time.Millisecond,
		},
		{
			name: "an instance that was restarted is shown to its end",
			change: func(c kubelet.Container) kubelet.Container {
				c.RestartCount, c.Previous, c.Lines = 1, append(c.Lines[:3:3], kubelet.Line{At: c.Lines[2].At, Text: "bye"}), nil
				return c
			},
			want: "a\nb\nc\nbye\n", took: 2500 * time.Millisecond,
		},
		{
			name:   "old lines that are dropped are not missed",
			change: func(c kubelet.Container) kubelet.Container { c.Lines = c.Lines[2:]; return c },
			want:   "a\nb\nc\nd\n", took: 10 * time.Second,
		},
		{
			name:   "a pod that is deleted ends it",
			change: func(c kubelet.Container) kubelet.Container { c.Pod = "gone"; return c },
			want:   "a\nb\nc\n", took: 2500 * time.Millisecond,
		},
		{name: "the client leaves", change: same, want: "a\nb\nc\nd\n", took: 10 * time.Second},
		{name: "only what is new", query: "&tailLines=0", change: same, want: "b\nc\nd\n", took: 10 * time.Second},
		{name: "a limit ends it", query: "&limitBytes=4", change: same, want: "a\nb\n", took: time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := pod("p")
				c.Lines = lines(time.Now(), "a", "b", "c", "d")
				rt := &fakeRuntime{cs: []kubelet.Container{c}}
				time.AfterFunc(2400*time.Millisecond, func() { rt.set(tt.change(c)) })
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				start := time.Now()
				w := get(ctx, kubelet.New(rt, time.Now), node, "/containerLogs/default/p/main?follow=true"+tt.query)
				took := time.Since(start).Truncate(500 * time.Millisecond)
				if diff := cmp.Diff(tt.want, w.Body.String()); diff != "" || w.Code != http.StatusOK {
					t.Errorf("status %d, log (-want +got):\n%s", w.Code, diff)
				}
				if took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
			})
		})
	}
}
