package doctor_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/doctor"
	"berth.dev/berth/test/golden"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// TestClusters examines the clusters of testdata: objects in cluster.yaml, and the
// findings in want. Above the files stands what the cluster is; "forbidden: WHAT" is
// what could not be listed, "guarded" and "clusterpolicy" the two hints. A DaemonSet
// has a running pod, and wants one, on each node that its annotation pods-on names.
//
// rows: NB-02 NB-03 NB-11 GS-01 GS-05 GS-08 GS-09 GS-78 GS-83 AS-27 AS-43
func TestClusters(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no clusters in testdata: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			c := cluster(t, a)
			var got strings.Builder
			if err := finding.Print(&got, finding.Screen{}, doctor.Examine(c)); err != nil {
				t.Fatal(err)
			}
			golden.Part(t, path, a, "want", got.String())
			orderDoesNotMatter(t, c)
		})
	}
}

// orderDoesNotMatter examines the cluster with every list turned round.
func orderDoesNotMatter(t *testing.T, c doctor.Cluster) {
	t.Helper()
	want := doctor.Examine(c)
	slices.Reverse(c.Nodes)
	slices.Reverse(c.Pods)
	slices.Reverse(c.DaemonSets)
	slices.Reverse(c.Deployments)
	slices.Reverse(c.Leases)
	slices.Reverse(c.Slices)
	slices.Reverse(c.Classes)
	slices.Reverse(c.Quotas)
	slices.Reverse(c.LimitRanges)
	slices.Reverse(c.PriorityClasses)
	slices.Reverse(c.Rules)
	if diff := cmp.Diff(want, doctor.Examine(c)); diff != "" {
		t.Errorf("the order of the lists changes the findings (-want +got):\n%s", diff)
	}
	for _, f := range want {
		if (f.Status == finding.OK) != (f.Do == "") {
			t.Errorf("%s is %s, and what to do is %q", f.Name, f.Status, f.Do)
		}
		if f.How == "" {
			t.Errorf("%s does not say how it was seen", f.Name)
		}
	}
}

// cluster reads the objects of a file of testdata.
func cluster(t *testing.T, a *txtar.Archive) doctor.Cluster {
	t.Helper()
	c := doctor.Cluster{Now: now, Unread: map[string]string{}}
	for line := range strings.Lines(string(a.Comment)) {
		switch line = strings.TrimSpace(line); {
		case line == "guarded":
			c.Guarded = true
		case line == "clusterpolicy":
			c.ClusterPolicy = true
		case strings.HasPrefix(line, "forbidden: "):
			c.Unread[strings.TrimPrefix(line, "forbidden: ")] = "forbidden"
		case line != "" && !strings.HasPrefix(line, "#"):
			t.Fatalf("line %q is not understood", line)
		}
	}
	docs := yaml.NewYAMLToJSONDecoder(bytes.NewReader(a.Files[0].Data))
	for {
		var raw json.RawMessage
		if err := docs.Decode(&raw); errors.Is(err, io.EOF) {
			return c
		} else if err != nil {
			t.Fatal(err)
		}
		if c.Rules = append(c.Rules, rulesOf(raw)...); strings.Contains(string(raw), `"kind":"PrometheusRule"`) {
			continue
		}
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch o := obj.(type) {
		case *v1.Node:
			if o.Status.Allocatable == nil {
				o.Status.Allocatable = o.Status.Capacity
			}
			if o.Status.Conditions == nil {
				o.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
			}
			c.Nodes = append(c.Nodes, o)
		case *v1.Pod:
			c.Pods = append(c.Pods, o)
		case *appsv1.DaemonSet:
			c.DaemonSets = append(c.DaemonSets, o)
			c.Pods = append(c.Pods, podsOf(o)...)
		case *appsv1.Deployment:
			c.Deployments = append(c.Deployments, o)
		case *coordinationv1.Lease:
			c.Leases = append(c.Leases, o)
		case *v1.ResourceQuota:
			c.Quotas = append(c.Quotas, o)
		case *v1.LimitRange:
			c.LimitRanges = append(c.LimitRanges, o)
		case *schedulingv1.PriorityClass:
			c.PriorityClasses = append(c.PriorityClasses, o)
		case *resourcev1.ResourceSlice:
			c.Slices = append(c.Slices, o)
		case *resourcev1.DeviceClass:
			c.Classes = append(c.Classes, o)
		default:
			t.Fatalf("%T is not of a cluster", obj)
		}
	}
}

