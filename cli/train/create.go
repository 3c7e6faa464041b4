package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/training"
)

// making is what all commands that make a job have.
type making struct {
	command
	dryRun string
	output string
}

// addFlags adds the flags of all commands that make a job.
func (m *making) addFlags(cmd *cobra.Command) {
	m.command.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&m.dryRun, "dry-run", "", "client: create nothing; server: validate on the API server only; without a value it is client")
	f.Lookup("dry-run").NoOptDefVal = dryClient
	f.StringVarP(&m.output, "output", "o", "", "yaml, json, or name: print what is created")
}

// The values of --dry-run.
const (
	dryClient = "client"
	dryServer = "server"
)

// check refuses flags that cannot be understood.
func (m *making) check() error {
	switch {
	case m.dryRun != "" && m.dryRun != dryClient && m.dryRun != dryServer:
		return term.Usagef("invalid --dry-run %q: must be client or server", m.dryRun)
	case m.output != "" && m.output != "yaml" && m.output != "json" && m.output != term.OutputName:
		return term.Usagef("invalid --output %q: must be yaml, json, or name", m.output)
	}
	return nil
}

// create is `berth train create`.
type create struct {
	making
	want wanted
	code string
}

func newCreate(o client.Options) *cobra.Command {
	c := &create{making: making{command: command{options: o}}}
	cmd := &cobra.Command{
		Use:   "create NAME --image IMAGE [flags] [-- COMMAND...]",
		Short: "Create a training job",
		Long: "Create a PyTorchJob with a Master and workers, or a TFJob with a Chief and workers. Its pods start together or not at\n" +
			"all. They find each other by the environment that torch.distributed, torchrun, and TensorFlow read. COMMAND\n" +
			"replaces the entrypoint of the image. When the job ends, pods that still run are deleted, so they free their GPUs.\n" +
			"--code copies the files of a folder into a ConfigMap, at most 1 MiB, which is mounted read-only at /code and deleted\n" +
			"with the job. Files and folders whose names begin with a dot, __pycache__, and symbolic links are left out.",
		Example: "  berth train create bert --image pytorch/pytorch:2.6.0 --replicas 4 --gpus 1 --code ./src -- python /code/train.py\n" +
			"  berth train create big --image pytorch/pytorch:2.6.0 --replicas 2 --gpus 8 --volume data:/data -- torchrun /data/train.py\n" +
			"  berth train create mnist --framework tensorflow --image tensorflow/tensorflow:2.14.0-gpu --gpus 1 --dry-run -o yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); len(args) == 0 || dash == 0 || dash != 1 && len(args) > 1 {
				return term.Usagef("%s takes one name, and the command of the program after --", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.want.name, c.want.command = args[0], args[1:]
			return c.run(cmd.Context())
		},
	}
	c.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&c.want.framework, "framework", torch, "torch (a PyTorchJob) or tensorflow (a TFJob)")
	f.StringVar(&c.want.image, "image", "", "image that the program runs in, with its tag")
	f.IntVar(&c.want.replicas, "replicas", 1, "number of pods")
	f.IntVar(&c.want.gpus, "gpus", 0, "GPUs of each pod")
	f.StringVar(&c.code, "code", "", "folder with small files, mounted at /code")
	f.StringVar(&c.want.cpu, "cpu", "", "CPUs of each pod, such as 4 or 500m")
	f.StringVar(&c.want.memory, "memory", "", "memory of each pod, such as 16Gi")
	f.StringArrayVar(&c.want.env, "env", nil, "environment variable, as NAME=VALUE (repeatable)")
	f.StringArrayVar(&c.want.volumes, "volume", nil, "mount a PersistentVolumeClaim, as CLAIM:PATH (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("framework", cobra.FixedCompletions([]string{torch, tensorflow}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (c *create) run(ctx context.Context) error {
	if err := cmp.Or(c.check(), c.want.check()); err != nil {
		return err
	}
	namespace, err := c.cluster.Namespace()
	if err != nil && c.dryRun != dryClient {
		return err
	}
	c.want.namespace = cmp.Or(namespace, "default")
	spec := c.want.pod()
	var files *v1.ConfigMap
	if c.code != "" {
		read, err := readCode(c.code)
		if err != nil {
			return err
		}
		files = read.configMap(c.want.namespace, c.want.name)
		read.mount(&spec, files.Name)
	}
	u, err := build(c.want.kind(), c.want.namespace, c.want.name, c.want.replicas, nil, nil, &spec)
	if err != nil {
		return err
	}
	if text := reasons.ImageRemark(c.want.image); text != "" {
		term.PrintLine(c.options.Err, "warning: "+text)
	}
	return c.make(ctx, c.want.kind(), u, files)
}

