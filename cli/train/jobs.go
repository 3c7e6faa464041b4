package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
	"berth.dev/berth/kube/trainjob"
)

// roleTrainingUser is the ClusterRole that lets a user have training jobs.
const roleTrainingUser = "berth-training-user"

// jobs are the training jobs of one namespace of a cluster.
type jobs struct {
	*client.Cluster
	api       dynamic.Interface
	namespace string
	options   client.Options
}

// job is a training job as it is written, and as core reads it.
type job struct {
	training.Job
	object  objects.Object
	problem string // why it cannot be read; "" is that it can
	far     progress
}

// kinds are the kinds of training jobs, in the order in which they are listed.
func kinds() []training.Kind {
	return []training.Kind{training.PyTorchJob, training.TFJob, training.TrainJob}
}

// short is a kind as people write it, such as tfjob.
func short(kind training.Kind) string { return strings.ToLower(string(kind)) }

// title is a job as people write it, such as tfjob/mnist.
func (j *job) title() string { return short(j.Kind) + "/" + j.Name }

// at is the job with its namespace, as messages name it.
func (j *job) at() string { return short(j.Kind) + " " + j.Namespace + "/" + j.Name }

// in is the client for a kind of jobs in a namespace; "" is all.
func (j *jobs) in(kind training.Kind, namespace string) dynamic.ResourceInterface {
	of := j.api.Resource(objects.ResourceOf(string(kind)))
	if namespace == "" {
		return of
	}
	return of.Namespace(namespace)
}

// list returns the jobs of a namespace, or of all if it is "", by namespace, name, and kind. A kind that is not
// served has none; it is an error if no kind is served.
func (j *jobs) list(ctx context.Context, namespace, selector string) ([]*job, error) {
	var out []*job
	missing := 0
	for _, kind := range kinds() {
		found, err := j.in(kind, namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
		if notebook.NoSuchKind(err) {
			if missing++; missing == len(kinds()) {
				return nil, j.refused("list training jobs", "list", err)
			}
			continue
		}
		if err != nil {
			return nil, j.refused("list "+short(kind)+"s", "list", err)
		}
		for i := range found.Items {
			one, err := read(kind, &found.Items[i])
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b *job) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return out, nil
}

// read reads a job from its JSON. One whose spec makes no sense is read as far as it does.
func read(kind training.Kind, u *unstructured.Unstructured) (*job, error) {
	o, err := objects.Decode(string(kind), u.Object)
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	out := &job{object: o}
	if out.Job, err = objects.Of(o); err != nil && !errors.Is(err, trainjob.ErrNoRuntime) {
		out.problem = err.Error()
	}
	return out, nil
}

// find returns the job of a name, or of KIND/NAME. Two of one name are an error that says how to name one.
func (j *jobs) find(ctx context.Context, arg string) (*job, error) {
	looked, name, err := parse(arg)
	if err != nil {
		return nil, err
	}
	var out *job
	absent := 0
	for _, kind := range looked {
		found, err := j.in(kind, j.namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case notebook.NoSuchKind(err) && absent+1 < len(looked):
			absent++
			continue
		case apierrors.IsNotFound(err) && !notebook.NoSuchKind(err):
			continue
		case err != nil:
			return nil, j.refused("read "+short(kind)+" "+j.namespace+"/"+name, "get", err)
		case out != nil:
			return nil, fmt.Errorf("namespace %s has a %s and a %s named %s: write %s or %s/%s", j.namespace, out.Kind, kind, name, out.title(), short(kind), name)
		}
		if out, err = read(kind, found); err != nil {
			return nil, err
		}
	}
	if out == nil {
		return nil, j.unknown(ctx, name)
	}
	return out, nil
}

// parse reads NAME or KIND/NAME: the kinds to look at, and the name.
func parse(arg string) ([]training.Kind, string, error) {
	prefix, name, both := strings.Cut(arg, "/")
	if !both {
		return kinds(), arg, nil
	}
	plain, _, _ := strings.Cut(strings.ToLower(prefix), ".")
	for _, kind := range kinds() {
		if strings.TrimSuffix(plain, "s") == short(kind) && name != "" {
			return []training.Kind{kind}, name, nil
		}
	}
	return nil, "", term.Usagef("invalid job %q: must be NAME, tfjob/NAME, pytorchjob/NAME, or trainjob/NAME", arg)
}

// unknown says that there is no job of a name, and which there are.
func (j *jobs) unknown(ctx context.Context, name string) error {
	list, err := j.list(ctx, j.namespace, "")
	if err != nil {
		return fmt.Errorf("there is no training job %s in namespace %s", name, j.namespace)
	}
	var here []string
	for _, o := range list {
		here = append(here, o.Name)
	}
	switch near := gpu.NearestWord(name, here); {
	case near != "":
		return fmt.Errorf("there is no training job %s in namespace %s; did you mean %s?", name, j.namespace, near)
	case len(here) == 0:
		return fmt.Errorf("there is no training job %s in namespace %s, which has none; `%s train create` creates one", name, j.namespace, j.options.Name)
	}
	return fmt.Errorf("there is no training job %s in namespace %s; existing jobs: %s", name, j.namespace, term.FitList("", here, term.PlainWidth/2))
}

// patch changes fields of a job by a merge patch. It changes nothing if the job is another one by now, or, with a
// version, if it was changed.
func (j *jobs) patch(ctx context.Context, o *job, what, version string, change map[string]any) error {
	meta, _ := change["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["uid"] = string(o.object.GetUID())
	if version != "" {
		meta["resourceVersion"] = version
	}
	change["metadata"] = meta
	raw, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, o.at(), err)
	}
	_, err = j.in(o.Kind, j.namespace).Patch(ctx, o.Name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "berth"})
	return j.refused(what+" "+o.at(), "patch", err)
}

// refused explains what a call about jobs returned: kinds that are not served, or what Failed says of all
// calls.
func (j *jobs) refused(what, verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case notebook.NoSuchKind(err):
		return fmt.Errorf("%s on %s: this cluster does not serve training jobs; install `%s controller` or Kubeflow's training-operator", what, j.Name, j.options.Name)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%s: another client changed it at the same time; try again", what)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot "+verb+" resource"):
		return fmt.Errorf("%s on %s: %w; an administrator can grant it with `kubectl create rolebinding training -n %s --clusterrole=%s --user=NAME`",
			what, j.Name, err, j.namespace, roleTrainingUser)
	}
	return j.Failed(what, err)
}
