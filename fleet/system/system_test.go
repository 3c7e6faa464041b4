package system_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	clientset "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"

	"berth.dev/berth/api"
	"berth.dev/berth/fleet/system"
)

var full = system.Options{GPU: true, CABundle: []byte("authority"), MetricsIP: "10.64.255.254"}

// templates returns the pod templates of objects by "namespace/name".
func templates(objects []runtime.Object) map[string]v1.PodTemplateSpec {
	found := map[string]v1.PodTemplateSpec{}
	for _, obj := range objects {
		switch o := obj.(type) {
		case *appsv1.DaemonSet:
			found[o.Namespace+"/"+o.Name] = o.Spec.Template
		case *appsv1.Deployment:
			found[o.Namespace+"/"+o.Name] = o.Spec.Template
		}
	}
	return found
}

// TestSelectors checks the labels that users' commands select pods by.
//
// rows: NB-11
func TestSelectors(t *testing.T) {
	tests := []struct {
		name, namespace, selector string
		want                      []string
	}{
		{name: "the static manifest's label finds the plugin in kube-system", namespace: "kube-system", selector: "name=nvidia-device-plugin-ds", want: []string{"nvidia-device-plugin-daemonset"}},
		{name: "the Helm chart's label finds it too", namespace: "kube-system", selector: "app.kubernetes.io/name=nvidia-device-plugin", want: []string{"nvidia-device-plugin-daemonset"}},
		{name: "the operator's exporter is found by app", namespace: "gpu-operator", selector: "app=nvidia-dcgm-exporter", want: []string{"nvidia-dcgm-exporter"}},
		{name: "the operator's namespace holds its six workloads", namespace: "gpu-operator", selector: "", want: []string{
			"gpu-feature-discovery", "gpu-operator", "nvidia-container-toolkit-daemonset", "nvidia-dcgm-exporter",
			"nvidia-device-plugin-daemonset", "nvidia-driver-daemonset",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			selector, err := labels.Parse(tt.selector)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for key, template := range templates(system.Objects(full)) {
				for _, name := range tt.want {
					if key == tt.namespace+"/"+name && selector.Matches(labels.Set(template.Labels)) {
						got = append(got, name)
					}
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("pods -n %s -l %q (-want +got):\n%s", tt.namespace, tt.selector, diff)
			}
		})
	}
}

func TestWorkloadsLeaveNodesToUsers(t *testing.T) {
	for key, template := range templates(system.Objects(full)) {
		for _, c := range template.Spec.Containers {
			if cpu, memory := c.Resources.Requests.Cpu().MilliValue(), c.Resources.Requests.Memory().Value(); cpu > 10 || memory > 16<<20 {
				t.Errorf("%s: container %s asks for %dm CPU and %d bytes, want at most 10m and 16Mi", key, c.Name, cpu, memory)
			}
		}
		if got := template.Spec.NodeSelector[api.LabelSimulated]; got != "true" {
			t.Errorf("%s: node selector %s = %q, want it off nodes that are not simulated", key, api.LabelSimulated, got)
		}
		if got := template.Annotations[api.AnnotationSimulated]; got == "" {
			t.Errorf("%s: its pods do not say that they are simulated", key)
		}
	}
}

// TestSelectorsMatchTheirPods holds what the API server would refuse: a
// selector that does not select its own template, an object named twice.
func TestSelectorsMatchTheirPods(t *testing.T) {
	seen := map[string]bool{}
	for _, obj := range system.Objects(full) {
		m := obj.(metav1.Object)
		key := fmt.Sprintf("%T %s/%s", obj, m.GetNamespace(), m.GetName())
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		var selector *metav1.LabelSelector
		var pods map[string]string
		switch o := obj.(type) {
		case *appsv1.DaemonSet:
			selector, pods = o.Spec.Selector, o.Spec.Template.Labels
		case *appsv1.Deployment:
			selector, pods = o.Spec.Selector, o.Spec.Template.Labels
		default:
			continue
		}
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		if !s.Matches(labels.Set(pods)) {
			t.Errorf("%s: selector %s does not select its pods %v", key, s, pods)
		}
	}
}

// TestMetricsAPI holds what the API server asks of an APIService before it
// calls it available: a Service with the port, and a ready endpoint of the
// same port name.
func TestMetricsAPI(t *testing.T) {
	var service *v1.Service
	var slice *discoveryv1.EndpointSlice
	var registration *apiregistrationv1.APIService
	for _, obj := range system.MetricsAPI([]byte("authority"), "10.64.255.254") {
		switch o := obj.(type) {
		case *v1.Service:
			service = o
		case *discoveryv1.EndpointSlice:
			slice = o
		case *apiregistrationv1.APIService:
			registration = o
		}
	}
	if got, want := *registration.Spec.Service.Port, service.Spec.Ports[0].Port; got != want || registration.Spec.Service.Name != service.Name {
		t.Errorf("the APIService asks for %s:%d, the Service is %s:%d", registration.Spec.Service.Name, got, service.Name, want)
	}
	if got, want := *slice.Ports[0].Name, service.Spec.Ports[0].Name; got != want {
		t.Errorf("endpoint port name = %q, want the Service's %q", got, want)
	}
	if got := slice.Labels[discoveryv1.LabelServiceName]; got != service.Name {
		t.Errorf("the EndpointSlice belongs to %q, want %q", got, service.Name)
	}
	if registration.Spec.InsecureSkipTLSVerify || string(registration.Spec.CABundle) != "authority" {
		t.Errorf("TLS: insecure %v, authority %q; want it checked against the authority given", registration.Spec.InsecureSkipTLSVerify, registration.Spec.CABundle)
	}
	if got, want := registration.Name, registration.Spec.Version+"."+registration.Spec.Group; got != want {
		t.Errorf("name = %q, want %q", got, want)
	}
}

func TestOneStorageClassIsTheDefault(t *testing.T) {
	client, agg := fake.NewClientset(), aggregator.NewSimpleClientset()
	if err := apply(context.Background(), client, agg, system.StorageClasses()); err != nil {
		t.Fatal(err)
	}
	list, err := client.StorageV1().StorageClasses().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, c := range list.Items {
		got[c.Name] = c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true"
	}
	if diff := cmp.Diff(map[string]bool{"standard": true, "fast-ssd": false}, got); diff != "" {
		t.Errorf("storage classes, and whether they are the default (-want +got):\n%s", diff)
	}
}

// apply is system.Apply of objects all of which may be missing.
func apply(ctx context.Context, client kubernetes.Interface, agg clientset.Interface, objects []runtime.Object) error {
	return system.Apply(ctx, client, agg, objects, objects)
}

func TestApplyCreatesAll(t *testing.T) {
	ctx, client, agg := context.Background(), fake.NewClientset(), aggregator.NewSimpleClientset()
	if err := apply(ctx, client, agg, system.Objects(full)); err != nil {
		t.Fatal(err)
	}
	created := 0
	for _, action := range append(client.Actions(), agg.Actions()...) {
		if action.GetVerb() == "create" {
			created++
		}
	}
	if want := len(system.Objects(full)); created != want {
		t.Errorf("Apply created %d objects, want %d", created, want)
	}
	if _, err := client.CoreV1().Namespaces().Get(ctx, system.OperatorNamespace, metav1.GetOptions{}); err != nil {
		t.Errorf("namespace %s: %v", system.OperatorNamespace, err)
	}
}

func TestWhatIsDeletedAfterTheStartStaysDeleted(t *testing.T) {
	ctx, client, agg, objects := t.Context(), fake.NewClientset(), aggregator.NewSimpleClientset(), system.Objects(full)
	missing, err := system.Missing(ctx, client, agg, objects)
	if err != nil || len(missing) != len(objects) {
		t.Fatalf("of a new cluster %d of %d objects are missing, %v", len(missing), len(objects), err)
	}
	if err := system.Apply(ctx, client, agg, objects, missing); err != nil {
		t.Fatal(err)
	}
	sets := client.AppsV1().DaemonSets(system.OperatorNamespace)
	if err := sets.Delete(ctx, system.PluginName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if missing, err = system.Missing(ctx, client, agg, objects); err != nil || len(missing) != 1 {
		t.Fatalf("at the next start %d objects are missing, %v; want the one that was deleted", len(missing), err)
	}
	if err := sets.Delete(ctx, "nvidia-dcgm-exporter", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := system.Apply(ctx, client, agg, objects, missing); err != nil {
		t.Fatal(err)
	}
	if _, err := sets.Get(ctx, system.PluginName, metav1.GetOptions{}); err != nil {
		t.Errorf("what was missing is not created: %v", err)
	}
	if _, err := sets.Get(ctx, "nvidia-dcgm-exporter", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was deleted after the start is back: %v", err)
	}
}

func TestWithoutGPUsThereIsStorageAndMetricsOnly(t *testing.T) {
	if got := templates(system.Objects(system.Options{})); len(got) != 0 {
		t.Errorf("workloads without GPUs = %v, want none", got)
	}
}

func TestApplyLeavesWhatAUserChanged(t *testing.T) {
	ctx, client, agg := context.Background(), fake.NewClientset(), aggregator.NewSimpleClientset()
	if err := apply(ctx, client, agg, system.Objects(full)); err != nil {
		t.Fatal(err)
	}
	sets := client.AppsV1().DaemonSets(system.OperatorNamespace)
	plugin, err := sets.Get(ctx, system.PluginName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	plugin.Spec.Template.Spec.Containers[0].Image = "example.com/mine:1"
	if _, err := sets.Update(ctx, plugin, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.StorageV1().StorageClasses().Delete(ctx, "fast-ssd", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	renewed := full
	renewed.CABundle = []byte("new authority")
	if err := apply(ctx, client, agg, system.Objects(renewed)); err != nil {
		t.Fatal(err)
	}
	if plugin, err = sets.Get(ctx, system.PluginName, metav1.GetOptions{}); err != nil || plugin.Spec.Template.Spec.Containers[0].Image != "example.com/mine:1" {
		t.Errorf("after a restart the plugin's image is %q, %v; want the user's", plugin.Spec.Template.Spec.Containers[0].Image, err)
	}
	if _, err := client.StorageV1().StorageClasses().Get(ctx, "fast-ssd", metav1.GetOptions{}); err != nil {
		t.Errorf("after a restart fast-ssd: %v, want it created again", err)
	}
	registration, err := agg.ApiregistrationV1().APIServices().Get(ctx, "v1beta1.metrics.k8s.io", metav1.GetOptions{})
	if err != nil || string(registration.Spec.CABundle) != "new authority" {
		t.Errorf("after a restart the authority is %q, %v; want the new one", registration.Spec.CABundle, err)
	}
}

func TestApplyLeavesAnotherMetricsServerAlone(t *testing.T) {
	ctx := context.Background()
	theirs := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1beta1.metrics.k8s.io"},
		Spec:       apiregistrationv1.APIServiceSpec{CABundle: []byte("theirs")},
	}
	agg := aggregator.NewSimpleClientset(theirs)
	if err := apply(ctx, fake.NewClientset(), agg, system.Objects(full)); err != nil {
		t.Fatal(err)
	}
	got, err := agg.ApiregistrationV1().APIServices().Get(ctx, theirs.Name, metav1.GetOptions{})
	if err != nil || string(got.Spec.CABundle) != "theirs" {
		t.Errorf("authority of a foreign metrics server = %q, %v; want theirs", got.Spec.CABundle, err)
	}
}

func TestApplyTriesAllAndNamesWhatItCouldNotCreate(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "daemonsets", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(fmt.Errorf("disk full"))
	})
	err := apply(context.Background(), client, aggregator.NewSimpleClientset(), system.Objects(full))
	if err == nil || !apierrors.IsInternalError(firstOf(err)) {
		t.Fatalf("Apply = %v, want the API server's error wrapped", err)
	}
	if got, want := len(err.(interface{ Unwrap() []error }).Unwrap()), 6; got != want {
		t.Errorf("Apply joined %d errors, want one for each of %d DaemonSets: %v", got, want, err)
	}
	if _, err := client.CoreV1().Services(system.OperatorNamespace).Get(context.Background(), "nvidia-dcgm-exporter", metav1.GetOptions{}); err != nil {
		t.Errorf("the Service after the DaemonSets: %v, want it created", err)
	}
}

func firstOf(err error) error { return err.(interface{ Unwrap() []error }).Unwrap()[0] }

func TestApplyStopsWhenTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	client := fake.NewClientset()
	if err := apply(ctx, client, aggregator.NewSimpleClientset(), system.Objects(full)); err == nil {
		t.Error("Apply on an ended context succeeded, want its error")
	}
	if n := len(client.Actions()); n != 0 {
		t.Errorf("Apply on an ended context sent %d requests, want none", n)
	}
}
