package explain_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
)

// TestWhatIsKeptForAnotherIsNotFree: free GPUs that are kept for a pod that comes first are
// not said to be free for another, nor is it said that something fits there now.
func TestWhatIsKeptForAnotherIsNotFree(t *testing.T) {
	since := func(p *v1.Pod, ago time.Duration) *v1.Pod {
		p.CreationTimestamp = metav1.NewTime(kubetest.Started.Add(-ago))
		return p
	}
	nominated := func(priority int32) *v1.Pod {
		p := refused([]any{api.ResourceGPU, 4}, func(p *v1.Pod) { p.Name, p.UID, p.Spec.Priority = "first", "first", &priority })
		p.Status.NominatedNodeName = "a-1"
		return since(p, time.Hour)
	}
	reserved := func(ago time.Duration) *v1.Pod {
		p := refused([]any{api.ResourceGPU, 4}, func(p *v1.Pod) { p.Name, p.UID = "first", "first" })
		p.Status.Conditions[0].Message = "waits for 4 nvidia.com/gpu; of 4 that nodes offer it, no node has that many free. reservation: its GPUs on node a-1 are kept for it until 1 pod there end"
		return since(p, ago)
	}
	const kept = "GPUs of node a-1 are being kept for ns/first, which comes first"
	for _, tt := range []struct {
		name  string
		first *v1.Pod
		asks  int
		says  string // "" is that the pod fits
		help  string // "" is none
	}{
		{"for a pod that is nominated there", nominated(0), 1, kept, ""},
		{"for one of higher priority", nominated(10), 1, kept, ""},
		{"for one of lower priority, from which it is taken", nominated(-10), 1, "", ""},
		{"by a reservation for one that has waited longer", reserved(time.Hour), 1, kept, ""},
		{"by a reservation for one that has come later", reserved(0), 1, "", ""},
		{"and no help asks for what is kept", nominated(0), 4, "of 4 that nodes offer it, no node has that many free", ""},
		{"and for a pod that is nominated to another node", func() *v1.Pod { p := nominated(0); p.Status.NominatedNodeName = "a-2"; return p }(), 4, "", "ask for 2 nvidia.com/gpu instead of 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := since(refused([]any{api.ResourceGPU, tt.asks}), time.Minute)
			s := explain.Situation{Pod: pod, Nodes: []*v1.Node{big("a-1")}, Pods: []*v1.Pod{holds("h", "a-1", 2, 1), tt.first, pod}}
			f := s.Facts(nil, kubetest.Started)
			r := reasons.Judge(&f)
			if binding := f.Verdict.Binding(); tt.says == "" && tt.asks == 1 && binding != nil || !strings.Contains(r.Message, tt.says) {
				t.Errorf("it says %s: %s, want %q", f.Code(&r), r.Message, tt.says)
			}
			if tt.says == kept && f.Code(&r) != reasons.CodeKept {
				t.Errorf("its code is %s", f.Code(&r))
			}
			found, err := explain.Find(&s, kubetest.Started)
			if err != nil {
				t.Fatal(err)
			}
			var helps []string
			for _, h := range found.Reliefs {
				helps = append(helps, h.Change)
			}
			if got := strings.Join(helps, ", "); got != tt.help {
				t.Errorf("helps %q, want %q", got, tt.help)
			}
			if tt.says == kept && !strings.Contains(found.Rejections[0].Why, "0 of 4 GPUs free, too little for 1 nvidia.com/gpu; 2 GPUs kept for ns/first") {
				t.Errorf("of the node it says %q", found.Rejections[0].Why)
			}
		})
	}
}
