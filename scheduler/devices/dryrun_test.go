package devices_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// dryClient tells bindings that are to have no effect from others, which the fake
// clientset does not.
type (
	dryClient struct {
		kubernetes.Interface
		h *handle
	}
	dryCore struct {
		typedv1.CoreV1Interface
		h *handle
	}
	dryPods struct {
		typedv1.PodInterface
		h *handle
	}
)

func (c dryClient) CoreV1() typedv1.CoreV1Interface { return dryCore{c.Interface.CoreV1(), c.h} }
func (c dryCore) Pods(namespace string) typedv1.PodInterface {
	return dryPods{c.CoreV1Interface.Pods(namespace), c.h}
}

func (p dryPods) Bind(ctx context.Context, b *v1.Binding, o metav1.CreateOptions) error {
	switch {
	case len(o.DryRun) == 0:
		return p.PodInterface.Bind(ctx, b, o)
	case p.h.dry == nil:
		return nil
	}
	p.h.dryMu.Lock()
	defer p.h.dryMu.Unlock()
	return p.h.dry(b)
}

// ownedBy gives pods a controller.
func ownedBy(pods []*v1.Pod, uid types.UID) []*v1.Pod {
	for _, p := range pods {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", UID: uid, Controller: new(true)}}
	}
	return pods
}

func TestTheAPIServerIsAskedBeforeAGangIsBound(t *testing.T) {
	for _, tt := range []struct {
		name string
		pods []*v1.Pod
		want int
	}{
		{"once for pods of one controller", ownedBy(gangOf("g", 4, 4, "gpu=1"), "r"), 1},
		{"once for each pod without a controller", gangOf("g", 4, 4, "gpu=1"), 4},
		{"not for a gang of one", gangOf("g", 1, 1, "gpu=1"), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, asked := newRig(t, 4), 0
			r.dry = func(*v1.Binding) error {
				asked++
				if n := len(r.bound("g")); n > 0 {
					t.Errorf("asked when %d are bound", n)
				}
				return nil
			}
			r.add(tt.pods...)
			r.run()
			if n := len(r.bound("g")); n != len(tt.pods) || asked != tt.want {
				t.Errorf("%d bound, asked %d times, want %d", n, asked, tt.want)
			}
		})
	}
}

func TestAGangOfWhichTheAPIServerRejectsAMemberIsNotBoundAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		forbids := true
		forbid := func(b *v1.Binding) error {
			if b.Name == "g-2" && forbids {
				return answers["a webhook forbids it"](r.pods[b.UID])
			}
			return nil
		}
		r.dry, r.answer = forbid, forbid
		r.add(gangOf("g", 4, 4, "gpu=1")...)
		r.run()
		r.add(gangOf("other", 1, 1, "gpu=1")...)
		r.rests(5 * time.Second)
		if g, other := r.bound("g"), r.bound("other"); len(g)+len(other) > 0 {
			t.Errorf("bound after 5 s: %v and %v; the place is kept, and no part of the gang runs", g, other)
		}
		for uid, why := range r.out {
			if strings.HasPrefix(string(uid), "g-") && !strings.Contains(why, `bind pod d/g-2 to node n0: pods "g-2" is forbidden`) {
				t.Errorf("%s says %q", uid, why)
			}
		}
		r.rests(15 * time.Second)
		if g, other := r.bound("g"), r.bound("other"); len(g) > 0 || len(other) != 1 {
			t.Errorf("bound after 20 s: %v and %v, want the other", g, other)
		}
		r.remove("other-0")
		r.rests(5 * time.Second)
		forbids = false
		r.rests(2 * time.Second)
		if g := r.bound("g"); len(g) != 4 {
			t.Errorf("bound 2 s after the rejection has ended: %v; %v", g, r.out)
		}
	})
}

func TestARejectionThatEndsWhileThePlaceIsKeptIsFollowed(t *testing.T) {
	for _, after := range []time.Duration{300 * time.Millisecond, 4 * time.Second, 9 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r, forbids := newRig(t, 2, 2), true
			r.dry = func(b *v1.Binding) error {
				if b.Name == "g-1" && forbids {
					return answers["a webhook forbids it"](r.pods[b.UID])
				}
				return nil
			}
			r.add(gangOf("g", 4, 4, "gpu=1")...)
			r.run()
			r.rests(after)
			forbids = false
			r.rests(2 * time.Second)
			if g := r.bound("g"); len(g) != 4 {
				t.Errorf("after %v: bound %v; %v", after, g, r.out)
			}
		})
	}
}

func TestAGangThatOneNodeIsForbiddenForStartsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, 3)
		bad := ""
		r.dry = func(b *v1.Binding) error {
			if bad == "" {
				bad = b.Target.Name
			}
			if b.Target.Name == bad {
				return answers["a webhook forbids it"](r.pods[b.UID])
			}
			return nil
		}
		r.add(gangOf("g", 2, 2, "gpu=1")...)
		r.run()
		for range 20 {
			r.rests(time.Second)
		}
		if g := r.bound("g"); len(g) != 2 || slices.ContainsFunc(g, func(at string) bool { return strings.HasSuffix(at, "@"+bad) }) {
			t.Errorf("bound %v, want both, and not on %s; %s", g, bad, fmt.Sprint(r.out))
		}
	})
}