// make creates a job, and its files or nil, and prints what was asked for.
func (m *making) make(ctx context.Context, kind training.Kind, u *unstructured.Unstructured, files *v1.ConfigMap) error {
	if m.dryRun == dryClient {
		return m.print(u, files)
	}
	j, err := m.connect()
	if err != nil {
		return err
	}
	made, err := j.create(ctx, kind, u, files, m.dryRun == dryServer)
	if err != nil {
		return err
	}
	return m.print(made, files)
}

// create creates the files and then the job, which owns them from then on. Pods that look for files in vain would be
// tried again only later.
func (j *jobs) create(ctx context.Context, kind training.Kind, u *unstructured.Unstructured, files *v1.ConfigMap, dry bool) (*unstructured.Unstructured, error) {
	o := metav1.CreateOptions{FieldManager: "berth"}
	if dry {
		o.DryRun = []string{metav1.DryRunAll}
	}
	what := "create " + short(kind) + " " + j.namespace + "/" + u.GetName()
	_, err := j.in(kind, j.namespace).Get(ctx, u.GetName(), metav1.GetOptions{})
	switch {
	case err == nil:
		return nil, fmt.Errorf("%s: it already exists; choose another name, or `%s train delete %s/%s`", what, j.options.Name, short(kind), u.GetName())
	case notebook.NoSuchKind(err):
		return nil, j.refused(what, "create", err)
	}
	undo := func() error { return nil }
	if files != nil {
		if undo, err = j.createFiles(ctx, files, o); err != nil {
			return nil, err
		}
	}
	made, err := j.in(kind, j.namespace).Create(ctx, u, o)
	if apierrors.IsNotFound(err) && !notebook.NoSuchKind(err) {
		err = fmt.Errorf("%s: there is no namespace %s; `kubectl create namespace %[2]s` creates it", what, j.namespace)
		return nil, errors.Join(err, undo())
	}
	if err != nil {
		return nil, errors.Join(j.refused(what, "create", err), undo())
	}
	if files != nil && !dry {
		if err := j.own(ctx, made, files.Name); err != nil {
			term.Printf(j.options.Err, "warning: %v; delete ConfigMap %s when you delete the job\n", err, files.Name)
		}
	}
	return made, nil
}

// createFiles creates a ConfigMap. undo deletes it again.
func (j *jobs) createFiles(ctx context.Context, files *v1.ConfigMap, o metav1.CreateOptions) (undo func() error, err error) {
	maps, what := j.CoreV1().ConfigMaps(j.namespace), "create ConfigMap "+files.Name
	made, err := maps.Create(ctx, files, o)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("%s: it already exists in namespace %s; choose another name for the job, or `kubectl delete configmap -n %[2]s %[3]s`", what, j.namespace, files.Name)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s: there is no namespace %s; `kubectl create namespace %[2]s` creates it", what, j.namespace)
	case err != nil:
		return nil, j.Failed(what, err)
	case len(o.DryRun) > 0:
		return func() error { return nil }, nil
	}
	return func() error {
		err := maps.Delete(ctx, files.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID}})
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		return j.Failed("delete ConfigMap "+files.Name+" again", err)
	}, nil
}

// own has a job own a ConfigMap, which is deleted with it.
func (j *jobs) own(ctx context.Context, made *unstructured.Unstructured, name string) error {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{{
		APIVersion: kubeflow.GroupVersion.String(), Kind: made.GetKind(), Name: made.GetName(), UID: made.GetUID(),
	}}}})
	if err != nil {
		return err
	}
	_, err = j.CoreV1().ConfigMaps(j.namespace).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "berth"})
	return j.Failed("set the owner of ConfigMap "+name, err)
}

// print writes what is made in the form asked for.
func (m *making) print(u *unstructured.Unstructured, files *v1.ConfigMap) error {
	name := resourceName(training.Kind(u.GetKind()), u.GetName())
	suffix := map[string]string{dryClient: " (dry run)", dryServer: " (server dry run)"}[m.dryRun]
	switch m.output {
	case "":
		_, err := term.Printf(m.options.Out, "%s created%s\n", name, suffix)
		return err
	case term.OutputName:
		_, err := term.PrintLine(m.options.Out, name)
		return err
	}
	u.SetManagedFields(nil)
	var p printers.ResourcePrinter = &term.YAMLPrinter{}
	if m.output == "json" {
		p = &printers.JSONPrinter{}
	}
	var objects []runtime.Object
	if files != nil && m.dryRun != "" {
		objects = append(objects, files)
	}
	var failed []error
	for _, o := range append(objects, u) {
		failed = append(failed, p.PrintObj(o, term.Exact(m.options.Out)))
	}
	return errors.Join(failed...)
}
