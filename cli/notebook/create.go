package notebook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
)

// notebookCreate is `berth notebook create`.
type notebookCreate struct {
	Command
	spec    notebookSpec
	profile ProfileChoice
	dryRun  string
	output  string
	wait    bool
	timeout time.Duration
}

func newNotebookCreate(o client.Options, prospects Prospects) *cobra.Command {
	c := &notebookCreate{Command: Command{Options: o, prospects: prospects}}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a notebook with GPUs and volumes",
		Long: "Create a notebook. The default image is one of Kubeflow's, with CUDA if the notebook requests a GPU. A new\n" +
			"volume NAME-workspace is mounted at " + homePath + ", unless --volume mounts one there or --new-volume is\n" +
			"none. The defaults for CPU and memory are 1 and 4Gi; --memory is also the memory limit.\n" +
			"Exit codes with --wait: 0 ready, 1 it cannot start without a change, 5 not ready in time.",
		Example: "  berth notebook create ada --gpus 1 --wait\n" +
			"  berth notebook create small --gpu-memory 6\n" +
			"  berth notebook create slice --mig 1g.5gb --volume home-ada --volume data:/data\n" +
			"  berth notebook create ada --profile t4 --option image=pytorch --wait\n" +
			"  berth notebook create ada --gpus 2 --node-selector nvidia.com/gpu.product=Tesla-T4 --dry-run=client -o yaml",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.spec.name = args[0]
			if err := c.profile.check(cmd); err != nil {
				return err
			}
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			return c.run(ctx)
		},
	}
	c.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&c.spec.image, "image", "", "image, with its tag")
	f.IntVar(&c.spec.gpus, "gpus", 0, "number of GPUs")
	f.IntVar(&c.spec.gpuMemory, "gpu-memory", 0, "GPU memory in GiB: a share of one GPU, or with --gpus the minimum of each GPU")
	f.StringVar(&c.spec.mig, "mig", "", "MIG devices: a profile such as 1g.5gb, or 1g.5gb=2 for two devices")
	f.StringVar(&c.spec.cpu, "cpu", "", "CPUs, such as 4 or 500m")
	f.StringVar(&c.spec.memory, "memory", "", "memory, such as 16Gi")
	f.StringArrayVar(&c.spec.volumes, "volume", nil, "mount a PersistentVolumeClaim: CLAIM (at "+homePath+") or CLAIM:PATH (repeatable)")
	f.StringVar(&c.spec.newVolume, "new-volume", "", "size of the new volume (default "+volumeSize+"), or none")
	f.StringToStringVar(&c.spec.nodeSelector, "node-selector", nil, "label that the node must have, as KEY=VALUE (repeatable)")
	f.StringVar(&c.dryRun, "dry-run", "", "client: create nothing and contact no server; server: validate on the API server only")
	f.StringVarP(&c.output, "output", "o", "", "yaml, json, or name: print what is created")
	c.profile.flags(cmd)
	addWaitFlags(cmd, &c.wait, &c.timeout)
	return cmd
}

// checkFlags refuses flags that cannot go together.
func (c *notebookCreate) checkFlags() error {
	switch {
	case c.dryRun != "" && c.dryRun != "client" && c.dryRun != "server":
		return term.Usagef("invalid --dry-run %q: must be client or server", c.dryRun)
	case c.output != "" && c.output != "yaml" && c.output != "json" && c.output != term.OutputName:
		return term.Usagef("invalid --output %q: must be yaml, json, or name", c.output)
	case c.wait && c.dryRun != "":
		return term.Usagef("--wait cannot be used with --dry-run")
	case c.timeout < 0:
		return term.Usagef("invalid --timeout %v: must not be negative", c.timeout)
	case c.timeout > 0 && !c.wait:
		return term.Usagef("--timeout requires --wait")
	}
	return c.spec.check()
}

