package test

import (
	"context"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"berth.dev/berth/kube/queues"
)

// boundalike NAMESPACE: wait until each pod in it has a node. The first version of each that has one must hold for its queue what was
// reserved for the version before: the scheduler then counts it once. All versions since the namespace was created are read from the
// API server, as a scheduler gets them.
func boundalike(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: boundalike NAMESPACE")
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", ts.Getenv("KUBECONFIG"))
	ts.Check(err)
	client, err := kubernetes.NewForConfig(cfg)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	ns, err := client.CoreV1().Namespaces().Get(ctx, args[0], metav1.GetOptions{})
	ts.Check(err)
	pods := client.CoreV1().Pods(ns.Name)
	list, err := pods.List(ctx, metav1.ListOptions{})
	ts.Check(err)
	if len(list.Items) == 0 {
		ts.Fatalf("namespace %s has no pods", ns.Name)
	}
	waits := map[types.UID]bool{}
	for i := range list.Items {
		waits[list.Items[i].UID] = true
	}
	w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: ns.ResourceVersion})
	ts.Check(err)
	defer w.Stop()
	for was := map[types.UID]*v1.Pod{}; len(waits) > 0; {
		event, more := <-w.ResultChan()
		pod, is := event.Object.(*v1.Pod)
		if !more || !is {
			ts.Fatalf("the watch of pods ended with %v, and %d have no node", event.Object, len(waits))
		}
		if old := was[pod.UID]; waits[pod.UID] && pod.Spec.NodeName != "" {
			if delete(waits, pod.UID); !queues.BoundAlike(old, pod) {
				ts.Fatalf("pod %s is counted again as it is bound; it was\n%v %v\nand is\n%v %v", pod.Name, old.Labels, old.Annotations, pod.Labels, pod.Annotations)
			}
		}
		was[pod.UID] = pod
	}
}
