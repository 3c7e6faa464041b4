package quota

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// TestAGangOfTwoQueuesIsTriedAgainWhenAMemberGoes, also where what plans gangs has not heard yet
// that the member is gone.
func TestAGangOfTwoQueuesIsTriedAgainWhenAMemberGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		member := func(name, queue string) *v1.Pod {
			list := v1.ResourceList{api.ResourceGPU: resource.MustParse("1")}
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "d", Name: name, UID: types.UID(name), Labels: map[string]string{api.LabelQueue: queue},
				Annotations: map[string]string{api.AnnotationGang: "g", api.AnnotationGangMinCount: "2"},
			}}
			p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: list, Requests: list}}}
			return p
		}
		a, b, c := member("a", "red"), member("b", "red"), member("c", "blue")
		q, called := New(), 0
		q.call = func(pods []*v1.Pod) {
			for _, p := range pods {
				if p.Name == "a" {
					called++
				}
			}
		}
		spec := func(name string) quota.Spec {
			return quota.Spec{Name: name, Quotas: []quota.Quota{{Resource: quota.GPUs, Nominal: 8 * quota.Whole, Borrowing: quota.Unlimited, Lending: quota.Unlimited}}}
		}
		pieces := []quota.Piece{{Devices: 1, Parts: quota.Whole}}
		q.SetQueues([]quota.Spec{spec("red"), spec("blue")}, queues.Reader{
			Queue: func(p *v1.Pod) string { return p.Labels[api.LabelQueue] }, User: func(*v1.Pod) string { return "" },
			Held: func(*v1.Pod, string) []quota.Piece { return pieces },
			Asked: func(p *v1.Pod, _ sharing.Ways) (quota.Pod, []quota.Kind) {
				return quota.Pod{ID: string(p.UID), Pieces: pieces}, nil
			},
			Kind: func(*v1.Node) quota.Kind { return quota.Kind{} }, Owner: func(*v1.Pod) string { return "" },
		})
		for _, p := range []*v1.Pod{a, b, c} {
			q.Seen(p)
		}
		ask := func(pods ...*v1.Pod) Answer {
			g, err := request.GangOf(a)
			if err != nil {
				t.Fatal(err)
			}
			return q.Try(&Ask{Lead: a, Pods: pods, Need: 2, Gang: g.Key})
		}
		if got := ask(a, b, c); got.Refused == "" || q.Lets(a.UID) {
			t.Errorf("a gang of two queues: %+v", got)
		}
		q.Gone(c.UID)
		if called != 1 || !q.Lets(a.UID) {
			t.Errorf("when the member is gone the leader is called %d times", called)
		}
		if got := ask(a, b, c); got.Refused == "" { // by what was known before
			t.Errorf("with the member that is gone: %+v", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if called != 2 || !q.Lets(a.UID) {
			t.Errorf("two seconds later the leader has been called %d times", called)
		}
		if got := ask(a, b); got.Refused != "" || got.Count != 2 {
			t.Errorf("without the member: %+v", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if called != 2 {
			t.Errorf("a gang that goes on is called %d times", called)
		}

		// A member that gets another label is the same.
		ask(a, b, c)
		q.Seen(c)
		q.Seen(member("c", "red"))
		if called != 3 {
			t.Errorf("after another label the leader has been called %d times", called)
		}
	})
}
