package proxy_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth.dev/berth/activator/gate"
)

// BenchmarkHop compares the proxy with a bare httputil.ReverseProxy in the same run:
// requests and answers of 1 KB, 16 in flight, HTTP/1.1 with connections kept, one after
// the other in turns. CPU time is of the process, less that of the same requests without
// a proxy. times-bare is the ratio of the two hops.
func BenchmarkHop(b *testing.B) {
	answer := strings.Repeat("y", 1024)
	_, at := pod(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, answer)
	}))
	r := newRig(b, gate.Limits{})
	r.service.SetBackends([]string{at})
	bare := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: at})
	bare.Transport = &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
	bare.ErrorLog = log.New(io.Discard, "", 0)
	plain := httptest.NewServer(bare)
	defer plain.Close()

	ways := []*way{{url: "http://" + at}, {url: plain.URL}, {url: r.url("/")}}
	const turn = 2000
	for _, w := range ways {
		w.send(b, client(b, false), turn) // opens the connections
		*w = way{url: w.url}
	}
	b.ResetTimer()
	for done := 0; done < b.N; done += turn {
		for _, w := range ways {
			w.send(b, client(b, false), min(turn, b.N-done))
		}
	}
	b.StopTimer()
	direct, hop, ours := ways[0], ways[1], ways[2]
	b.ReportMetric(ours.cpuEach(direct), "cpu-us/req")
	b.ReportMetric(hop.cpuEach(direct), "bare-cpu-us/req")
	b.ReportMetric(ours.cpuEach(direct)/hop.cpuEach(direct), "times-bare")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAdded reports what the proxy adds to the time of requests that come one every
// 2 ms and saturate nothing: the 99th percentile less that without a proxy.
func BenchmarkAdded(b *testing.B) {
	_, at := pod(b, echo("pod"))
	r := newRig(b, gate.Limits{})
	r.service.SetBackends([]string{at})
	c := client(b, false)
	took := map[string][]time.Duration{}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for range b.N {
		for _, to := range []string{"http://" + at, r.url("/")} {
			<-tick.C
			began := time.Now()
			if got := post(c, to, "x"); got.status != 200 {
				b.Fatal(got)
			}
			took[to] = append(took[to], time.Since(began))
		}
	}
	p99 := func(all []time.Duration) float64 {
		slices.Sort(all)
		return all[len(all)*99/100].Seconds() * 1000
	}
	b.ReportMetric(p99(took[r.url("/")])-p99(took["http://"+at]), "p99-added-ms")
}

// way is one way to the pod.
type way struct {
	url      string
	cpu      time.Duration
	requests int
}

// cpuEach returns the microseconds of CPU that a request takes more than on another way.
func (w *way) cpuEach(than *way) float64 {
	each := func(w *way) float64 { return w.cpu.Seconds() * 1e6 / float64(w.requests) }
	return each(w) - each(than)
}

// send makes n requests, 16 at a time.
func (w *way) send(b *testing.B, c *http.Client, n int) {
	body := strings.Repeat("x", 1024)
	began := processCPU()
	var all sync.WaitGroup
	next := make(chan struct{})
	for range 16 {
		all.Go(func() {
			for range next {
				if got := post(c, w.url, body); got.status != 200 || len(got.text) != 1024 {
					b.Error(got)
				}
			}
		})
	}
	for range n {
		next <- struct{}{}
	}
	close(next)
	all.Wait()
	w.cpu += processCPU() - began
	w.requests += n
}

// processCPU returns the CPU time that the process has used.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Sprint("getrusage: ", err))
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
