package train

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/explain"
	"berth.dev/berth/kube/request"
)

// fromNotebook is `berth notebook to-job`.
type fromNotebook struct {
	making
	book notebook.Command
	name string
	want wanted // of it: framework, replicas, and command
}

// NewFromNotebook makes `berth notebook to-job`.
func NewFromNotebook(o client.Options) *cobra.Command {
	n := &fromNotebook{making: making{command: command{options: o}}, book: notebook.Command{Options: o}}
	cmd := &cobra.Command{
		Use:   "to-job NAME [flags] [-- COMMAND...]",
		Short: "Create a training job from a notebook's image, volumes, environment, and GPUs",
		Long: "Create a PyTorchJob or TFJob whose pods have the image, volumes, environment, GPUs, CPU, and memory of a notebook,\n" +
			"and run COMMAND. It prints what of the notebook is left out. The notebook is not changed.",
		Example: "  berth notebook to-job ada -- python train.py\n" +
			"  berth notebook to-job ada --replicas 4 --name ada-large --dry-run -o yaml -- python train.py",
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); len(args) == 0 || dash == 0 || dash != 1 && len(args) > 1 {
				return term.Usagef("%s takes one name, and the command of the program after --", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: n.completeBooks,
		RunE: func(cmd *cobra.Command, args []string) error {
			n.want.command = args[1:]
			n.want.name = cmp.Or(n.name, args[0])
			return n.run(cmd.Context(), args[0])
		},
	}
	n.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&n.name, "name", "", "name of the job (default: the notebook's)")
	f.StringVar(&n.want.framework, "framework", torch, "torch (a PyTorchJob) or tensorflow (a TFJob)")
	f.IntVar(&n.want.replicas, "replicas", 1, "number of pods, each with the GPUs of the notebook")
	_ = cmd.RegisterFlagCompletionFunc("framework", cobra.FixedCompletions([]string{torch, tensorflow}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// completeBooks completes the name of a notebook.
func (n *fromNotebook) completeBooks(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	n.book.Cluster = n.cluster
	return n.book.CompleteNames(cmd, args, typed)
}

func (n *fromNotebook) run(ctx context.Context, name string) error {
	n.want.image = "of the notebook"
	if err := cmp.Or(n.check(), n.want.check()); err != nil {
		return err
	}
	if len(n.want.command) == 0 {
		return term.Usagef("the command of the program is missing: write it after --, as in `%s notebook to-job %s -- python train.py`", n.options.Name, name)
	}
	n.book.Cluster = n.cluster
	books, err := n.book.Connect()
	if err != nil {
		return err
	}
	nb, err := books.Get(ctx, name)
	if err != nil {
		return err
	}
	pod, omitted, err := podOf(nb, n.want.kind().Container(), n.want.command)
	if err != nil {
		return err
	}
	u, err := build(n.want.kind(), books.Namespace, n.want.name, n.want.replicas, pod.Labels, pod.Annotations, &pod.Spec)
	if err != nil {
		return err
	}
	for _, text := range omitted {
		term.PrintLine(n.options.Err, "left out: "+text)
	}
	for _, text := range heldVolumes(ctx, books, nb, &pod.Spec, n.want.replicas) {
		term.PrintLine(n.options.Err, "warning: "+text)
	}
	if n.dryRun == dryClient {
		return n.print(u, nil)
	}
	j := &jobs{Cluster: books.Cluster, api: books.Client, namespace: books.Namespace, options: n.options}
	made, err := j.create(ctx, n.want.kind(), u, nil, n.dryRun == dryServer)
	if err != nil {
		return err
	}
	return n.print(made, nil)
}

// podOf is a pod of a job made from a notebook, and what of the notebook it does not have, in sentences.
func podOf(nb *kubeflow.Notebook, container string, command []string) (pod *v1.Pod, omitted []string, err error) {
	var spec v1.PodSpec
	if err := json.Unmarshal(nb.Spec.Template.Spec.Raw, &spec); err != nil {
		return nil, nil, fmt.Errorf("notebook %s/%s: spec.template.spec: not a pod spec: %w", nb.Namespace, nb.Name, err)
	}
	if len(spec.Containers) == 0 {
		return nil, nil, fmt.Errorf("notebook %s/%s has no container", nb.Namespace, nb.Name)
	}
	main := slices.IndexFunc(spec.Containers, func(c v1.Container) bool { return c.Name == nb.Name })
	c := spec.Containers[max(0, main)]
	say := func(format string, args ...any) { omitted = append(omitted, fmt.Sprintf(format, args...)) }
	for i, other := range spec.Containers {
		if i != max(0, main) {
			say("container %s, which would keep the pod running after the program has ended", other.Name)
		}
	}
	for _, init := range spec.InitContainers {
		if request.IsSidecar(&init) {
			say("init container %s, which runs beside the notebook", init.Name)
		}
	}
	spec.InitContainers = slices.DeleteFunc(spec.InitContainers, func(c v1.Container) bool { return request.IsSidecar(&c) })
	if len(c.Command)+len(c.Args) > 0 {
		say("the command of the notebook server: %s", strings.Join(slices.Concat(c.Command, c.Args), " "))
	}
	if len(c.Ports) > 0 {
		say("ports of the notebook server")
	}
	if c.ReadinessProbe != nil || c.LivenessProbe != nil || c.StartupProbe != nil {
		say("probes of the notebook server")
	}
	if c.Lifecycle != nil {
		say("lifecycle hooks of the notebook server")
	}
	c.Name, c.Command, c.Args = container, command, nil
	c.Ports, c.Lifecycle, c.ReadinessProbe, c.LivenessProbe, c.StartupProbe = nil, nil, nil, nil, nil
	spec.Containers = []v1.Container{c}
	spec.RestartPolicy, spec.Hostname, spec.Subdomain = "", "", ""
	pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: spec}
	for name, value := range nb.Annotations {
		if kept(name) {
			pod.Annotations[name] = value
		}
	}
	return pod, omitted, nil
}

// kept reports whether an annotation of a notebook is a part of its request for GPUs.
func kept(name string) bool {
	return slices.Contains([]string{api.AnnotationSharesDo, api.AnnotationKAIFraction, api.AnnotationKAIMemory, api.AnnotationKAIDevices}, name)
}

// heldVolumes are warnings about volumes that the replicas cannot use while the notebook does, or not all together.
func heldVolumes(ctx context.Context, n *notebook.Notebooks, nb *kubeflow.Notebook, spec *v1.PodSpec, replicas int) []string {
	var out []string
	stopped := notebook.State(nb) == explain.Stopped
	for _, v := range spec.Volumes {
		if v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ReadOnly {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
		claim, err := n.CoreV1().PersistentVolumeClaims(n.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			continue // it may not be read; the job's pods say if it does not exist
		}
		modes := claim.Spec.AccessModes
		stop := fmt.Sprintf("`%s notebook stop %s` frees it", n.Program(), nb.Name)
		switch {
		case slices.Contains(modes, v1.ReadWriteMany):
		case slices.Contains(modes, v1.ReadWriteOncePod) && !stopped:
			out = append(out, fmt.Sprintf("volume %s is ReadWriteOncePod, and the notebook uses it, so the job cannot start; %s", name, stop))
		case slices.Contains(modes, v1.ReadWriteOnce) && !stopped:
			out = append(out, fmt.Sprintf("volume %s is ReadWriteOnce, and the notebook uses it on %s, so the job can only run on that node; %s", name, notebook.Place(nb), stop))
		case replicas > 1:
			out = append(out, fmt.Sprintf("volume %s is not ReadWriteMany, so all %d replicas have to run on one node", name, replicas))
		}
	}
	return out
}
