package train

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
)

// Found is a training job, and the pods that write what it has made.
type Found struct {
	training.Job
	Spec      v1.PodSpec // of its first pod: the chief's, the master's, or the first worker's
	Container string     // that trains
}

// Title is the job as messages name it.
func (f *Found) Title() string { return short(f.Kind) + " " + f.Namespace + "/" + f.Name }

// Find returns the job of a name, or of KIND/NAME, in a namespace of a cluster.
func Find(ctx context.Context, c *client.Cluster, api dynamic.Interface, namespace string, o client.Options, arg string) (*Found, error) {
	j, err := (&jobs{Cluster: c, api: api, namespace: namespace, options: o}).find(ctx, arg)
	if err != nil {
		return nil, err
	}
	specs, err := objects.Specs(j.object)
	if err != nil {
		return nil, fmt.Errorf("read the pods of %s: %w", j.at(), err)
	}
	for _, t := range append([]string{j.Leader(), training.Worker, training.Node}, j.Kind.Types()...) {
		r, ok := specs[t]
		if !ok {
			continue
		}
		template, err := objects.Template(&r)
		if err != nil {
			return nil, fmt.Errorf("read the pods of %s: %w", j.at(), err)
		}
		return &Found{Job: j.Job, Spec: template.Spec, Container: j.Kind.Container()}, nil
	}
	return nil, fmt.Errorf("%s has no pods to read", j.at())
}
