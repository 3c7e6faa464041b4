package request_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

func TestEnds(t *testing.T) {
	began := metav1.Unix(1e9, 0)
	for _, tt := range []struct {
		name     string
		deadline int64
		declared string
		pending  bool
		want     time.Duration // after its start; 0 is not known
	}{
		{name: "nothing is declared"},
		{name: "a deadline", deadline: 90, want: 90 * time.Second},
		{name: "a declared run time", declared: "2h", want: 2 * time.Hour},
		{name: "the sooner of both", deadline: 90, declared: "2h", want: 90 * time.Second},
		{name: "what cannot be read", declared: "long"},
		{name: "a negative one", declared: "-1s"},
		{name: "one that has not started", deadline: 90, pending: true},
		{name: "a deadline beyond what a duration holds", deadline: 1 << 60, want: 1 << 31 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationMaxRunTime: tt.declared}}}
			if p.Status.StartTime = &began; tt.pending {
				p.Status.StartTime = nil
			}
			if tt.deadline > 0 {
				p.Spec.ActiveDeadlineSeconds = &tt.deadline
			}
			want := time.Time{}
			if tt.want > 0 {
				want = began.Add(tt.want)
			}
			if got := request.Ends(p); !got.Equal(want) {
				t.Errorf("Ends: %v, want %v", got, want)
			}
		})
	}
}

func TestEndsFromWhenAPodBegan(t *testing.T) {
	at := func(seconds int64) metav1.Time { return metav1.Unix(1e9+seconds, 0) }
	started := at(20)
	bound := []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: at(10)}}
	for name, tt := range map[string]struct {
		declared string
		status   v1.PodStatus
		want     time.Time
	}{
		"nothing is declared":              {status: v1.PodStatus{StartTime: &started}},
		"a pod that has started":           {"1m", v1.PodStatus{StartTime: &started, Conditions: bound}, at(80).Time},
		"a pod that is bound":              {"1m", v1.PodStatus{Conditions: bound}, at(70).Time},
		"a pod on its way to its node":     {"1m", v1.PodStatus{}, at(60).Time},
		"a pod that fitted nowhere before": {"1m", v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, LastTransitionTime: at(10)}}}, at(60).Time},
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationMaxRunTime: tt.declared}}, Status: tt.status}
			if got := request.EndsFrom(p, at(0).Time); !got.Equal(tt.want) {
				t.Errorf("ends at %v, want %v", got, tt.want)
			}
		})
	}
}