func (c *notebookCreate) run(ctx context.Context) error {
	if err := c.checkFlags(); err != nil {
		return err
	}
	alone := c.dryRun == "client" && c.profile.Name == "" // no cluster is needed
	var err error
	if c.spec.namespace, err = c.Cluster.Namespace(); err != nil && !alone {
		return err
	}
	c.spec.namespace = cmp.Or(c.spec.namespace, "default")
	if alone {
		nb, claim, err := c.spec.build()
		if err != nil {
			return err
		}
		return c.print(nb, claim)
	}
	n, err := c.Connect()
	if err != nil {
		return err
	}
	nb, claim, err := c.made(ctx, n)
	if err != nil {
		return err
	}
	if c.dryRun == "client" {
		return c.print(nb, claim)
	}
	c.warn(ctx, n, nb, claim)
	made, err := c.create(ctx, n, nb, claim)
	if err != nil {
		return err
	}
	if err := c.print(made, claim); err != nil || !c.wait {
		return err
	}
	ready, err := n.untilReady(ctx, nb.Name, c.timeout, c.Options.Err, nil)
	if err != nil {
		return err
	}
	term.Printf(c.Options.Err, "ready on %s; `%s notebook open %s` opens it\n", Place(ready), n.Program(), nb.Name)
	return nil
}

// made is the notebook that is wanted, and its claim or nil.
func (c *notebookCreate) made(ctx context.Context, n *Notebooks) (*kubeflow.Notebook, *v1.PersistentVolumeClaim, error) {
	me := n.WhoAmI(ctx)
	if c.profile.Name != "" {
		return n.fromProfile(ctx, &c.profile, me, c.spec.name)
	}
	c.spec.creator = personOf(me)
	return c.spec.build()
}

// WhoAmI is the user as the API server knows them; empty where it does not tell.
func (n *Notebooks) WhoAmI(ctx context.Context) authenticationv1.UserInfo {
	r, err := n.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || r == nil {
		return authenticationv1.UserInfo{} // a courtesy: the notebook is made without it
	}
	return r.Status.UserInfo
}

// personOf is the name of a user who is a person, as far as can be told.
func personOf(u authenticationv1.UserInfo) string {
	for _, g := range u.Groups {
		if g == "system:masters" || g == api.GroupAdmins || g == "system:serviceaccounts" {
			return ""
		}
	}
	return u.Username
}

// warn tells on stderr what is doubtful, before anything waits for it.
func (c *notebookCreate) warn(ctx context.Context, n *Notebooks, nb *kubeflow.Notebook, own *v1.PersistentVolumeClaim) {
	say := func(text string) {
		if text != "" {
			term.PrintLine(c.Options.Err, "warning: "+text)
		}
	}
	spec := podSpec(nb)
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		say(reasons.ImageRemark(container.Image))
		say(n.cudaRemark(ctx, nb, &container))
	}
	for _, m := range claimsOf(nb) {
		if own != nil && m.claim == own.Name {
			continue
		}
		_, err := n.CoreV1().PersistentVolumeClaims(n.Namespace).Get(ctx, m.claim, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			say(fmt.Sprintf("namespace %s has no PersistentVolumeClaim %s: the notebook waits until it is created", n.Namespace, m.claim))
		}
	}
}

// cudaRemark says that the image of a container that may use GPUs needs a newer CUDA
// than the nodes' drivers give, as far as both can be told.
func (n *Notebooks) cudaRemark(ctx context.Context, nb *kubeflow.Notebook, c *v1.Container) string {
	require := ""
	for _, e := range c.Env {
		if e.Name == "NVIDIA_REQUIRE_CUDA" {
			require = e.Value
		}
	}
	need, from := reasons.RequiredCUDA(require, c.Image)
	if len(Asked(nb)) == 0 || need == (reasons.CUDA{}) {
		return ""
	}
	nodes, err := n.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return "" // the notebook's events tell
	}
	return reasons.CUDARemark(c.Image, need, from, explain.NewestCUDA(client.Pointers(nodes.Items), PodOf(nb)))
}

