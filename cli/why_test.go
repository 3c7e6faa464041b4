package cli_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// ofDeployment is a pod of Deployment vision/five, made so long ago.
func ofDeployment(name string, ago time.Duration) *v1.Pod {
	p := pod("vision", name, "n-1", "nvidia.com/gpu")
	p.Labels["pod-template-hash"] = "7d"
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "five-7d", UID: "rs", Controller: new(true)}}
	p.CreationTimestamp = metav1.NewTime(now.Add(-ago))
	return p
}

// refusal is an event of a pod that an owner was to have, so long ago.
func refusal(kind, name, reason string, ago time.Duration) *v1.Event {
	return &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "vision", Name: name + ".1"},
		InvolvedObject: v1.ObjectReference{Kind: kind, Namespace: "vision", Name: name},
		Reason:         reason, LastTimestamp: metav1.NewTime(now.Add(-ago)), Count: 3,
		Message: `Error creating: pods "five-7d-x" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=4, used: requests.nvidia.com/gpu=16, limited: requests.nvidia.com/gpu=16`,
	}
}

func TestWhyTellsOfAPodThatIsMissing(t *testing.T) {
	const said = "REFUSED  one more pod of its owner could not be made 60s ago: quota q of namespace vision allows 16 of requests.nvidia.com/gpu, 16 are used, and this asks for 4; " +
		"stop something else that holds it, ask for less, or ask for a larger quota"
	for _, tt := range []struct {
		name  string
		event *v1.Event
		arg   string
		want  string // the line that begins with REFUSED; "" is none
	}{
		{"of a Deployment, by its ReplicaSet", refusal("ReplicaSet", "five-7d", "FailedCreate", time.Minute), "deployment/five", said},
		{"without the kind", refusal("ReplicaSet", "five-7d", "FailedCreate", time.Minute), "five", said},
		{"of the ReplicaSet itself", refusal("ReplicaSet", "five-7d", "FailedCreate", time.Minute), "replicaset/five-7d", said},
		{"a refusal before the last pod was made is past", refusal("ReplicaSet", "five-7d", "FailedCreate", time.Hour), "deployment/five", ""},
		{"another's is not its", refusal("ReplicaSet", "fives-7d", "FailedCreate", time.Minute), "deployment/five", ""},
		{"what is no refusal is none", refusal("ReplicaSet", "five-7d", "SuccessfulCreate", time.Minute), "deployment/five", ""},
		{"one pod alone has no missing brother", refusal("Pod", "five-7d-a", "FailedCreate", time.Minute), "pod/five-7d-a", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, node("n-1", "Tesla T4", 4, "", "nvidia.com/gpu", 4), ofDeployment("five-7d-a", 2*time.Hour), ofDeployment("five-7d-b", time.Minute+time.Second), tt.event)
			got := ""
			for line := range strings.Lines(s.ok("why", "-n", "vision", tt.arg)) {
				if strings.HasPrefix(line, "REFUSED") {
					got = strings.TrimSuffix(line, "\n")
				}
			}
			if got != tt.want {
				t.Errorf("berth why %s: %q\nwant %q", tt.arg, got, tt.want)
			}
		})
	}
}

func TestWhyGoesOnWithoutEvents(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		code int
	}{
		{"that it may not read", apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", nil), 0},
		{"but not where nothing answers", errors.New("no route"), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, node("n-1", "Tesla T4", 4, "", "nvidia.com/gpu", 4), ofDeployment("five-7d-a", time.Hour))
			s.client.(*fake.Clientset).PrependReactor("list", "events", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.err })
			stdout, stderr, code := s.run("berth", "why", "-n", "vision", "deployment/five")
			if code != tt.code || (code == 0) != strings.Contains(stdout, "vision/five-7d-a: ") {
				t.Errorf("exit code %d, want %d\n%s%s", code, tt.code, stdout, stderr)
			}
		})
	}
}
