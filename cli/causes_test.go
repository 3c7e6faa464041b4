package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/yaml"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/api/v1alpha1"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/fleet/spec"
	"berth.dev/berth/test/golden"
)

// made are the objects of a cluster in which a cause was made: the nodes of a fleet, and
// what a file has, with what the cluster would fill in.
type made struct {
	t          *testing.T
	nodes      map[string]*v1.Node
	objects    []runtime.Object
	others     []*unstructured.Unstructured // of kinds that Kubernetes does not have
	priorities map[string]*schedulingv1.PriorityClass
	pods       []*v1.Pod
}

// makeCause reads objects over the nodes of a fleet.
func makeCause(t *testing.T, fleet string, data []byte) *made {
	t.Helper()
	f, err := spec.Load(fleet)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(string(data), "# fleet: none\n") {
		f.Nodes = nil
	}
	m := &made{t: t, nodes: map[string]*v1.Node{}, priorities: map[string]*schedulingv1.PriorityClass{}}
	faults := map[string]string{}
	for doc := range strings.SplitSeq(string(data), "---\n") {
		var meta metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(doc), &meta); err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		if meta.Kind == "Node" && meta.Annotations["berth.dev/faults"] != "" {
			faults[meta.Name] = meta.Annotations["berth.dev/faults"]
		}
	}
	for _, n := range f.Nodes {
		broken := faults[n.Name]
		for i := range n.GPUs {
			if broken == "driver" || strings.Contains(broken, "xid-79/"+string(rune('0'+i))) {
				n.GPUs[i].Healthy = false
				if broken != "driver" {
					n.GPUs[i].Xid = 79
				}
			}
		}
		obj, err := spec.Kubernetes(n, "10.0.0.1", now.Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if broken == "kubelet" {
			for i := range obj.Status.Conditions {
				obj.Status.Conditions[i].Status = v1.ConditionUnknown
			}
		}
		if broken == "device-plugin" {
			for name := range obj.Status.Allocatable {
				if strings.HasPrefix(string(name), "nvidia.com/") {
					obj.Status.Allocatable[name] = amounts(string(name), 0)[name]
				}
			}
		}
		m.nodes[n.Name] = obj
	}
	for doc := range strings.SplitSeq(string(data), "---\n") {
		m.add(doc)
	}
	m.fill()
	return m
}

// add reads one object.
func (m *made) add(doc string) {
	m.t.Helper()
	asJSON, err := yaml.ToJSON([]byte(doc))
	if err != nil {
		m.t.Fatalf("%v:\n%s", err, doc)
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(asJSON, nil, nil)
	if err != nil {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(asJSON, u); err != nil {
			m.t.Fatalf("%v:\n%s", err, doc)
		}
		m.others = append(m.others, u)
		return
	}
	switch o := obj.(type) {
	case *v1.Node:
		was := m.nodes[o.Name]
		if was == nil {
			m.nodes[o.Name] = o
			return
		}
		old, _ := json.Marshal(was)
		merged, err := strategicpatch.StrategicMergePatch(old, asJSON, v1.Node{})
		if err != nil {
			m.t.Fatal(err)
		}
		now := &v1.Node{}
		if err := json.Unmarshal(merged, now); err != nil {
			m.t.Fatal(err)
		}
		m.nodes[o.Name] = now
	case *v1.Pod:
		m.pods = append(m.pods, o)
	case *schedulingv1.PriorityClass:
		m.priorities[o.Name] = o
		m.objects = append(m.objects, o)
	default:
		m.objects = append(m.objects, obj)
	}
}

// fill adds what the API server, the scheduler, and kubelets would.
func (m *made) fill() {
	for _, obj := range m.objects {
		if o, ok := obj.(metav1.Object); ok && !slices.Contains(clusterWide, obj.GetObjectKind().GroupVersionKind().Kind) {
			namespaced(o)
		}
		switch o := obj.(type) {
		case *batchv1.Job:
			o.Status.UncountedTerminatedPods = nil
		case *policyv1.PodDisruptionBudget:
			o.Status.DisruptionsAllowed = 0
		}
	}
	for i, p := range m.pods {
		namespaced(p)
		p.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute + time.Duration(i)*time.Second))
		for _, c := range m.priorities {
			if c.GlobalDefault && p.Spec.PriorityClassName == "" {
				p.Spec.PriorityClassName = c.Name
			}
		}
		if c := m.priorities[p.Spec.PriorityClassName]; c != nil {
			p.Spec.Priority, p.Spec.PreemptionPolicy = &c.Value, c.PreemptionPolicy
		}
		if p.Spec.SchedulerName == "" {
			p.Spec.SchedulerName = "default-scheduler"
		}
		for j := range p.Spec.Containers {
			r := &p.Spec.Containers[j].Resources
			for name, q := range r.Limits {
				if r.Requests == nil {
					r.Requests = v1.ResourceList{}
				}
				if _, set := r.Requests[name]; !set {
					r.Requests[name] = q
				}
			}
		}
		if len(p.Finalizers) > 0 {
			p.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Minute)}
		}
		if p.Status.Phase != "" || len(p.Status.Conditions) > 0 || len(p.Status.ContainerStatuses) > 0 {
			continue
		}
		if p.Spec.NodeName != "" {
			p.Status.Phase, p.Status.StartTime = v1.PodRunning, &metav1.Time{Time: now}
			continue
		}
		refused := v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: "0/6 nodes are available"}
		if len(p.Spec.SchedulingGates) > 0 {
			refused.Reason, refused.Message = v1.PodReasonSchedulingGated, "Scheduling is blocked due to non-empty scheduling gates"
		}
		p.Status = v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{refused}}
	}
}