// rulesOf are the rules of a PrometheusRule.
func rulesOf(raw json.RawMessage) (out []doctor.Rule) {
	var object struct {
		Metadata struct{ Namespace, Name string }
		Spec     struct {
			Groups []struct {
				Rules []struct{ Alert, Expr string }
			}
		}
	}
	if json.Unmarshal(raw, &object) != nil {
		return nil
	}
	for _, g := range object.Spec.Groups {
		for _, r := range g.Rules {
			out = append(out, doctor.Rule{In: object.Metadata.Namespace + "/" + object.Metadata.Name, Name: r.Alert, Expr: r.Expr})
		}
	}
	return out
}

// podsOf makes the pods of a DaemonSet on the nodes that its annotation pods-on names, and
// counts them as ready where it has no status.
func podsOf(d *appsv1.DaemonSet) []*v1.Pod {
	nodes := strings.FieldsFunc(d.Annotations["pods-on"], func(r rune) bool { return r == ',' || r == ' ' })
	if d.Status.DesiredNumberScheduled == 0 {
		d.Status.DesiredNumberScheduled, d.Status.NumberReady = int32(len(nodes)), int32(len(nodes))
	}
	var out []*v1.Pod
	for i, n := range nodes {
		out = append(out, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: d.Namespace, Name: fmt.Sprintf("%s-%d", d.Name, i), Labels: d.Spec.Template.Labels,
				OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: d.Name, Controller: new(true)}},
			},
			Spec:   v1.PodSpec{NodeName: n, Containers: d.Spec.Template.Spec.Containers},
			Status: v1.PodStatus{Phase: v1.PodRunning},
		})
	}
	return out
}

// TestFindingsDoNotGrowWithNodes: a cluster of thousands of nodes is told in as many
// lines as a small one, each of a bounded length.
func TestFindingsDoNotGrowWithNodes(t *testing.T) {
	c := doctor.Cluster{Now: now}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "plugin"}}
	set.Spec.Template.Labels = map[string]string{"name": "nvidia-device-plugin-ds"}
	c.DaemonSets = append(c.DaemonSets, set)
	for i := range 5000 {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gpu-%04d", i), Labels: map[string]string{
			"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8",
			"nvidia.com/cuda.driver-version.full": fmt.Sprintf("570.%d.06", i%50),
		}}}
		n.Spec.Taints = []v1.Taint{{Key: fmt.Sprintf("team-%d", i%4), Effect: v1.TaintEffectNoSchedule}}
		if i%10 != 0 { // each tenth has hardware that nobody serves
			n.Status.Capacity = v1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
			n.Status.Allocatable = v1.ResourceList{"nvidia.com/gpu": resource.MustParse(fmt.Sprint(8 - i%3))}
		}
		n.Spec.Unschedulable = i%7 == 0
		c.Nodes = append(c.Nodes, n)
	}
	found := doctor.Examine(c)
	if len(found) > 40 {
		t.Errorf("%d findings for 5,000 nodes, want 40 at most", len(found))
	}
	for _, f := range found {
		if len(f.Seen)+len(f.Do) > 600 {
			t.Errorf("%s is %d bytes long, want 600 at most: %s", f.Name, len(f.Seen)+len(f.Do), f.Seen)
		}
	}
	if f := found[0]; f.Name != "gpu-nodes" || f.Seen != "4500 of 5000 nodes: 36000 GPUs" {
		t.Errorf("the first finding is %+v, want 4500 of 5000 nodes: 36000 GPUs", f)
	}
}
