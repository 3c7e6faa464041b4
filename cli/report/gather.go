package report

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/core/audit"
	core "berth.dev/berth/core/cost"
	"berth.dev/berth/kube/exporter"
	"berth.dev/berth/kube/training"
	"berth.dev/berth/kube/view"
)

// facts are what the page is made of.
type facts struct {
	cost                     core.Report
	users, queues, workloads core.UseReport
	idle                     core.IdleReport
	audit                    audit.Report
	target                   float64 // ratio
	live                     *live   // nil if it could not be read
	omitted                  string  // why it could not
}

// live is the cluster as it is now.
type live struct {
	nodes     []*v1.Node
	pods      []*v1.Pod
	view      view.View
	leftovers []view.Leftover
	queues    []*v1alpha1.Queue
	classes   []schedulingv1.PriorityClass
	exporters int
}

// ask has the ledger answer what the page needs.
func (c *command) ask(ctx context.Context, cluster *client.Cluster, from, to time.Time) (*facts, error) {
	f := &facts{target: c.target / 100}
	params := map[string]string{"from": from.UTC().Format(time.RFC3339), "to": to.UTC().Format(time.RFC3339)}
	for _, q := range []struct {
		question, by string
		into         any
	}{
		{"cost", "namespace", &f.cost}, {"use", "user", &f.users}, {"use", "queue", &f.queues}, {"use", "workload", &f.workloads}, {"idle", "", &f.idle}, {"audit", "", &f.audit},
	} {
		params["by"] = q.by
		if err := cluster.Ledger(ctx, q.question, params, q.into); err != nil {
			return nil, err
		}
	}
	now, err := c.look(ctx, cluster)
	if err != nil {
		f.omitted = err.Error()
	}
	f.live = now
	return f, nil
}

// look reads the cluster as it is now.
func (c *command) look(ctx context.Context, cluster *client.Cluster) (*live, error) {
	nodes, pods, err := cluster.NodesAndPods(ctx, "")
	if err != nil {
		return nil, err
	}
	l := &live{nodes: nodes, pods: pods, view: view.Cluster(nodes, pods), exporters: len(exporter.Exporters(pods))}
	rules, known := cluster.PriceRules(ctx, c.o)
	if known {
		l.view.SetPrices(nodes, rules, c.o.Time())
	}
	if l.queues, _, err = cluster.Queues(ctx, c.o); err != nil {
		return nil, err
	}
	classes, err := cluster.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, cluster.Failed("list priority classes", err)
	}
	l.classes = classes.Items
	l.leftovers, err = c.leftovers(ctx, cluster)
	return l, err
}

// leftovers reads what holds nothing any longer. Kinds that the cluster does not serve have none.
func (c *command) leftovers(ctx context.Context, cluster *client.Cluster) ([]view.Leftover, error) {
	jobs, err := cluster.BatchV1().Jobs("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, cluster.Failed("list jobs", err)
	}
	claims, err := cluster.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, cluster.Failed("list volume claims", err)
	}
	api, err := cluster.Dynamic(c.o)
	if err != nil {
		return nil, err
	}
	var jobsOfTraining []unstructured.Unstructured
	for _, kind := range training.Kinds() {
		list, err := all(ctx, api, training.ResourceOf(kind))
		if err != nil {
			return nil, cluster.Failed("list "+kind, err)
		}
		jobsOfTraining = append(jobsOfTraining, list...)
	}
	found, err := all(ctx, api, kubeflow.Resource)
	if err != nil {
		return nil, cluster.Failed("list notebooks", err)
	}
	notebooks := make([]*kubeflow.Notebook, len(found))
	for i := range found {
		notebooks[i] = &kubeflow.Notebook{}
		raw, err := json.Marshal(found[i].Object)
		if err == nil {
			err = json.Unmarshal(raw, notebooks[i])
		}
		if err != nil {
			return nil, fmt.Errorf("read notebook %s/%s: %w", found[i].GetNamespace(), found[i].GetName(), err)
		}
	}
	return view.LeftoversOf(finished(jobs.Items), jobsOfTraining, notebooks, claims.Items), nil
}

// finished are Jobs without those that still have pods.
func finished(jobs []batchv1.Job) (out []batchv1.Job) {
	for i := range jobs {
		if jobs[i].Status.Active == 0 {
			out = append(out, jobs[i])
		}
	}
	return out
}

// all lists the objects of a resource; a cluster that does not serve it has none.
func all(ctx context.Context, api dynamic.Interface, resource schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	found, err := api.Resource(resource).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return found.Items, nil
}