// clusterWide are the kinds of these files that have no namespace.
var clusterWide = []string{"Namespace", "PersistentVolume", "StorageClass", "DeviceClass", "ResourceSlice", "ValidatingAdmissionPolicy", "ValidatingWebhookConfiguration", "PriorityClass"}

func namespaced(o metav1.Object) {
	if o.GetNamespace() == "" {
		o.SetNamespace("default")
	}
	if o.GetUID() == "" {
		o.SetUID(types.UID(o.GetName()))
	}
}

// stage is a client of the cluster.
func (m *made) stage() *stage {
	all := slices.Clone(m.objects)
	for _, n := range m.nodes {
		all = append(all, n)
	}
	for _, p := range m.pods {
		all = append(all, p)
	}
	byName := map[string]runtime.Object{}
	for _, obj := range all { // what the cluster makes of an object stands after it
		o := obj.(metav1.Object)
		byName[obj.GetObjectKind().GroupVersionKind().Kind+"/"+o.GetNamespace()+"/"+o.GetName()] = obj
	}
	all = all[:0]
	for _, obj := range byName {
		all = append(all, obj)
	}
	s := newStage(m.t, all...)
	var others []runtime.Object
	for _, u := range m.others {
		others = append(others, u)
	}
	s.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Group: "berth.dev", Version: "v1alpha1", Resource: "queues"}:     "QueueList",
		{Group: "berth.dev", Version: "v1alpha1", Resource: "pricebooks"}: "PriceBookList",
		kubeflow.Resource: "NotebookList", kubeflow.TFJobs: "TFJobList", kubeflow.PyTorchJobs: "PyTorchJobList", trainer.TrainJobs: "TrainJobList", v1alpha1.NotebookProfiles: "NotebookProfileList",
		{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: "workloads"}:               "WorkloadList",
		{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}:               "WorkloadList",
		{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: "workloadpriorityclasses"}: "WorkloadPriorityClassList",
		{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloadpriorityclasses"}: "WorkloadPriorityClassList",
	}, others...)
	for _, u := range m.others {
		if u.GetKind() == "PodMetrics" {
			s.connect = func(*rest.Config) (kubernetes.Interface, error) { return measured{s.client, u}, nil }
		}
	}
	return s
}

// measured is a client of a cluster with an exporter and the metrics API, which both answer
// from one object.
type measured struct {
	kubernetes.Interface
	metrics *unstructured.Unstructured
}

func (m measured) CoreV1() corev1.CoreV1Interface {
	return measuredCore{m.Interface.CoreV1(), m.metrics}
}

type measuredCore struct {
	corev1.CoreV1Interface
	metrics *unstructured.Unstructured
}

func (m measuredCore) RESTClient() rest.Interface {
	return &restfake.RESTClient{
		NegotiatedSerializer: scheme.Codecs, GroupVersion: v1.SchemeGroupVersion, VersionedAPIPath: "/api/v1",
		Client: restfake.CreateHTTPClient(func(r *http.Request) (*http.Response, error) {
			raw, err := m.metrics.MarshalJSON()
			if strings.HasSuffix(r.URL.Path, "/metrics") {
				raw = []byte(m.metrics.GetAnnotations()["readings"])
			}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(raw))}, err
		}),
	}
}

