package report

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/scheduler/devices"
)

// Sentences say why pods are refused, from the nodes as the scheduler has them.
type Sentences struct {
	nodes   func() ([]fwk.NodeInfo, error)
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	offers  *offers // to claims; nil where the API server has none
	ranks   *ranks

	mu       sync.Mutex
	refusals *explain.Refusals
}

// NewSentences returns Sentences of the nodes that list lists, for them alone. It must be
// called before the informers start.
func NewSentences(list func() ([]fwk.NodeInfo, error), from informers.SharedInformerFactory) *Sentences {
	core := from.Core().V1()
	return &Sentences{
		nodes: list, claims: core.PersistentVolumeClaims().Lister(), volumes: core.PersistentVolumes().Lister(),
		offers: newOffers(from), ranks: newRanks(from), refusals: explain.NewRefusals(),
	}
}

// of is why a pod was refused that waits so, in other words than said if there are better
// ones. A gang's plan and the plugins of others that refuse before any node is looked at
// know better than the nodes.
func (s *Sentences) of(pod *v1.Pod, wait queue.Wait, refused *queue.Refused, said string) string {
	if wait == queue.Quota || refused.By == devices.QueuesName {
		return reasons.QuotaSentence(said)
	}
	if s == nil || wait.NodeHelps() && refused.By != "" && refused.By != devices.Name || wait == queue.NoSuchNode && refused.By == devices.GangPlansName {
		return said
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := s.nodes()
	if err != nil {
		return said
	}
	if d, changed := s.offers.changed(); changed {
		s.refusals.SetDRA(d)
	}
	if list, changed := s.ranks.changed(); changed {
		s.refusals.SetPriorities(list)
	}
	return s.refusals.Sentence(pod, said, wait, s.ties(pod), nodeInfos(list))
}

// ties are the volumes of a pod that only some nodes reach.
func (s *Sentences) ties(pod *v1.Pod) []explain.VolumeTopology {
	var claims []*v1.PersistentVolumeClaim
	var volumes []*v1.PersistentVolume
	for _, name := range explain.ClaimsOf(pod) {
		claim, err := s.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		if err != nil {
			continue // the scheduler's own words say what is missing
		}
		claims = append(claims, claim)
		if v, err := s.volumes.Get(claim.Spec.VolumeName); err == nil {
			volumes = append(volumes, v)
		}
	}
	return explain.VolumeTopologies(pod, claims, volumes)
}

// nodeInfos is the scheduler's list of nodes as explain.Nodes.
type nodeInfos []fwk.NodeInfo

// Len implements explain.Nodes.
func (l nodeInfos) Len() int { return len(l) }

// Node implements explain.Nodes.
func (l nodeInfos) Node(i int) (*v1.Node, int64) { return l[i].Node(), l[i].GetGeneration() }

// Pods implements explain.Nodes.
func (l nodeInfos) Pods(i int) []*v1.Pod {
	out := make([]*v1.Pod, 0, len(l[i].GetPods()))
	for _, p := range l[i].GetPods() {
		out = append(out, p.GetPod())
	}
	return out
}
