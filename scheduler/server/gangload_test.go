package server

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/test/soak"
)

// TestLargeGangsOfEveryShapeCostLittleMore binds gangs of 64 members of each shape on
// 500 nodes, and prints how long each takes in real time and how much more that is
// than a plain gang: most of it is the CPU time of the scheduler and of the cluster in
// memory. The figure that users see is in docs/benchmarks.md; here only a bound is
// asserted that a busy machine keeps too.
func TestLargeGangsOfEveryShapeCostLittleMore(t *testing.T) {
	bubbles(t)
	const nodes = 500
	n := soak.Pick(64, 512)
	host, zone, rack := v1.LabelHostname, v1.LabelTopologyZone, api.LabelRack
	var plain time.Duration
	for _, s := range []shape{
		{name: "plain", give: func(*v1.Pod, int) {}},
		{name: "one host port", give: onPort(8080)},
		{name: "spread by host", give: spread(host)},
		{name: "spread by zone", give: spread(zone)},
		{name: "apart by host", give: apartBy(host)},
		{name: "apart by rack", give: apartBy(rack)},
		{name: "numbered, spread by host", give: func(p *v1.Pod, i int) {
			spread(host)(p, i)
			p.Labels["batch.kubernetes.io/job-completion-index"], p.Spec.Hostname = strconv.Itoa(i), p.Name
		}},
	} {
		if s.n, s.gpus = n, 1; s.name == "apart by rack" {
			s.n = min(n, nodes/2)
		}
		if s.name == "one host port" || s.name == "apart by host" {
			s.n = min(n, nodes)
		}
		began := time.Now()
		synctest.Test(t, func(t *testing.T) {
			l := &lab{cluster: newCluster(t, 1)}
			l.slow = time.Microsecond
			racks(l, nodes)
			l.start()
			defer func() { l.stop() }()
			for _, p := range s.members("g") {
				l.put("pods", p)
			}
			for began := time.Now(); l.bound() < s.n && time.Since(began) < time.Minute; {
				rests(t, 100*time.Millisecond)
			}
			if l.bound() != s.n {
				t.Errorf("%s: %d of %d bound; the first waits: %s", s.name, l.bound(), s.n, said(list[*v1.Pod](l.cluster, "pods")[0]))
			}
		})
		took := time.Since(began)
		if s.name == "plain" {
			plain = took
		}
		t.Logf("%-26s %3d members, %d nodes: %5.2f s, %+.2f s beside plain ones", s.name, s.n, nodes, took.Seconds(), (took - plain).Seconds())
		if took > plain+30*time.Second {
			t.Errorf("%s: %v, and %v for a plain gang", s.name, took, plain)
		}
	}
}
