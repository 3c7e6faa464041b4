package cli_test

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"berth.dev/berth/api"
	"berth.dev/berth/cli"
	"berth.dev/berth/test/screen"
)

// brokenLab is the lab with two simulated faults.
func brokenLab(t *testing.T) *stage {
	s := newStage(t, lab()...)
	s.ok("sim", "break", "xid-79", "gpu-a100-1/3")
	s.ok("sim", "break", "image", "gpu-t4-1")
	return s
}

// claimed is a hub whose users have homes, of which one has a name of kubespawner's before its version 7.
func claimed(t *testing.T) *stage {
	s, file := hubStage(t)
	s.ok("profiles", "import", file)
	for name, user := range map[string]string{"claim-ada": "ada", "claim-grace-2ehopper": "grace.hopper"} {
		c := claim("default", name)
		c.Annotations = map[string]string{api.AnnotationHubUser: user}
		if _, err := s.client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// happenedStage has events of queues.
func happenedStage(t *testing.T) *stage {
	s := busyTeams(t)
	for i, e := range []v1.Event{
		{Reason: "Scheduled", Message: "Successfully assigned vision/train-0 to n-1", InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "vision", Name: "train-0", UID: "vision/train-0"}},
		{Reason: "Borrows", Message: "queue vision borrows 2 nvidia.com/gpu of speech, 10 of its 8", InvolvedObject: v1.ObjectReference{Kind: "Queue", Name: "vision"}},
	} {
		e.Name, e.Namespace, e.LastTimestamp = fmt.Sprint("e", i), cmp.Or(e.InvolvedObject.Namespace, "default"), metav1.NewTime(now.Add(-time.Duration(i+1)*time.Hour))
		if _, err := s.client.CoreV1().Events(e.Namespace).Create(t.Context(), &e, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// startingStage has a pod whose image is not there, with events that say so.
func startingStage(t *testing.T) *stage {
	p := pod("vision", "resnet", "n-1", api.ResourceGPU)
	p.Status.Phase = v1.PodPending
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: `Back-off pulling image "registry.example/team/resnet:v2"`}}}}
	event := func(name, reason, message string, ago time.Duration, count int32) *v1.Event {
		return &v1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name}, InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "vision", Name: "resnet", UID: p.UID},
			Type: v1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(now.Add(-ago)), Count: count,
		}
	}
	return newStage(t, node("n-1", "Tesla T4", 4, "", api.ResourceGPU, 4), p,
		event("a", "Failed", `Failed to pull image "registry.example/team/resnet:v2": rpc error: code = NotFound desc = failed to pull and unpack image: not found`, time.Minute, 4),
		event("b", "BackOff", `Back-off pulling image "registry.example/team/resnet:v2"`, 10*time.Second, 12))
}

// TestScreens prints each table on terminals of 60, 80, and 200 columns. No line of a table is longer than the terminal,
// and what is left out is named.
func TestScreens(t *testing.T) {
	hub, file := hubStage(t)
	hub.ok("profiles", "import", file)
	accurate := busyTeams(t)
	estimated(t, accurate)
	for _, tt := range []struct {
		file  string
		stage *stage
		args  string
		prose []string // starts of lines that are text
	}{
		{"nodes", newStage(t, lab()...), "nodes", nil},
		{"nodes_by", newStage(t, lab()...), "nodes --by nvidia.com/gpu.product", nil},
		{"nodes_allocation", newStage(t, lab()...), "nodes --view allocation", nil},
		{"gpus", newStage(t, lab()...), "gpus", nil},
		{"queue", busyTeams(t), "queue", []string{"old: "}},
		{"queue_show", busyTeams(t), "queue show speech", []string{"1 workload more"}},
		{"queue_accuracy", accurate, "queue accuracy", nil},
		{"queue_history", happenedStage(t), "queue history", nil},
		{"notebooks", notebooks(t, books()...), "notebook list -A", nil},
		{"train", trainStage(t), "train list -A", []string{"tfjob "}},
		{"train_show", trainStage(t), "train show bert -n vision", []string{"vision/bert"}},
		{"services", serviceStage(t), "service list -A", nil},
		{"service_show", serviceStage(t), "service show mnist -n vision", []string{"WHY "}},
		{"service_show_canary", canaryStage(t, "Canary", "the new revision gets 20% of the requests"), "service show mnist -n vision", []string{"WHY "}},
		{"prices", pricedLab(t), "price list", nil},
		{"price_explain", pricedLab(t), "price explain listed", nil},
		{"explain", newStage(t), "explain", nil},
		{"explain_code", newStage(t), "explain C12", nil},
		{"profiles", hub, "profiles list", []string{"one-t4: ", "an-h100: "}},
		{"profiles_claims", claimed(t), "profiles claims half-the-cluster", nil},
		{"sim", brokenLab(t), "sim list", nil},
		{"doctor", newStage(t, served()...), "doctor", nil},
		{"lint", newStage(t), "lint -f testdata/trap.yaml", nil},
		{"why", newStage(t, node("n-1", "Tesla T4", 4, "", "nvidia.com/gpu", 4), pending("vision", "large-a-with-a-long-name-of-a-replica-set-7c9d8", "9"), pending("vision", "b", "9")), "why -A", nil},
		{"notebook_why", notebooks(t, books()...), "notebook why -n research big", nil},
		{"why_pod", startingStage(t), "why -n vision resnet", nil},
	} {
		t.Run(tt.file, func(t *testing.T) {
			screen.File(t, "screens_"+tt.file+".txt", func(w io.Writer) {
				code := cli.Main(append([]string{"berth"}, strings.Fields(tt.args)...), cli.Options{
					Out: w, Err: w, Connect: tt.stage.connect, Now: func() time.Time { return now }, BusyPatience: time.Minute,
					Dynamic: func(*rest.Config) (dynamic.Interface, error) { return tt.stage.dynamic, nil },
				})
				if code != 0 && tt.file != "lint" {
					t.Errorf("berth %s: exit code %d", tt.args, code)
				}
			}, tt.prose...)
		})
	}
}
