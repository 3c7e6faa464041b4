package queues_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
)

func TestEvictionsAreReadAsTheyWereWritten(t *testing.T) {
	list := []quota.Evicted{
		{Owner: "job", Queue: "vision", By: "speech", Pods: 3, Of: 1, Last: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)},
		{Owner: "set", Queue: "vision", By: "nlp", Pods: 14, Of: 14, Last: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)},
	}
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "vision"}}
	q.Status.Evictions = queues.EvictionsOf(list)
	if diff := cmp.Diff(list, queues.Evicted(q)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
