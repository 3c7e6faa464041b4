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

// TestNamesOfOtherNamespacesAreWithheld: an answer for a user names the pods of the user's
// namespace, and of others only that they are there.
func TestNamesOfOtherNamespacesAreWithheld(t *testing.T) {
	apart := func(p *v1.Pod) {
		term := byHost("secret")[0]
		term.Namespaces = []string{"ns", "other"}
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
	}
	kept := refused([]any{api.ResourceGPU, 4}, func(p *v1.Pod) { p.Name, p.UID = "secret", "secret" })
	kept.Status.NominatedNodeName = "a-1"
	leaving := holds("secret", "a-1", 4, 1)
	leaving.DeletionTimestamp = &metav1.Time{Time: kubetest.Started}
	for _, tt := range []struct {
		name  string
		other *v1.Pod
		pod   *v1.Pod
		says  string
	}{
		{"a host port", holds("secret", "a-1", 1, 1, portOf(8080)), refused([]any{api.ResourceGPU, 1}, portOf(8080)), "host port 8080 is used by a pod of another namespace"},
		{"a pod anti-affinity", holds("secret", "a-1", 1, 1, labeled("app", "secret")), refused([]any{api.ResourceGPU, 1}, apart), "has a pod of another namespace near"},
		{"a pod that is being deleted", leaving, refused([]any{api.ResourceGPU, 1}), "held by pods that are being deleted and have not ended (1)"},
		{"GPUs that are kept", kept, refused([]any{api.ResourceGPU, 1}), "are being kept for a pod of another namespace, which comes first"},
		{"GPUs that are held", holds("secret", "a-1", 4, 1), refused([]any{api.ResourceGPU, 1}), "no node has that many free"},
	} {
		for _, namespace := range []string{"ns", "other"} {
			t.Run(tt.name+" in "+namespace, func(t *testing.T) {
				other := tt.other.DeepCopy()
				other.Namespace = namespace
				other.CreationTimestamp, tt.pod.CreationTimestamp = metav1.NewTime(kubetest.Started.Add(-time.Hour)), metav1.NewTime(kubetest.Started)
				s := explain.Situation{Pod: tt.pod, Nodes: []*v1.Node{big("a-1")}, Pods: []*v1.Pod{other, tt.pod}, Private: true}
				f := s.Facts(nil, kubetest.Started)
				r := reasons.Judge(&f)
				found, err := explain.Find(&s, kubetest.Started)
				if err != nil {
					t.Fatal(err)
				}
				text := r.Message
				for _, rejection := range found.Rejections {
					text += "; " + rejection.Why
				}
				if found.Start != nil {
					text += "; " + found.Start.Text(kubetest.Started)
				}
				told := strings.Contains(strings.ReplaceAll(text, "app=secret", ""), "secret")
				if named := namespace == "ns"; told != named {
					t.Errorf("the name is shown: %v, want %v: %s", told, named, text)
				}
				if namespace == "other" && !strings.Contains(text, tt.says) {
					t.Errorf("it says %q, want %q", text, tt.says)
				}
			})
		}
	}
}