// why is what `berth why` prints of a workload, as JSON.
func (m *made) why(ask string) (code, state, cause string) {
	m.t.Helper()
	s := m.stage()
	out, stderr, exit := s.run(append([]string{"berth", "why", "-o", "json"}, strings.Fields(ask)...)...)
	if out == "" {
		m.t.Fatalf("berth why %s: exit code %d: %s", ask, exit, stderr)
	}
	var list struct {
		Items []struct{ Code, State, Cause string }
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 1 {
		m.t.Fatalf("%v: %s", err, out)
	}
	r := list.Items[0]
	return r.Code, r.State, r.Cause
}

// TestWhyPage compares docs/why.md with what is said of the causes; with -update it
// writes the page. The words of kubectl are those that test/script/kubectl-words.txtar has
// read on a cluster with kube-scheduler.
func TestWhyPage(t *testing.T) {
	words, err := os.ReadFile("testdata/kubectl-words.txt")
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.WriteString("# Causes in the words of Kubernetes and of Berth\n\nThe same causes in the words of `kubectl get events`, or of the pod's status, on a cluster with kube-scheduler, and of `berth why`. `berth explain CODE` tells\n" +
		"more about each of them; [causes](causes/README.md) lists all.\n\n" +
		"Two causes that other systems know have no code, because no object of a cluster shows them: B11, a budget is spent, and B12, a time window is not open.\n" +
		"A pod that another system holds back for one of them has a scheduling gate, which is BERTH-B01.\n\nGenerated: `go test ./test -run 'TestScripts/kubectl-words' -update` reads the words of `kubectl` on a cluster of `berth up --scheduler stock`, and\n" +
		"`go test ./cli -run TestWhyPage -update` writes the page.\n")
	count := 0
	for part := range strings.SplitSeq(strings.TrimPrefix(string(words), "== "), "\n== ") {
		code, theirs, _ := strings.Cut(part, "\n")
		e, ok := reasons.Find(code)
		data, err := os.ReadFile("causes/BERTH-" + code + ".yaml")
		if !ok || err != nil {
			t.Fatal(code, err)
		}
		got, state, cause := makeCause(t, "default", data).why(e.Ask)
		if got != string(e.Code) || theirs == "" {
			t.Errorf("%s: it says %s; Kubernetes says %q", code, got, theirs)
		}
		count++
		fmt.Fprintf(&page, "\n## %s: %s\n\n`kubectl`:\n\n```text\n%s\n```\n\n`berth why %s`:\n\n```text\n%s: %s\n```\n", e.Code, e.Title, strings.TrimSpace(theirs), e.Ask, state, cause)
	}
	if count < 20 {
		t.Errorf("the page has %d causes, want 20", count)
	}
	golden.File(t, "../../docs/why.md", page.String())
}

// TestEveryCauseIsFound makes each cause of the catalog from the objects that `berth
// explain --example` prints and from what a cluster makes of them, and reads the headline.
//
// rows: NB-38 NB-40 GS-58 AS-54
func TestEveryCauseIsFound(t *testing.T) {
	right, all := 0, 0
	for i := range reasons.Catalog {
		e := &reasons.Catalog[i]
		data, err := os.ReadFile("causes/" + string(e.Code) + ".yaml")
		if e.Ask == "" {
			if err == nil {
				t.Errorf("%s has objects, and does not say what to ask about", e.Code)
			}
			continue
		}
		all++
		t.Run(string(e.Code), func(t *testing.T) {
			if err != nil {
				t.Fatal(err)
			}
			code, state, cause := makeCause(t, "default", data).why(e.Ask)
			if code != string(e.Code) {
				t.Errorf("berth why %s: %s %s: %s", e.Ask, code, state, cause)
				return
			}
			right++
			if strings.Contains(cause, "%!") || cause == "" && e.Code != reasons.CodeShares {
				t.Errorf("it says %q", cause)
			}
			t.Log(state + ": " + cause)
		})
	}
	t.Logf("%d of %d headlines are right; %d causes are in the catalog", right, all, len(reasons.Catalog))
}

// TestBusyNodesDoNotHideTheCause makes each cause that is about certain nodes once more,
// while pods hold all GPUs of the other nodes, one of these is cordoned, and another pod
// waits: the headline is the same.
func TestBusyNodesDoNotHideTheCause(t *testing.T) {
	right, all := 0, 0
	for i := range reasons.Catalog {
		e := &reasons.Catalog[i]
		data, err := os.ReadFile("causes/" + string(e.Code) + ".yaml")
		if err != nil || !strings.Contains(string(data), "gpu-") {
			continue
		}
		text := string(data)
		for node, gpus := range map[string]string{"gpu-h100-1": "8", "gpu-a100-1": "8", "gpu-v100-1": "2", "gpu-t4-2": "4", "gpu-t4-1": "16"} {
			if !strings.Contains(text, node) {
				text += "---\napiVersion: v1\nkind: Pod\nmetadata: {name: busy-" + node + "}\nspec:\n  nodeName: " + node +
					"\n  containers: [{name: main, image: \"x/y:1\", resources: {limits: {nvidia.com/gpu: " + gpus + "}}}]\n"
			}
		}
		if !strings.Contains(text, "name: gpu-t4-2}") && !strings.Contains(string(data), "gpu-t4-2") {
			text += "---\napiVersion: v1\nkind: Node\nmetadata: {name: gpu-t4-2}\nspec: {unschedulable: true}\n"
		}
		text += "---\napiVersion: v1\nkind: Pod\nmetadata: {name: other}\nspec:\n  containers: [{name: main, image: \"x/y:1\", resources: {limits: {nvidia.com/gpu: 8}}}]\n"
		all++
		if code, state, cause := makeCause(t, "default", []byte(text)).why(e.Ask); code != string(e.Code) {
			t.Errorf("%s: berth why %s: %s %s: %s", e.Code, e.Ask, code, state, cause)
			continue
		}
		right++
	}
	t.Logf("%d of %d headlines are right", right, all)
}
