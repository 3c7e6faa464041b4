package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth.dev/berth/api"
	"berth.dev/berth/test/soak"
)

// boundOf counts the bound pods of a gang.
func (c *cluster) boundOf(gang string) int {
	n := 0
	for _, p := range list[*v1.Pod](c, "pods") {
		if p.Spec.NodeName != "" && p.Annotations[api.AnnotationGang] == gang {
			n++
		}
	}
	return n
}

// policy has an admission policy reject the bindings of a pod, or of none.
func (c *cluster) policy(pod string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rejects = func(name string) error {
		if name == pod {
			return apierrors.NewForbidden(v1.Resource("pods"), name, errors.New("not today"))
		}
		return nil
	}
}

// TestAGangFollowsWhenARejectionEnds has a policy reject a member for some time, in
// which another pod may take the places that the gang gives up.
func TestAGangFollowsWhenARejectionEnds(t *testing.T) {
	live(t, soak.Pick(12, 40), func(l *lab) {
		l.put("nodes", t4s(l.t, "n0", 4))
		l.policy("train-2")
		l.start()
		for i := range 4 {
			p := gpuPod(fmt.Sprint("train-", i), 100, 1)
			p.Annotations = map[string]string{api.AnnotationGang: "train", api.AnnotationGangMinCount: "4"}
			l.put("pods", p)
		}
		l.moment(30 * time.Second)
		rival := gpuPod("rival", 100, 1)
		if l.draw.IntN(2) == 0 {
			l.put("pods", rival)
			rests(l.t, 15*time.Second)
			l.moment(30 * time.Second)
		}
		if n := l.boundOf("train"); n > 0 {
			l.t.Errorf("%d members are bound while one is rejected", n)
		}
		told := false
		for _, p := range list[*v1.Pod](l.cluster, "pods") {
			told = told || strings.Contains(said(p), "not today")
		}
		if !told {
			l.t.Error("no pod says what is rejected")
		}
		if _, there := l.objects["pods"]["rival"]; there {
			if err := l.delete("rival", rival.UID); err != nil {
				l.t.Fatal(err)
			}
			rests(l.t, 10*time.Second)
		}
		l.policy("")
		rests(l.t, 2500*time.Millisecond)
		if n := l.boundOf("train"); n != 4 {
			for _, p := range list[*v1.Pod](l.cluster, "pods") {
				l.t.Log(p.Name, p.Spec.NodeName, said(p))
			}
			l.t.Errorf("%d of 4 are bound 2.5 s after the rejection has ended", n)
		}
	})
}
