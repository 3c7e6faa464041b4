//go:build linux

package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// recovery is how long a GPU may take to be believed again: the policy asks for
// three good answers of the driver over 45 s.
const recovery = 3 * time.Minute

// TestRecovery is k8s-device-plugin issues 1014, 234 and 111: once an Xid has
// made a GPU unhealthy, it stays so until the plugin is restarted. Here one GPU
// has an Xid that asks for a reset, another one is lost; both are taken out of
// what is offered at once, and come back when they are proven well. A pod that
// is committed to one waits for it.
//
// NVIDIA/k8s-device-plugin#1014 NVIDIA/k8s-device-plugin#234 NVIDIA/k8s-device-plugin#111
func TestRecovery(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := newWholeNode(t, a100, 4)
	n.apply(pod("runs", commit("c", uuid(1)), 1))
	n.sees(t, "runs", "c")
	// Where the rest takes so long that the GPU would be believed again, it has
	// another Xid first.
	var later []string
	for after := 30; after <= 600; after += 30 {
		later = append(later, fmt.Sprintf("{gpu: 2, code: 95, after: %ds}", after))
	}
	n.setGPUs(t, wholeGPUs(4)+"xid: [{gpu: 2, code: 95}]\n")
	watch := startWatch()
	n.offers(t, gpuResource, 3)
	watch.within(t, "an Xid takes a GPU out of what is offered")
	n.setGPUs(t, wholeGPUs(4)+"lost: [{gpu: 3}]\nxid: ["+strings.Join(later, ", ")+"]\n")
	watch = startWatch()
	n.offers(t, gpuResource, 2)
	watch.within(t, "a lost GPU is not offered")
	began := time.Now()
	n.apply(pod("on-broken", commit("c", uuid(2)), 1))
	n.waits(t, "on-broken", "CreateContainerConfigError", uuid(2))
	t.Logf("figure: a container on an unhealthy GPU: %s", n.state("on-broken"))
	n.shows(t, "berth_gpu_healthy", 2)
	eventually(t, patience, "the Xid is counted", func() error {
		families, _ := scrape(t)
		if count, _ := sum(families, "berth_gpu_xid_errors_total", "xid", "95"); count < 1 {
			return fmt.Errorf("it is counted %v times", count)
		}
		return nil
	})
	n.setGPUs(t, wholeGPUs(4))
	n.offersWithin(t, recovery, gpuResource, 4)
	t.Logf("figure: both GPUs are offered again after %v", time.Since(began).Round(time.Second))
	if err := only(n.sees(t, "on-broken", "c"), 2); err != nil {
		t.Error(err)
	}
	n.ranOn(t, "runs")
}