// create makes the claim, unless it is there, and the notebook.
func (c *notebookCreate) create(ctx context.Context, n *Notebooks, nb *kubeflow.Notebook, claim *v1.PersistentVolumeClaim) (*kubeflow.Notebook, error) {
	o := metav1.CreateOptions{FieldManager: "berth"}
	if c.dryRun == "server" {
		o.DryRun = []string{metav1.DryRunAll}
	}
	object, err := ToObject(nb)
	if err != nil {
		return nil, err
	}
	if err := n.vacant(ctx, nb.Name); err != nil {
		return nil, err
	}
	// The claim first: a pod that looks for it in vain is tried again only later.
	undo := func() error { return nil }
	if claim != nil {
		if undo, err = n.makeClaim(ctx, claim, o, c.Options.Err); err != nil {
			return nil, err
		}
	}
	made, err := n.In(n.Namespace).Create(ctx, object, o)
	if err != nil {
		return nil, errors.Join(n.refusal(nb.Name, err), undo())
	}
	return FromObject(made)
}

// vacant refuses a name that is taken, and a cluster that serves no notebooks. Who
// may not read notebooks is not told here.
func (n *Notebooks) vacant(ctx context.Context, name string) error {
	was, err := n.In(n.Namespace).Get(ctx, name, metav1.GetOptions{})
	if NoSuchKind(err) {
		return n.Refused("create notebook "+n.Namespace+"/"+name, "create", err)
	}
	if err != nil {
		return nil //nolint:nilerr // the next call tells
	}
	nb, err := FromObject(was)
	if err != nil {
		return err
	}
	return fmt.Errorf("notebook %s/%s already exists: %s; choose another name, or `%s notebook delete %s`",
		n.Namespace, name, StateSentence(nb), n.Program(), name)
}

// makeClaim makes a volume claim, or says that the one of its name is used. undo
// takes away what it made.
func (n *Notebooks) makeClaim(ctx context.Context, claim *v1.PersistentVolumeClaim, o metav1.CreateOptions, w io.Writer) (undo func() error, err error) {
	keep := func() error { return nil }
	claims := n.CoreV1().PersistentVolumeClaims(n.Namespace)
	made, err := claims.Create(ctx, claim, o)
	switch {
	case apierrors.IsAlreadyExists(err):
		term.Printf(w, "PersistentVolumeClaim %s already exists: it is used, with its data\n", claim.Name)
		return keep, nil
	case apierrors.IsNotFound(err):
		return keep, n.noNamespace("create PersistentVolumeClaim " + claim.Name)
	case err != nil:
		return keep, n.Refused("create PersistentVolumeClaim "+claim.Name, "create", err)
	case len(o.DryRun) > 0:
		return keep, nil
	}
	return func() error {
		err := claims.Delete(ctx, claim.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID}})
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		return n.Failed("delete PersistentVolumeClaim "+claim.Name+" again", err)
	}, nil
}

func (n *Notebooks) noNamespace(what string) error {
	return fmt.Errorf("%s: there is no namespace %s; `kubectl create namespace %s` creates it", what, n.Namespace, n.Namespace)
}

// refusal explains why a notebook was not made.
func (n *Notebooks) refusal(name string, err error) error {
	what := "create notebook " + n.Namespace + "/" + name
	if apierrors.IsNotFound(err) && !NoSuchKind(err) {
		return n.noNamespace(what)
	}
	return n.Refused(what, "create", err)
}

// print writes what is made in the form asked for.
func (c *notebookCreate) print(nb *kubeflow.Notebook, claim *v1.PersistentVolumeClaim) error {
	suffix := ""
	if c.dryRun != "" {
		suffix = " (" + map[string]string{"client": "dry run", "server": "server dry run"}[c.dryRun] + ")"
	}
	switch c.output {
	case "":
		_, err := term.Printf(c.Options.Out, "notebook.kubeflow.org/%s created%s\n", nb.Name, suffix)
		return err
	case term.OutputName:
		_, err := term.Printf(c.Options.Out, "notebook.kubeflow.org/%s\n", nb.Name)
		return err
	}
	object, err := ToObject(nb)
	if err != nil {
		return err
	}
	var p printers.ResourcePrinter = &term.YAMLPrinter{}
	if c.output == "json" {
		p = &printers.JSONPrinter{}
	}
	var objects []runtime.Object
	if claim != nil && c.dryRun != "" {
		objects = append(objects, claim)
	}
	var failed []error
	for _, o := range append(objects, object) {
		failed = append(failed, p.PrintObj(o, term.Exact(c.Options.Out)))
	}
	return errors.Join(failed...)
}
