package quota

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// lend is a Quota in which red and blue have 2 of 4 GPUs each. Pods are of the queue that their namespace
// is named after.
func lend() *Quota {
	q := New()
	gpus := func(n int64) []quota.Quota {
		return []quota.Quota{{Resource: quota.GPUs, Nominal: n * quota.Whole, Borrowing: quota.Unlimited, Lending: quota.Unlimited}}
	}
	pieces := []quota.Piece{{Devices: 1, Parts: quota.Whole}}
	q.SetQueues([]quota.Spec{{Name: "org", Quotas: gpus(4)}, {Name: "red", Parent: "org", Quotas: gpus(2)}, {Name: "blue", Parent: "org", Quotas: gpus(2)}}, queues.Reader{
		Queue: func(p *v1.Pod) string { return p.Namespace }, User: func(*v1.Pod) string { return "" },
		Held: func(*v1.Pod, string) []quota.Piece { return pieces },
		Asked: func(p *v1.Pod, _ sharing.Ways) (quota.Pod, []quota.Kind) {
			return quota.Pod{ID: string(p.UID), Pieces: pieces}, nil
		},
		Kind:  func(*v1.Node) quota.Kind { return quota.Kind{} },
		Owner: func(p *v1.Pod) string { return request.MakerOf(p, nil) },
	})
	return q
}

// one is a pod of one GPU, of a Job if it has one.
func one(queue, name, job, node string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: queue, Name: name, UID: types.UID(name), CreationTimestamp: metav1.Now()}}
	if job != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: job, UID: types.UID(job), Controller: new(true)}}
	}
	p.Spec.NodeName = node
	p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Limits: v1.ResourceList{api.ResourceGPU: *resource.NewQuantity(1, resource.DecimalSI)}}}}
	p.Status.StartTime = &p.CreationTimestamp
	return p
}

func TestAJobThatWasEvictedThreeTimesIsSparedByTheNextSchedulerToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var saved []quota.Evicted
		fails := 1
		q := lend()
		q.SaveEvicted(func(queue string, list []quota.Evicted) error {
			if fails--; fails == 0 {
				return errors.New("the API server is busy")
			}
			if queue != "red" {
				t.Errorf("the evictions of queue %s are saved", queue)
			}
			saved = list
			return nil
		})
		claimed := one("blue", "new", "", "")
		run := func(q *Quota, n int) *v1.Pod {
			pod := one("red", fmt.Sprint("train-", n), "train", "n1")
			for _, p := range []*v1.Pod{one("red", "a", "", "n1"), one("red", "b", "", "n1"), pod} {
				q.Seen(p)
			}
			return pod
		}
		role := func(q *Quota, pod *v1.Pod) quota.Role {
			roles, _ := q.Claim(Alone(claimed, request.TicketOf(claimed))).Roles([]*v1.Pod{pod})
			return quota.Role(roles[0])
		}
		for n := range 3 {
			pod := run(q, n)
			if got := role(q, pod); got != quota.Borrows {
				t.Fatalf("eviction %d: role %d, want %d", n, got, quota.Borrows)
			}
			back := q.Claim(Alone(claimed, request.TicketOf(claimed))).Returns(pod)
			back.Done()
			q.Gone(pod.UID)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		last := time.Now().Add(-time.Minute)
		if diff := cmp.Diff([]quota.Evicted{{Owner: "train", Queue: "red", By: "blue", Pods: 3, Of: 1, Last: last}}, saved); diff != "" {
			t.Fatalf("saved: -want +got\n%s", diff)
		}
		next := lend() // another scheduler, which reads the Queue
		queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "red"}}
		queue.Status.Evictions = queues.EvictionsOf(saved)
		next.SetUsed([]*v1alpha1.Queue{queue})
		fourth := run(next, 3)
		if got := role(next, fourth); got != quota.Stays {
			t.Errorf("role of the fourth pod %d, want that it stays", got)
		}
		time.Sleep(time.Hour)
		if got := role(next, fourth); got != quota.Spared {
			t.Errorf("role for a claim that has waited for an hour %d, want that it goes last", got)
		}
	})
}

func TestReturns(t *testing.T) {
	q := lend()
	pods := []*v1.Pod{one("red", "a", "", "n1"), one("red", "b", "train", "n1"), one("red", "c", "train", "n1"), one("blue", "d", "", "n1"), one("", "e", "", "n1")}
	for _, p := range pods {
		q.Seen(p)
	}
	lead := one("blue", "new", "", "")
	claim := q.Claim(Alone(lead, request.TicketOf(lead)))
	var got []string
	for _, p := range pods {
		if r := claim.Returns(p); r == nil {
			got = append(got, p.Name+" returns none")
		} else {
			got = append(got, fmt.Sprintf("%s from %s to %s, of %d %s", p.Name, r.From, r.By, r.of, r.owner))
		}
	}
	want := []string{"a from red to blue, of 1 ", "b from red to blue, of 2 train", "c from red to blue, of 2 train", "d returns none", "e returns none"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if none := (*Claim)(nil).Returns(pods[0]); none != nil {
		t.Errorf("without a claim, %v returns quota", none)
	}
}

func TestAClaimIsTriedAgainOnceWhenOthersMayGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := lend()
		var called []time.Duration
		began := time.Now()
		q.call = func(pods []*v1.Pod) { called = append(called, time.Since(began)) }
		lead := one("blue", "new", "", "")
		claim := q.Claim(Alone(lead, request.TicketOf(lead)))
		claim.Again(began.Add(2 * time.Minute))
		claim.Again(began.Add(time.Minute))
		claim.Again(began.Add(3 * time.Minute))
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []time.Duration{time.Minute}; !slices.Equal(called, want) {
			t.Errorf("called after %v, want %v", called, want)
		}
	})
}
